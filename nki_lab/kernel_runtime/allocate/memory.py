"""Placed tensors that share bytes."""

from __future__ import annotations

from bisect import bisect_left

from nki_lab.kernel_runtime.allocate.lifetime import Lifetimes, Pairs
from nki_lab.kernel_runtime.footprint import box_of, share_bytes
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion


def sharing_bytes(program: Program, times: Lifetimes) -> Pairs:
    """Pairs of placed buffers that share bytes and have an op in common during their lives, the earlier first."""
    first, last = times.first, times.last
    rows = [buffer for buffer in program.buffers if buffer.address is not None and last[buffer.id] >= 0]
    rows.sort(key=lambda buffer: (first[buffer.id], buffer.id))
    intervals = _Intervals(rows)
    out = []
    for buffer in rows:
        now = first[buffer.id]
        found: dict[int, Buffer] = {}
        for place in intervals.of(buffer):
            live = intervals.live.get(place, [])
            intervals.live[place] = live = [other for other in live if last[other.id] >= now]
            found.update((other.id, other) for other in live)
            live.append(buffer)
        out += [(number, buffer.id) for number, other in sorted(found.items()) if share_bytes(other, buffer)]
    return out


class _Intervals:
    """The bytes of all memories, cut where some placed buffer begins or ends; `live` is for who lies there."""

    def __init__(self, placed: list[Buffer]) -> None:
        self.live: dict[tuple[MemoryRegion, int, int], list[Buffer]] = {}
        self._bounds: dict[tuple[MemoryRegion, int], list[int]] = {}
        for buffer in placed:
            *_, low, high = box_of(buffer)
            self._bounds.setdefault((buffer.space, buffer.core), []).extend((low, high))
        for memory, bounds in self._bounds.items():
            self._bounds[memory] = sorted(set(bounds))

    def of(self, buffer: Buffer) -> list[tuple[MemoryRegion, int, int]]:
        """The intervals that a buffer lies on."""
        bounds = self._bounds[buffer.space, buffer.core]
        *_, low, high = box_of(buffer)
        return [
            (buffer.space, buffer.core, place) for place in range(bisect_left(bounds, low), bisect_left(bounds, high))
        ]


def overlapping(pairs: Pairs, times: Lifetimes) -> Pairs:
    """Those that live at the same time.

    An op that reads one for the last time while it first writes the other works in place: that is no overlap.
    """
    return [(a, b) for a, b in pairs if times.last[a] > times.first[b]]
