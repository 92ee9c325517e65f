"""The event loop as machine code, where that is worth its while and gives the same columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.compiled_code import compilable
from nki_lab.kernel_runtime.timing import dma, heaps, locks
from nki_lab.kernel_runtime.timing.columns import Lanes, Machine, Numbers, Shared, Variants
from nki_lab.kernel_runtime.timing.event_loop import advance, follow

EVENTS: Final = 200_000
"""The events between two reports of progress: some hundredths of a second."""

_MADE: Final = 1_000
_KEPT: Final = 50_000
_NEW: Final = 300_000
"""Ops from which on a program is walked by machine code: that this process has, that is on disk (half a second to
import numba and read it), that is to be compiled first (six seconds).
"""

_LARGEST: Final = 1 << 62


_REPLACE: Final = compilable(heaps.replace)
_SHARE_HBM: Final = compilable(dma.share_hbm, scaled=compilable(dma.scaled))
EVENT_LOOP: Final = compilable(
    advance,
    next_end=compilable(dma.next_end, share_hbm=_SHARE_HBM),
    stretched=compilable(locks.stretched),
    heappush=compilable(heaps.push),
    heappop=compilable(heaps.pop, replace=_REPLACE),
    heapreplace=_REPLACE,
)
_FOLLOW: Final = compilable(follow)


def compiled_follow(count: int) -> Callable[..., Any] | None:
    """Return `follow` as machine code where the walk of some ops was that of machine code."""
    if not EVENT_LOOP.is_made or count < _MADE or not (_FOLLOW.is_made or _FOLLOW.is_kept or count >= _NEW):
        return None
    return _FOLLOW.get()


def event_loop_for(machine: Machine) -> Callable[..., Any] | None:
    """Return the compiled event loop where it is the faster one for a machine, and whose numbers it can count."""
    count = len(machine.ops.variant)
    if count < _MADE or (count < _KEPT and not EVENT_LOOP.is_made):
        return None
    if count < _NEW and not (EVENT_LOOP.is_made or EVENT_LOOP.is_kept):
        return None
    return EVENT_LOOP.get() if fits(machine) else None


def fits(machine: Machine) -> bool:
    """Return whether no number of a walk needs more than 64 bits."""
    constants, variants, lanes = machine.constants, machine.variants, machine.lanes
    count, width = len(machine.ops.variant), len(lanes.core)
    longest = max(variants.interval, default=0)
    steps = (constants.hop, constants.gap, constants.table_load, constants.tile_load)
    waits = (variants.tail, variants.generation, variants.start_latency, variants.spacing)
    span = max(max(column, default=0) for column in waits) + 2 * longest + sum(steps)
    late = int(machine.times.setup.max(initial=0)) + int(machine.ops.arrival.max(initial=0))
    late += int(machine.ops.loops.max(initial=0))
    return (
        (count + 1) * (span + late) * max(1, width) + constants.launch < _LARGEST
        and max(variants.work, default=0) < _LARGEST
        and longest * locks.longest_factor(machine.shared.ramps) < _LARGEST
        and (longest < 1 << 30 or all(at < 0 for at in lanes.tiles_at))
        and max((*variants.rates, constants.limit)) * max(1, width) < 1 << 47
        and constants.classes < 62
        and max(variants.blocks, default=0) < _LARGEST
    )


def as_arrays(machine: Machine) -> Machine:
    """Return the same machine as compiled code reads and writes it: arrays. The columns of ops are the same ones."""
    return machine._replace(
        variants=Variants(*map(_array, machine.variants)),
        lanes=Lanes(*map(_array, machine.lanes)),
        shared=Shared(*map(_array, machine.shared)),
    )


def _array(column: Numbers) -> Any:
    return np.array(column, np.int64)
