"""The state of the Tensor Engine from one instruction to the next: its stationary tile and its power ramp."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Accesses, Program
from nki_lab.kernel_runtime.timing.costs import VariantCost, picoseconds


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
        """Return how long `work` takes from `start` on. Starts never go back."""
        span = self.span
        warmth = max(0, self.warmth - (start - self.idle_since))
        if self.hot and 2 * warmth < span:
            self.hot, warmth = False, 0
        if self.hot:
            duration = work
        else:
            duration = work * (self._WHOLE * span) // (self.floor * span + (self._WHOLE - self.floor) * warmth)
        self.warmth = min(span, warmth + duration)
        self.hot = self.hot or self.warmth == span
        self.idle_since = start + duration
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


def _written_between(program: Program, accesses: Accesses, views: Column, rows: Column, again: Column) -> list[int]:
    """The places of `again` whose tile was written to after the op before it in the lane."""
    writes: dict[int, Column] = {}
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
