"""Tensors that users placed over each other."""

from __future__ import annotations

from nki_lab.kernel_runtime.allocate.lifetime import Lifetimes
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.tensor import Buffer


def share_bytes(a: Buffer, b: Buffer) -> bool:
    """Whether two placed tensors have bytes of a memory in common."""
    assert a.address is not None
    assert b.address is not None
    if a.space is not b.space:
        return False
    (p, x), (q, y) = a.address, b.address
    return p < q + b.partitions and q < p + a.partitions and x < y + b.partition_bytes and y < x + a.partition_bytes


def meeting(program: Program, times: Lifetimes) -> list[tuple[int, int]]:
    """Pairs of placed buffers that share bytes and have an op in common during their lives, the earlier first."""
    first, last = times.first, times.last
    rows = [buffer for buffer in program.buffers if buffer.address is not None and last[buffer.id] >= 0]
    rows.sort(key=lambda buffer: (first[buffer.id], buffer.id))
    live: list[Buffer] = []
    out = []
    for buffer in rows:
        now = first[buffer.id]
        live = [other for other in live if last[other.id] >= now]
        out += [(other.id, buffer.id) for other in live if share_bytes(other, buffer)]
        live.append(buffer)
    return out


def overlapping(pairs: list[tuple[int, int]], times: Lifetimes) -> list[tuple[int, int]]:
    """Those that live at the same time.

    An op that reads one for the last time while it first writes the other works in place: that is no overlap.
    """
    return [(a, b) for a, b in pairs if times.last[a] > times.first[b]]
