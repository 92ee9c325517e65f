"""The event walk: every instruction of a scheduled program gets a start, an end and a reason for its wait.

Lanes take their ops in order. An op starts when its lane is free, what it depends on is finished, and nothing else has
the memory that it needs; its lane is free again after its issue interval, and its result is visible after its latency,
to other lanes one semaphore later. The cores of a launch run side by side, each with lanes, engines and memories of its
own; they share the rate of HBM. All times are whole picoseconds, so that equal input gives equal columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.progress import current_monitor
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.timing.account import Timing, timing_of
from nki_lab.kernel_runtime.timing.columns import Machine, Times
from nki_lab.kernel_runtime.timing.compiled import EVENTS, as_arrays, event_loop_for
from nki_lab.kernel_runtime.timing.costs import VariantCost, costs_of, picoseconds
from nki_lab.kernel_runtime.timing.event_loop import advance
from nki_lab.kernel_runtime.timing.extrapolation import extrapolation_of
from nki_lab.kernel_runtime.timing.machine import interpreted, launch_of, machine_of, times_of
from nki_lab.kernel_runtime.timing.turns import in_program_order, taken_in_turns, turns_of

_EVENTS: Final = 4096  # between two reports of progress

_LOOKS: Final = (150, 1_000)
_COMPILED_LOOKS: Final = (1_500, 100_000)
"""Ops between the first looks at a loop, and ops of a loop that is worth them. Machine code walks most ops in the time
in which they are filled in; long loops of transfers gain by that.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """A walk that goes on: the scheduled program, and the machine whose lanes and times tell how far it is.

    Op i is in row `rows[i]` of the columns of the machine, in row i where there are no `rows`.
    """

    program: Program
    schedule: Schedule
    machine: Machine
    rows: Column | None


def walk(
    program: Program,
    schedule: Schedule,
    options: Options | None = None,
    allocation: Allocation | None = None,
    costs: Sequence[VariantCost] | None = None,
    arrivals: Mapping[int, int] = MappingProxyType({}),
    *,
    shown: bool = False,
    every_op: bool = False,
) -> Timing:
    """Times of a scheduled program, with reasons and the critical path.

    `options` are the program's own unless given, and `costs` what its variants declare: others tell what would be. The
    allocation tells which PSUM bank a tensor is in; without it, tensors that the user did not place are taken to be in
    banks of their own. `arrivals` are the picoseconds at which the data of ops has come from other ranks, of those that
    come later than this one. With `shown` it is what the run shows of itself, as a `Walk`. Repetitions of loops are
    filled in where they are known, with equal results, unless `every_op` is to be walked. NKI010 for an instruction
    without cost.
    """
    chosen = program.options if options is None else options
    priced = costs_of(program) if costs is None else list(costs)
    rows = turns_of(program)
    show = (lambda machine: current_monitor().show(Walk(program, schedule, machine, rows))) if shown else None
    machine = machine_of(program, schedule, chosen, allocation, priced, arrivals)
    times = _simulated(machine, rows, show, every_op=every_op)
    return timing_of(program, schedule, times, priced, launch_of(program, chosen), _teardown(program, chosen))


def makespan_of(
    program: Program,
    schedule: Schedule,
    allocation: Allocation | None = None,
    costs: Sequence[VariantCost] | None = None,
    options: Options | None = None,
) -> int:
    """Return the makespan in picoseconds that `walk` finds, without what else that works out."""
    chosen = program.options if options is None else options
    priced = costs_of(program) if costs is None else list(costs)
    machine = machine_of(program, schedule, chosen, allocation, priced, {})
    times = _simulated(machine, turns_of(program))
    return int(times.ready.max(initial=launch_of(program, chosen))) + _teardown(program, chosen)


def _teardown(program: Program, options: Options) -> int:
    return picoseconds(program.arch.teardown_ns) if options.launch_overhead else 0


def _simulated(
    machine: Machine,
    rows: Column | None,
    show: Callable[[Machine], object] | None = None,
    *,
    every_op: bool = False,
) -> Times:
    """Take all events of a machine, and return the times of its ops as arrays; `show` it before the first.

    Events at one time are taken by the `rows` of their ops, if there are any.
    """
    if rows is not None:
        machine = taken_in_turns(machine, rows)
    compiled = event_loop_for(machine)
    take, events = (advance, _EVENTS) if compiled is None else (compiled, EVENTS)
    state = interpreted(machine) if compiled is None else as_arrays(machine)
    looks = None if every_op else extrapolation_of(machine, state, *(_LOOKS if compiled is None else _COMPILED_LOOKS))
    monitor = current_monitor()
    monitor.begin("timing", len(machine.times.start))
    begin = sum(machine.lanes.place)
    if show is not None:
        show(state)
    while take(*state, events):
        if looks is not None:
            looks.look()
        monitor.advance(int(sum(state.lanes.place)) - begin)
    stuck = [op for lane in range(len(state.lanes.end)) for op in _waiting(state, lane)]
    if stuck:
        stuck = stuck if rows is None else np.argsort(rows)[stuck].tolist()
        raise AssertionError(f"scheduled: ops {stuck} wait for each other")
    times = times_of(state.times) if compiled is None else state.times
    return times if rows is None else in_program_order(times, rows)


def _waiting(machine: Machine, lane: int) -> list[int]:
    """Return the ops of a lane that wait for ever: its head, and the first transfer that it has triggered."""
    lanes, order = machine.lanes, machine.ops.order
    heads = [lanes.place[lane]] if lanes.place[lane] < lanes.end[lane] else []
    if lanes.is_queue[lane] and lanes.data_place[lane] < lanes.place[lane]:
        heads.append(lanes.data_place[lane])
    return [int(order[place]) for place in heads]
