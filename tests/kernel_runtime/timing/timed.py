"""Kernels walked: the program, its schedule and its times, as the tests of time want them."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import Schedule, schedule, verify
from nki_lab.kernel_runtime.timing import STALL_REASONS, LaneTime, Timing, walk
from tests.kernel_runtime.drawn_kernels import nisa, nl, traced

__all__ = ["PLAIN", "Timed", "nisa", "nl", "timed", "without"]

PLAIN = Options(
    bandwidth_sharing=False, port_conflicts=False, table_loads=False, stationary_reuse=False, power_ramp=False
)
"""Everything off by which one op's time depends on what happens to run beside it."""


class Timed(NamedTuple):
    """A walked kernel."""

    program: Program
    allocation: Allocation
    schedule: Schedule
    timing: Timing

    def rows(self, name: str) -> list[int]:
        """The ops of an instruction, in program order."""
        return [op.index for op in self.program.ops() if op.variant.instruction.name == name]

    def lane(self, name: str) -> LaneTime:
        """Where a lane's time went."""
        return next(lane for lane in self.timing.lanes if lane.name == name)

    def stall(self, row: int) -> str:
        """What a row waited for."""
        return STALL_REASONS[self.timing.stall[row]]

    def span(self, row: int) -> float:
        """Nanoseconds from a row's start to its visible result."""
        return float(self.timing.ready[row] - self.timing.start[row]) / 1000

    def steps(self, name: str) -> list[float]:
        """Nanoseconds from each start of an instruction to the next one."""
        return (np.diff(self.timing.start[self.rows(name)]) / 1000).tolist()


def timed(
    kernel: Callable[..., Any], *shapes: tuple[int, ...], target: str | Arch = "trn2", dtype: Any = None, **options: Any
) -> Timed:
    """A kernel whose arguments are HBM tensors of these shapes, walked with some options changed."""
    program = traced(kernel, *shapes, target=target, dtype=dtype)
    allocation = allocate(program)
    order = schedule(program, allocation)
    verify(order)
    chosen = dataclasses.replace(Options(), **options)
    return Timed(program, allocation, order, walk(program, order, chosen, allocation))


def without(program: Program, order: Schedule, row: int) -> tuple[Program, Schedule]:
    """Program and schedule with one op taken out: the others keep their lanes and what they wait for."""
    first = list(program.op_access)
    ends = [*first[1:], len(program.access_view)]
    rows = [index for index in range(len(program)) if index != row]
    views: list[int] = []
    starts: list[int] = []
    for index in rows:
        starts.append(len(views))
        views += program.access_view[first[index] : ends[index]]
    less = Program(program.name, program.arch, program.options, program.dialect)
    less.variants, less.views, less.buffers = program.variants, program.views, program.buffers
    less.op_variant = array("I", [program.op_variant[index] for index in rows])
    less.op_access = array("I", starts)
    less.access_view = array("I", views)
    return less, _shorter(order, row)


def _shorter(order: Schedule, row: int) -> Schedule:
    op = np.repeat(np.arange(len(order)), np.diff(order.start))
    pred = order.pred.astype(np.int64)
    kept = (op != row) & (pred != row)
    op, pred = op[kept] - (op[kept] > row), pred[kept] - (pred[kept] > row)
    flow = np.delete(order.lane_flow, row)
    flow = np.where(flow == row, -1, flow - (flow > row))
    orders = [queue[queue != row].astype(np.int64) for queue in order.order]
    return dataclasses.replace(
        order,
        lane=np.delete(order.lane, row),
        start=np.searchsorted(op, np.arange(len(order))),
        pred=pred.astype(np.uint32),
        kind=order.kind[kept],
        order=tuple((queue - (queue > row)).astype(np.uint32) for queue in orders),
        lane_flow=flow,
    )
