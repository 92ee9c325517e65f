"""What an engine remembers from one instruction to the next: tables, stationary tiles, warmth, results under way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.ir import Accesses, Program, View
from nki_lab.kernel_runtime.timing.costs import VariantCost, picoseconds


class PowerRamp:
    """The Tensor Engine's rate, which starts at `power_ramp_floor` and rises to full with use.

    Neuron Explorer's summary page: about half the peak when work starts, full after about 3 us, and again after the
    utilisation over such a time was below 50 %. guess: the shape. Warmth rises with busy and falls with idle time, so
    that use above one half warms up and below one half cools down; the rate is linear in it.
    """

    __slots__ = ("floor", "idle_since", "span", "warmth")

    _WHOLE = 1000

    def __init__(self, arch: Arch) -> None:
        self.span = picoseconds(arch.power_ramp_ns)
        self.floor = round(arch.power_ramp_floor * self._WHOLE)
        self.warmth = 0
        self.idle_since = 0

    def stretched(self, start: int, work: int) -> int:
        """How long `work` takes from `start` on. Starts never go back."""
        span = self.span
        warmth = max(0, self.warmth - (start - self.idle_since))
        if warmth < span:
            whole = self._WHOLE * span
            duration = work * whole // (self.floor * span + (self._WHOLE - self.floor) * warmth)
        else:
            duration = work
        self.warmth = min(span, warmth + duration)
        self.idle_since = start + duration
        return duration


def reused_tiles(program: Program, costs: Sequence[VariantCost], accesses: Accesses, order: Sequence[int]) -> list[bool]:
    """For each op in a tensor lane's order, whether the array holds its stationary tile already.

    It does when the op before loaded the same view, and nothing wrote to that tensor in between.
    """
    rows = np.asarray(order, np.int64)
    variants = np.frombuffer(program.op_variant, np.uint32)[rows]
    position = np.array([cost.stationary for cost in costs], np.int64)[variants]
    first = np.frombuffer(program.op_access, np.uint32)[rows].astype(np.int64)
    views = np.where(position >= 0, np.frombuffer(program.access_view, np.uint32)[first + np.maximum(position, 0)], -1)
    again = np.zeros(len(rows), bool)
    again[1:] = (views[1:] == views[:-1]) & (views[1:] >= 0)
    written = _written_between(program, accesses, views, rows, np.flatnonzero(again))
    again[written] = False
    return list(again.tolist())


def _written_between(
    program: Program, accesses: Accesses, views: NDArray[np.int64], rows: NDArray[np.int64], again: NDArray[np.int64]
) -> list[int]:
    """The places of `again` whose tile was written to after the op before it in the lane."""
    if not len(again):
        return []
    writes: dict[int, NDArray[np.int64]] = {}
    found = []
    for place in again.tolist():
        buffer = program.views[int(views[place])].buffer.id
        known = writes.get(buffer)
        if known is None:
            known = writes[buffer] = accesses.op[(accesses.buffer == buffer) & accesses.is_out]
        low, high = sorted((int(rows[place - 1]), int(rows[place])))
        if np.searchsorted(known, low, "right") < np.searchsorted(known, high, "left"):
            found.append(place)
    return found


class Results:
    """Results of one lane that are not visible yet, for the instructions behind them in the same lane.

    Order within a lane is no edge of a Schedule; an instruction that reads what one shortly before it writes waits for
    the engine's pipeline all the same. Two views meet where their partitions and their bytes within a partition do,
    taken from first to last: steps between do not keep them apart.
    """

    __slots__ = ("_meets", "_outs", "_program", "_under_way")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._under_way: list[tuple[int, int]] = []
        self._meets: dict[tuple[int, int], bool] = {}
        self._outs = [variant.outs for variant in program.variants]

    def add(self, op: int, ready: int) -> None:
        """The results of an op, and when they will be visible."""
        self._under_way.append((ready, op))

    def awaited(self, op: int, time: int) -> tuple[int, int]:
        """(when the last result that `op` reads is visible, who writes it), if that is after `time`; else (0, -1)."""
        if not self._under_way:
            return 0, -1
        self._under_way = [item for item in self._under_way if item[0] > time]
        latest, writer = 0, -1
        for ready, other in self._under_way:
            if ready > latest and self._reads(op, other):
                latest, writer = ready, other
        return latest, writer

    def _reads(self, reader: int, writer: int) -> bool:
        read = self._views(reader, False)
        return any(self._meet(one, other) for one in self._views(writer, True) for other in read)

    def _views(self, op: int, written: bool) -> list[int]:
        program = self._program
        first = program.op_access[op]
        outs = self._outs[program.op_variant[op]]
        return [program.access_view[first + k] for k, out in enumerate(outs) if out is written]

    def _meet(self, one: int, other: int) -> bool:
        known = self._meets.get((one, other))
        if known is None:
            views = self._program.views
            known = self._meets[one, other] = _overlap(views[one], views[other])
        return known


def _overlap(one: View, other: View) -> bool:
    if one.buffer is not other.buffer:
        return False
    return all(a < d and c < b for (a, b), (c, d) in zip(_extents(one), _extents(other), strict=True))


def _extents(view: View) -> tuple[tuple[int, int], tuple[int, int]]:
    """The partitions and the bytes within one that a view reaches from first to last; a run-time index reaches all."""
    if view.indirect is not None:
        return (0, view.buffer.partitions), (0, view.buffer.partition_bytes)
    kind, size = view.type, view.type.dtype.nbytes
    row = max(view.buffer.partition_bytes // size, 1)
    partition, element = divmod(view.offset, row)
    low = element + sum(min(0, (n - 1) * s) for n, s in zip(kind.free_shape, kind.free_strides, strict=True))
    partitions = (partition, partition + (kind.partitions - 1) * kind.partition_step + 1)
    return partitions, (low * size, low * size + kind.span_bytes)
