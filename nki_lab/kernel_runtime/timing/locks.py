"""Engines with what they keep loaded, and locks of memories that two of them cannot use at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Accesses, Program, View
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.tensor import psum
from nki_lab.kernel_runtime.timing.costs import VariantCost, picoseconds
from nki_lab.kernel_runtime.timing.dma import Trigger
from nki_lab.kernel_runtime.timing.reasons import BANK, PORT, TRIGGER


class PowerRamp:
    """The Tensor Engine's rate, which starts at `power_ramp_floor` and rises to full with use.

    Neuron Explorer's summary page: about half the peak when work starts, full after about 3 us, and again after the
    utilisation over such a time was below 50 %. guess: the shape. Warmth rises with busy and falls with idle time
    between none and `power_ramp_ns`; the rate is linear in it, and full from there until half of the warmth is gone,
    which a pause of half the time does. Then it starts from scratch.
    """

    __slots__ = ("floor", "hot", "idle_since", "span", "warmth")

    _WHOLE = 1000

    def __init__(self, arch: Arch) -> None:
        self.span = picoseconds(arch.power_ramp_ns)
        self.floor = round(arch.power_ramp_floor * self._WHOLE)
        self.warmth = 0
        self.hot = False
        self.idle_since = 0

    def stretched(self, start: int, work: int) -> int:
        """Return how long `work` takes from `start` on. Starts never go back; work may begin beside the one before."""
        span, begun = self.span, max(start, self.idle_since)
        warmth = max(0, self.warmth - (begun - self.idle_since))
        if self.hot and 2 * warmth < span:
            self.hot, warmth = False, 0
        if self.hot:
            duration = work
        else:
            duration = work * (self._WHOLE * span) // (self.floor * span + (self._WHOLE - self.floor) * warmth)
        self.idle_since = max(begun, start + duration)
        self.warmth = min(span, warmth + self.idle_since - begun)
        self.hot = self.hot or self.warmth == span
        return duration


def reused_tiles(
    program: Program, costs: Sequence[VariantCost], accesses: Accesses, order: NDArray[np.uint32]
) -> list[bool]:
    """For each op in a tensor lane's order, whether the array holds its stationary tile already.

    It does when the last op that loaded a tile loaded the same view, and nothing wrote to that tensor in between. An op
    without a stationary tile, as a barrier on this engine, leaves the array as it is.
    """
    position = np.array([cost.stationary for cost in costs], np.int64)[program.variant_column()[order]]
    loading = np.flatnonzero(position >= 0)
    rows = order[loading].astype(np.int64)
    places = np.frombuffer(program.op_access, np.uint32)[rows] + position[loading]
    views = np.frombuffer(program.access_view, np.uint32)[places].astype(np.int64)
    same = np.flatnonzero(views[1:] == views[:-1]) + 1
    again = np.zeros(len(order), bool)
    again[loading[same]] = True
    again[loading[_written_between(program, accesses, views, rows, same)]] = False
    return list(again.tolist())


def _written_between(program: Program, accesses: Accesses, views: Column, rows: Column, again: Column) -> Column:
    """Return the places of `again` whose tile was written to after the op before it in the lane."""
    ops = len(program) + 1
    writes = np.sort(accesses.buffer[accesses.is_out].astype(np.int64) * ops + accesses.op[accesses.is_out])
    buffer_of = np.array([view.buffer.id for view in program.views], np.int64)
    base = buffer_of[views[again]] * ops
    low, high = np.minimum(rows[again - 1], rows[again]), np.maximum(rows[again - 1], rows[again])
    found: Column = again[np.searchsorted(writes, base + low, "right") < np.searchsorted(writes, base + high, "left")]
    return found


@dataclass(slots=True, eq=False)
class Lock:
    """The op that holds a memory, its lane, and until when it does."""

    free: int = 0
    holder: int = -1
    lane: int = -1


class Locks:
    """The locks of one core that more than one lane of this program wants.

    NeuronCore-v2 has one for SBUF (Vector, GpSimd) and one for PSUM (Vector, Scalar); later ones have one for each
    PSUM bank (Vector, Scalar). An op holds its locks while its engine streams.
    inferred: in the fixed part of its interval it uses no memory. In Autocomp's attention, activations and copies out
    of PSUM keep Vector and Scalar for longer than its published time, if they exclude each other from end to end.
    """

    def __init__(
        self,
        program: Program,
        schedule: Schedule,
        costs: list[VariantCost],
        options: Options,
        allocation: Allocation | None,
        core: int,
    ) -> None:
        self._program = program
        self._allocation = allocation
        self._banks: dict[int, tuple[object, ...]] = {}
        self._held: defaultdict[object, Lock] = defaultdict(Lock)
        lanes = {lane.name: number for number, lane in enumerate(schedule.lanes) if lane.core == core}
        used = set(program.op_variant)
        wanted: dict[str, set[str]] = {}
        for number in used:
            for port in costs[number].ports:
                wanted.setdefault(port, set()).add(program.variants[number].engine)
            if costs[number].banked:
                wanted.setdefault("bank", set()).add(program.variants[number].engine)
        shared = {port for port, engines in wanted.items() if len(engines) > 1} if options.port_conflicts else set()
        self._ports = frozenset(shared - {"bank"})
        self._by_bank = "bank" in shared
        by_software = any(costs[number].generator == "gpsimd" for number in used)
        self._gpsimd = lanes.get("gpsimd", -1) if by_software and options.bandwidth_sharing else -1
        self._software = Trigger()

    def trigger(self, cost: VariantCost) -> Trigger:
        """The generator of descriptors like those of `cost`."""
        return self._software if cost.generator == "gpsimd" else Trigger()

    def guards(self, op: int, cost: VariantCost, lane: int) -> bool:
        """Whether another lane may have what an op needs."""
        if lane == self._gpsimd:
            return True
        return (self._by_bank and cost.banked) or any(port in self._ports for port in cost.ports)

    def blocked(self, op: int, cost: VariantCost, lane: int, time: int) -> tuple[int, int, int]:
        """(when all that an op needs is free, whose end that is, the reason for the wait); `time` if it is now."""
        found = (time, -1, PORT)
        for key in self._keys(op, cost):
            lock = self._held.get(key)
            if lock is not None and lock.lane != lane and lock.free > found[0]:
                found = (lock.free, lock.holder, PORT if key in self._ports else BANK)
        trigger = self._software
        if lane == self._gpsimd and trigger.free > found[0]:
            found = (trigger.free, trigger.anchor, TRIGGER)
        return found

    def take(self, op: int, cost: VariantCost, lane: int, end: int) -> None:
        """An op has what it needs until `end`."""
        for key in self._keys(op, cost):
            lock = self._held[key]
            lock.free, lock.holder, lock.lane = end, op, lane
        if lane == self._gpsimd:
            self._software.free, self._software.anchor = end, op

    def _keys(self, op: int, cost: VariantCost) -> tuple[object, ...]:
        ports: tuple[object, ...] = tuple(port for port in cost.ports if port in self._ports)
        return ports + self._banks_of(op) if self._by_bank and cost.banked else ports

    def _banks_of(self, op: int) -> tuple[object, ...]:
        """The PSUM banks that an op accesses."""
        found: dict[object, None] = {}
        for view in self._program.views_of(op):
            if view.type.space is psum:
                known = self._banks.get(view.id)
                if known is None:
                    known = self._banks[view.id] = self._banks_of_view(view)
                found.update(dict.fromkeys(known))
        return tuple(found)

    def _banks_of_view(self, view: View) -> tuple[object, ...]:
        buffer, size = view.buffer, view.type.dtype.nbytes
        base = buffer.address[1] if buffer.address is not None else -1
        if base < 0 and self._allocation is not None:
            base = int(self._allocation.byte[buffer.id])
        if base < 0:
            return (("buffer", buffer.id),)
        low = base + view.offset % max(buffer.partition_bytes // size, 1) * size
        bank = self._program.arch.psum_bank_bytes
        return tuple(("bank", number) for number in range(low // bank, (low + view.type.span_bytes - 1) // bank + 1))
