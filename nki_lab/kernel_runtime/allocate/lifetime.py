"""From when to when each tensor is needed, and how many bytes of a memory that makes at any time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Accesses, Program, access_columns
from nki_lab.kernel_runtime.number_sets import distinct, ranked
from nki_lab.kernel_runtime.tensor import Buffer

Pairs = list[tuple[int, int]]
"""Numbers of buffers, the earlier first; or begins and ends."""

QUADRANTS: Final = 4
QUADRANT: Final = 32
"""Partitions of a quadrant: accesses start at one, so two tensors never share one (Trainium architecture guide)."""


class Lifetimes(NamedTuple):
    """Per buffer the ops of its first and last access, -1 where there is none; and the accesses behind that.

    A result that the kernel leaves on the chip lives to the end of its core's body, and what a device loop accesses
    lives while the loop runs: its body stands once, and every iteration finds its tensors where the first one did.
    """

    first: Column
    last: Column
    accesses: Accesses


def lifetimes(program: Program) -> Lifetimes:
    """When each buffer is needed. What a host observes while it runs the kernel does not count: the chip does not."""
    accesses = access_columns(program)
    count, end = len(program.buffers), len(program)
    first = np.full(count, end, np.int64)
    last = np.full(count, -1, np.int64)
    np.minimum.at(first, accesses.buffer, accesses.op)
    np.maximum.at(last, accesses.buffer, accesses.op)
    first[last < 0] = -1
    for region in program.regions:
        if region.parent < 0:
            inside = distinct(accesses.buffer[(accesses.op >= region.first) & (accesses.op < region.end)])
            first[inside] = np.minimum(first[inside], region.first)
            last[inside] = np.maximum(last[inside], region.end - 1)
    for buffer in (tensor._buffer for tensor in program.outputs):
        if buffer.on_chip and last[buffer.id] >= 0:
            last[buffer.id] = max(stop for _, stop, core in program.stretches if core == buffer.core) - 1
    return Lifetimes(first, last, accesses)


def quadrants_of(partition: int, partitions: int) -> range:
    """The quadrants that `partitions` partitions from `partition` on lie in."""
    return range(partition // QUADRANT, (min(partition + partitions, QUADRANTS * QUADRANT) - 1) // QUADRANT + 1)


class Load(NamedTuple):
    """Bytes of live tensors in a partition of each quadrant, from each op on: (steps, QUADRANTS)."""

    op: Column
    bytes: Column

    @property
    def fullest(self) -> Column:
        """Bytes in the fullest partition, a step."""
        found: Column = self.bytes.max(axis=1, initial=0)
        return found

    @property
    def least(self) -> Column:
        """Bytes in a partition if all tensors could be spread evenly: no arrangement needs less."""
        found: Column = -(-self.bytes.sum(axis=1) // QUADRANTS)
        return found


def load_of(
    buffers: list[Buffer],
    partitions: list[int],
    partition: list[int],
    size: list[int],
    times: Lifetimes,
    overlaps: Pairs,
) -> Load:
    """Return the bytes that `buffers`, of so many `partitions` from `partition` on, need over time. Bytes that placed
    tensors share count once.
    """
    ids = np.array([buffer.id for buffer in buffers], np.int64)
    low = np.array(partition, np.int64)
    high = np.minimum(low + partitions, QUADRANTS * QUADRANT) - 1
    numbers = np.arange(QUADRANTS)
    covers = (low[:, None] // QUADRANT <= numbers) & (numbers <= high[:, None] // QUADRANT)
    op = np.concatenate((times.first[ids], times.last[ids] + 1))
    change = covers * np.array(size, np.int64)[:, None]
    change = np.concatenate((change, -change))
    if overlaps:
        more_op, more = _shared_twice(buffers, partition, size, times, overlaps)
        op, change = np.concatenate((op, more_op)), np.concatenate((change, more))
    steps, position = ranked(op)
    order = np.argsort(position, kind="stable")
    ends = np.searchsorted(position[order], np.arange(len(steps)), side="right") - 1
    total = change[order].cumsum(axis=0)[ends]
    kept = np.any(np.diff(total, axis=0, prepend=-1) != 0, axis=1)
    kept &= steps < max(int(times.last.max(initial=-1)) + 1, 1)
    return Load(steps[kept], total[kept])


def _shared_twice(
    buffers: list[Buffer], partition: list[int], size: list[int], times: Lifetimes, overlaps: Pairs
) -> tuple[Column, Column]:
    """Changes that take back the bytes which live placed tensors have in common."""
    involved = {number for pair in overlaps for number in pair}
    rows = [row for row, buffer in enumerate(buffers) if buffer.id in involved]
    starts = np.array([buffers[row].address[1] for row in rows], np.int64)  # type: ignore[index]
    ends = starts + np.array([size[row] for row in rows], np.int64)
    # Between two neighbouring bounds all bytes are alike: what counts is how many tensors lie on each such interval.
    bounds = distinct(np.concatenate((starts, ends)))
    length = np.diff(bounds)
    low, high = np.searchsorted(bounds, starts).tolist(), np.searchsorted(bounds, ends).tolist()
    counts = np.zeros((QUADRANTS, len(length)), np.int64)
    events = []
    for place, row in enumerate(rows):
        number = buffers[row].id
        events += [(int(times.last[number]) + 1, -1, place), (int(times.first[number]), 1, place)]
    surplus = np.zeros(QUADRANTS, np.int64)
    ops: list[int] = []
    totals: list[Column] = []
    for op, by, place in sorted(events):
        covered = quadrants_of(partition[rows[place]], buffers[rows[place]].partitions)
        here = slice(covered.start, covered.stop), slice(low[place], high[place])
        if by < 0:
            counts[here] -= 1
        surplus[here[0]] += by * ((counts[here] > 0) * length[here[1]]).sum(axis=1)
        if by > 0:
            counts[here] += 1
        if ops and ops[-1] == op:
            totals[-1] = surplus.copy()
        else:
            ops.append(op)
            totals.append(surplus.copy())
    total = np.array(totals, np.int64).reshape(-1, QUADRANTS)
    total[1:] -= total[:-1].copy()
    return np.array(ops, np.int64), -total
