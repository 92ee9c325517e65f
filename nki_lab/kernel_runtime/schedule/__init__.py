"""Queues and their order: the lane of each op, and the ops that it waits for.

`schedule(program, allocation)` decides order only, never time. Lanes run their ops in order; across lanes an op waits
for the ops it depends on, which the chip does with semaphores that the compiler inserts. Dependencies come from memory
(by the bytes that accesses touch, through HBM too), from addresses that several tensors have one after the other, and
from the user. Nothing but an exchange or a barrier orders what the cores of a launch do: each of two ops that
synchronize waits for everything that the other waits for, and what follows from one follows from both.

`Program.user_edges` are (consumer op, producer op) of `with_schedule` and `depends_on`, `Program.fences` the (first op,
end op) of `no_reorder` blocks, whose ops run one after the other. A consumer may stand before its producer in the
program; then the queues are ordered again, as near to program order as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Accesses, Program, access_columns
from nki_lab.kernel_runtime.schedule.dependencies import (
    CORE,
    FLOW,
    REUSE,
    USER,
    Edges,
    circle_in,
    dependencies,
    edges,
    joined,
    refuse_circle,
    sorted_ops,
    unique,
)
from nki_lab.kernel_runtime.schedule.lanes import Lane, lanes_of
from nki_lab.kernel_runtime.vocabulary import EDGE_KINDS

__all__ = ["EDGE_KINDS", "Lane", "Schedule", "firm_edges", "order_edges", "schedule", "semaphores", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Queues and dependencies of a program.

    `lane[op]` indexes `lanes`; `order[lane]` holds the lane's ops in the order in which they run. Op i waits for the
    ops `pred[start[i]:start[i + 1]]`, ascending and all in other lanes, for the reasons `kind` (`EDGE_KINDS`); that an
    op waits for those before it in its lane goes without saying. `lane_flow[op]` is the last op of its own lane whose
    result it reads, -1 without one: in a pipelined engine such an op waits for more than its turn. A matmul that adds
    to what the one before it left does not.
    """

    lanes: tuple[Lane, ...]
    lane: NDArray[np.uint16]
    start: Column
    pred: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    order: tuple[NDArray[np.uint32], ...]
    lane_flow: Column
    diagnostics: tuple[Diagnostic, ...]

    def __len__(self) -> int:
        return len(self.lane)

    def waits(self, op: int) -> list[tuple[int, str]]:
        """(op, kind of edge) of everything in other lanes that an op waits for."""
        rows = slice(int(self.start[op]), int(self.start[op + 1]))
        return [(int(pred), EDGE_KINDS[kind]) for pred, kind in zip(self.pred[rows], self.kind[rows], strict=True)]


def schedule(program: Program, allocation: Allocation) -> Schedule:
    """Lanes and dependencies. A circle in the user's schedule is NKI402, and the schedule that of program order."""
    lanes, lane = lanes_of(program)
    wide = lane.astype(np.int64)
    user = _user_edges(program)
    registers = _register_edges(program, wide, len(lanes))
    accesses = _ordering(program, access_columns(program))
    straight = np.arange(len(program))
    if bool((user.pred < user.op).all()):
        found, flow = _dependencies(program, accesses, allocation, wide)
        found = unique(joined(found, user, registers), len(program))
        return _schedule(lanes, wide, _synchronized(program, found, wide), flow, straight)
    # Edges that program order implies may not be left out where that order does not hold: every op is its own lane.
    everything, flow = _dependencies(program, accesses, allocation, straight)
    reuse = everything.kind == REUSE
    firm = _synchronized(program, unique(joined(_of(everything, ~reuse), user, registers), len(program)), straight)
    circle = _circle(user, firm, len(program))
    if circle:
        found, flow = _dependencies(program, accesses, allocation, wide)
        found = _synchronized(program, unique(joined(found, registers), len(program)), wide)
        return _schedule(lanes, wide, found, flow, straight, refuse_circle(program, circle))
    position = np.empty(len(program), np.int64)
    position[sorted_ops(firm.op, firm.pred, len(program))] = straight
    # Addresses were given in program order; tensors that the new order makes live together would not share them.
    reuse &= position[everything.pred] < position[everything.op]
    found = unique(joined(firm, _of(everything, reuse)), len(program))
    return _schedule(lanes, wide, found, flow, position)


def firm_edges(program: Program, allocation: Allocation) -> Edges:
    """Return the edges that hold whatever the lanes and the addresses of automatic tensors, with synchronizations.

    Two ops that synchronize wait for each other.
    """
    found, _ = _dependencies(program, _ordering(program, access_columns(program)), allocation, np.arange(len(program)))
    registers = np.array(program.flows, np.int64).reshape(-1, 2)
    synchronized = np.array(
        [*program.synchronizations, *(pair[::-1] for pair in program.synchronizations)], np.int64
    ).reshape(-1, 2)
    return joined(
        _of(found, found.kind != REUSE),
        _user_edges(program),
        edges(registers[:, 0], registers[:, 1], FLOW),
        edges(synchronized[:, 0], synchronized[:, 1], CORE),
    )


def order_edges(program: Program) -> tuple[Edges, Edges]:
    """Return the edges of a program of one core that hold wherever automatic tensors lie, and those of results to who
    reads them; rows of one lane have edges as well.
    """
    found, flow = _dependencies(program, _ordering(program, access_columns(program)), None, np.arange(len(program)))
    registers = np.array(program.flows, np.int64).reshape(-1, 2)
    return unique(
        joined(found, _user_edges(program), edges(registers[:, 0], registers[:, 1], FLOW)), len(program)
    ), flow


def _ordering(program: Program, accesses: Accesses) -> Accesses:
    """The accesses with those of barriers as writes: what comes after one waits for it."""
    orders = program.ops_where(lambda item: item.instruction.only_orders)
    return accesses._replace(is_out=accesses.is_out | orders[accesses.op])


def _dependencies(
    program: Program, accesses: Accesses, allocation: Allocation | None, lane: Column
) -> tuple[Edges, Edges]:
    """`dependencies` of each core by itself: no edge joins two cores, and none is left out because of such an edge."""
    if program.cores == 1:
        return dependencies(program, accesses, allocation, lane)
    core = program.core_column()[accesses.op]
    of_core = (Accesses(*(column[core == number] for column in accesses)) for number in range(program.cores))
    found, flow = zip(*(dependencies(program, mine, allocation, lane) for mine in of_core), strict=True)
    return joined(*found), joined(*flow)


def _in_cores(program: Program, found: Edges) -> Edges:
    if program.cores == 1:
        return found
    core = program.core_column()
    return _of(found, core[found.op] == core[found.pred])


def _synchronized(program: Program, found: Edges, lane: Column) -> Edges:
    """Return the edges with those of ops that synchronize cores.

    Such an op waits for what its counterpart waits for, which is also what is before that in its lane; what waits for
    one of them waits for both.
    """
    if not program.synchronizations:
        return found
    other = np.full(len(program), -1, np.int64)
    a, b = np.array(program.synchronizations, np.int64).T
    other[a], other[b] = b, a
    by_lane = np.argsort(lane, kind="stable")
    together = lane[by_lane[1:]] == lane[by_lane[:-1]]
    after, before = by_lane[1:][together], by_lane[:-1][together]
    op, pred = np.concatenate((found.op, after)), np.concatenate((found.pred, before))
    waits, follows = other[op] >= 0, other[found.pred] >= 0
    return unique(
        joined(
            found,
            edges(other[op[waits]], pred[waits], CORE),
            edges(found.op[follows], other[found.pred[follows]], CORE),
        ),
        len(program),
    )


def _circle(user: Edges, all_edges: Edges, ops: int) -> list[int]:
    """Ops that wait for each other, none if there is an order."""
    own = user.op[user.op == user.pred]
    if len(own):
        return [int(own[0])]
    order = sorted_ops(all_edges.op, all_edges.pred, ops)
    return circle_in(all_edges.op, all_edges.pred, order, ops) if len(order) < ops else []


def _of(found: Edges, rows: Mask) -> Edges:
    return Edges(found.op[rows], found.pred[rows], found.kind[rows])


def _schedule(
    lanes: tuple[Lane, ...], lane: Column, found: Edges, flow: Edges, position: Column, *diagnostics: Diagnostic
) -> Schedule:
    """The schedule of edges that are sorted by (op, pred)."""
    across = lane[found.op] != lane[found.pred]
    start = np.searchsorted(found.op[across], np.arange(len(lane) + 1))
    within = lane[flow.op] == lane[flow.pred]
    lane_flow = np.full(len(lane), -1, np.int64)
    np.maximum.at(lane_flow, flow.op[within], flow.pred[within])
    by_lane = np.argsort(lane * max(len(lane), 1) + position)
    cuts = np.searchsorted(lane[by_lane], np.arange(len(lanes) + 1))
    return Schedule(
        lanes=lanes,
        lane=lane.astype(np.uint16),
        start=start,
        pred=found.pred[across].astype(np.uint32),
        kind=found.kind[across].astype(np.uint8),
        order=tuple(by_lane[low:high].astype(np.uint32) for low, high in pairwise(cuts.tolist())),
        lane_flow=lane_flow,
        diagnostics=diagnostics,
    )


def _user_edges(program: Program) -> Edges:
    """The edges of `with_schedule` and of `no_reorder` blocks."""
    pairs = np.array(program.user_edges, np.int64).reshape(-1, 2)
    op, pred = [pairs[:, 0]], [pairs[:, 1]]
    for first, end in program.fences:
        pred.append(np.arange(first, end - 1))
        op.append(np.arange(first + 1, end))
    found = edges(np.concatenate(op), np.concatenate(pred), USER)
    assert not len(found.op) or min(found.op.min(), found.pred.min()) >= 0
    assert max(found.op.max(initial=-1), found.pred.max(initial=-1)) < len(program)
    return _in_cores(program, found)


def _register_edges(program: Program, lane: Column, lanes: int) -> Edges:
    """Ops wait for the registers in their addresses, and every lane for what decides whether its next op runs at all.

    Each sequencer has a register of its own for each that the kernel names, so that none waits to be written again.
    """
    flows = np.array(program.flows, np.int64).reshape(-1, 2)
    op, pred = [flows[:, 0]], [flows[:, 1]]
    begin, writer = np.array(program.control, np.int64).reshape(-1, 2).T
    if len(begin):
        for number in range(lanes):
            mine = np.flatnonzero(lane == number)
            place = np.searchsorted(mine, begin)
            there = place < len(mine)
            op.append(mine[place[there]])
            pred.append(writer[there])
    return _in_cores(program, edges(np.concatenate(op), np.concatenate(pred), FLOW))


def semaphores(found: Schedule) -> Column:
    """Return rows (producer lane, consumer lane, waits), one for each pair of lanes that synchronize.

    The chip's queues synchronize through semaphores only, and NKI leaves them to the compiler: one for each pair is
    enough, counted up by the producer in its order.
    """
    op = np.repeat(np.arange(len(found)), np.diff(found.start))
    pair = found.lane[found.pred].astype(np.int64) * len(found.lanes) + found.lane[op]
    pairs, waits = np.unique(pair, return_counts=True)
    return np.stack((pairs // len(found.lanes), pairs % len(found.lanes), waits), axis=1)


def verify(found: Schedule) -> None:
    """Raise AssertionError where a schedule breaks an invariant, or where its lanes would wait for each other."""

    def require(holds: bool | np.bool_, fault: str) -> None:
        if not holds:
            raise AssertionError(f"scheduled: {fault}")

    ops = len(found)
    start, pred = found.start, found.pred.astype(np.int64)
    require(
        len(start) == ops + 1 and not start[0] and start[-1] == len(pred) == len(found.kind),
        "columns of different length",
    )
    require(
        (np.diff(start) >= 0).all() and (pred < ops).all() and (found.kind < len(EDGE_KINDS)).all(),
        "an edge that leads nowhere",
    )
    op = np.repeat(np.arange(ops), np.diff(start))
    require((found.lane[op] != found.lane[pred]).all(), "an edge inside a lane")
    require((np.diff(op * ops + pred) > 0).all(), "edges out of order, or twice")
    require(len(found.order) == len(found.lanes), f"{len(found.lanes)} lanes and {len(found.order)} orders")
    for number, (lane, row) in enumerate(zip(found.lanes, found.order, strict=True)):
        require(
            np.array_equal(np.sort(row), np.flatnonzero(found.lane == number)),
            f"{lane.name} does not run each of its ops once",
        )
    order = [row.astype(np.int64) for row in found.order]
    later = np.concatenate([op, *(row[1:] for row in order)])
    earlier = np.concatenate([pred, *(row[:-1] for row in order)])
    require((earlier < later).all() or len(sorted_ops(later, earlier, ops)) == ops, "lanes that wait for each other")
