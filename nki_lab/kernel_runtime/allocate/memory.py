"""One memory as intervals of bytes with their last owners: where there is room now, and the owners before."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

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


FREE: Final = -1


class FreeIntervals:
    """A memory seen from partitions that are always occupied together.

    Interval i goes from `starts[i]` to the next start and belongs to `owners[i]`: the number of a buffer, FREE, or (-2,
    -3, ...) a group of placed buffers that share the bytes. A buffer has left when its last access lies before now.
    """

    __slots__ = ("groups", "last", "owners", "size", "starts")

    def __init__(self, size: int, last: list[int]) -> None:
        self.size = size
        self.last = last
        self.starts = [0, size]
        self.owners = [FREE, FREE]
        self.groups: list[tuple[int, ...]] = []

    def gap(self, start: int, size: int, now: int, limit: int, step: int) -> int:
        """Lowest multiple of `step` from `start` on with `size` free bytes that end by `limit`; -1 without one.

        `limit` is at most the size of the memory.
        """
        starts, owners, last = self.starts, self.owners, self.last
        at = -(-start // step) * step
        if at + size > limit:
            return -1
        row = bisect_right(starts, at) - 1
        while True:
            owner = owners[row]
            row += 1
            end = starts[row]
            if (owner >= 0 and last[owner] >= now) or (owner < FREE and self._busy(owner, now)):
                if end > at:
                    at = -(-end // step) * step
                    if at + size > limit:
                        return -1
            elif end >= at + size:
                return at

    def put(self, number: int, start: int, end: int, now: int) -> list[int]:
        """Give bytes `start` to `end` to a buffer; return the owners of these bytes until now, also those that left."""
        starts, owners, last = self.starts, self.owners, self.last
        first = bisect_right(starts, start) - 1
        after = bisect_left(starts, end, first)
        found = owners[first:after]
        if all(owner == FREE or (owner >= 0 and last[owner] < now) for owner in found):
            # Everybody has left: one interval takes the place of all, with what remains of the outer two.
            bounds, given = [start], [number]
        else:
            bounds = [max(starts[row], start) for row in range(first, after)]
            given = [number if not self._busy(one, now) else self._group(one, number, now) for one in found]
        if starts[first] < start:
            bounds.insert(0, starts[first])
            given.insert(0, found[0])
        if starts[after] > end:
            bounds.append(end)
            given.append(found[-1])
        starts[first:after] = bounds
        owners[first:after] = given
        return [one for owner in found if owner != FREE for one in self._members(owner)]

    def _members(self, owner: int) -> tuple[int, ...]:
        if owner >= 0:
            return (owner,)
        return () if owner == FREE else self.groups[-owner - 2]

    def _busy(self, owner: int, now: int) -> bool:
        return any(self.last[one] >= now for one in self._members(owner))

    def _group(self, owner: int, number: int, now: int) -> int:
        self.groups.append((*[one for one in self._members(owner) if self.last[one] >= now], number))
        return -len(self.groups) - 1


def _end_of(span: tuple[int, int]) -> int:
    return span[1]


class Memory:
    """The intervals of all partitions of one memory. `parts` counts the sets of partitions that differ."""

    __slots__ = ("parts",)

    def __init__(self, size: int, last: list[int], parts: int) -> None:
        self.parts = [FreeIntervals(size, last) for _ in range(parts)]

    def find(
        self,
        parts: Sequence[int],
        start: int,
        size: int,
        now: int,
        limit: int,
        step: int,
        blocked: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Return `FreeIntervals.gap` in all of `parts`, outside the `blocked` (start, end), sorted and apart."""
        if len(parts) == 1 and not blocked:
            return self.parts[parts[0]].gap(start, size, now, limit, step)
        at, agreed, turn = start, 0, 0
        while agreed < len(parts):
            found = self.parts[parts[turn]].gap(at, size, now, limit, step)
            if found < 0:
                return -1
            agreed = agreed + 1 if found == at else 1
            at = found
            turn = (turn + 1) % len(parts)
            if agreed == len(parts):
                row = bisect_right(blocked, at, key=_end_of)
                while row < len(blocked) and blocked[row][0] < at + size:
                    at, agreed = blocked[row][1], 0
                    row += 1
        return at

    def put(self, parts: Sequence[int], number: int, start: int, end: int, now: int) -> set[int]:
        """`FreeIntervals.put` in all of `parts`."""
        if len(parts) == 1:
            return set(self.parts[parts[0]].put(number, start, end, now))
        return {other for part in parts for other in self.parts[part].put(number, start, end, now)}
