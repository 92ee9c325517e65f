"""Dependences between ops that touch the same bytes, as few as imply all.

Between two accesses of a cell of which one is a write there is an order. An edge is stored where nothing else already
implies it: a write waits for the readers since the write before it, the last one in each lane, and for that write only
where nobody read it; a read waits for the last write. What is in order within one lane is not stored at all.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic, Related, diagnose
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import Cells, Column, cells_of, distinct, spread
from nki_lab.kernel_runtime.ir import Accesses, Program, Variant
from nki_lab.kernel_runtime.issue.source_location import instruction_name, placed, span_at
from nki_lab.kernel_runtime.vocabulary import EDGE_KINDS


def sorted_ops(op: Column, pred: Column, count: int) -> Column:
    """The ops with each after its preds, otherwise as in the program; ops behind a circle are missing."""
    waiting = np.bincount(op, minlength=count).tolist()
    by_pred = np.argsort(pred, kind="stable")
    after = op[by_pred].tolist()
    start = np.searchsorted(pred[by_pred], np.arange(count + 1)).tolist()
    ready = [number for number in range(count) if not waiting[number]]
    out = []
    while ready:
        number = heapq.heappop(ready)
        out.append(number)
        for follower in after[start[number] : start[number + 1]]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    return np.array(out, np.int64)


def circle_in(op: Column, pred: Column, order: Column, count: int) -> list[int]:
    """Ops of which each waits for the next, and the last for the first; `order` is what `sorted_ops` gave."""
    stuck = np.ones(count, bool)
    stuck[order] = False
    inside = stuck[op] & stuck[pred]
    # Any pred will do: from an op that is stuck, one comes to a circle by walking from pred to pred.
    towards = dict(zip(op[inside].tolist(), pred[inside].tolist(), strict=True))
    seen: dict[int, int] = {}
    path: list[int] = []
    at = int(np.flatnonzero(stuck)[0])
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = towards[at]
    return path[seen[at] :]


def refuse_circle(program: Program, circle: list[int]) -> Diagnostic:
    """NKI402 at the first instruction of a circle, naming all."""
    low = circle.index(min(circle))
    circle = circle[low:] + circle[:low]
    names = [
        repr(name) if (name := program.op_names.get(number)) else instruction_name(program, number) for number in circle
    ]
    steps = [f"{name} (line {program.site_of(number).line})" for name, number in zip(names, circle, strict=True)]
    if len(steps) == 1:
        message = f"{steps[0]} waits for itself"
    else:
        message = f"{' waits for '.join(steps)}, which waits for {names[0]} again"
    return placed(
        diagnose(
            "NKI402",
            message,
            limit="an instruction runs after what it reads, and after the producers that the schedule names",
            help="turn one edge around: with_schedule takes pairs (consumer, producer)",
            related=[
                Related(f"{name} is part of the circle", span_at(program, program.op_site[number]))
                for number, name in zip(circle[1:], names[1:], strict=True)
            ],
        ),
        program.site_of(circle[0]),
    )


FLOW, ANTI, OUTPUT, REUSE, USER, CORE, RANK = range(len(EDGE_KINDS))

_READ, _ADD, _WRITE = 0, 1, 2  # _ADD: a matmul reads what it adds to


class Edges(NamedTuple):
    """Edges as columns: `op` waits for `pred`; `kind` is FLOW, ANTI, OUTPUT, REUSE, USER or CORE."""

    op: Column
    pred: Column
    kind: Column


class _Events(NamedTuple):
    """Accesses of cells in order of (cell, op, reads before writes), and their neighbours of the same cell."""

    cell: Column
    op: Column
    role: NDArray[np.int8]
    store: Column
    last_write: Column  # row of the last write strictly before; -1 without one
    next_write: Column


def dependencies(
    program: Program, accesses: Accesses, allocation: Allocation | None, lane: Column
) -> tuple[Edges, Edges]:
    """All edges that memory makes, edges inside a lane among them; and those from results to who really reads them.

    The latter leave out matmuls that add to what another left: nothing waits for that sum to be read. Without an
    allocation no tensor has the memory of another one.
    """
    cells = cells_of(program, accesses)
    events = _events(program, accesses, cells)
    parts = [_flow(events), _output(events), _anti(events, lane)]
    if allocation is not None:
        parts.append(_reuse(accesses, cells, events, allocation, lane))
    found = unique(joined(*parts), len(program))
    return found, _flow(events, (_READ,))


def joined(*parts: Edges) -> Edges:
    """All edges of several lists."""
    op, pred, kind = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Edges(op, pred, kind)


def unique(found: Edges, ops: int) -> Edges:
    """The edges by (op, pred), each pair once with its lowest kind; none from an op to itself."""
    kept = found.op != found.pred
    if not kept.all():
        found = Edges(*(column[kept] for column in found))
    ops = max(ops, 1)
    key = found.op * ops
    key += found.pred
    key <<= 3
    key |= found.kind
    key.sort()
    kind = key & 7
    key >>= 3
    first = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    if not first.all():
        key, kind = key[first], kind[first]
    return Edges(*_divided(key, ops), kind)


def _again(variant: Variant) -> bool:
    """Whether what a variant writes also counts as read."""
    return variant.instruction.updates(variant.use) or variant.instruction.only_orders


def _events(program: Program, accesses: Accesses, cells: Cells) -> _Events:
    # Columns are as long as there are accesses of cells: a new one costs as much as all that is computed in it.
    op = accesses.op[cells.access]
    is_out = accesses.is_out[cells.access]
    again = np.flatnonzero(is_out & program.ops_where(_again)[op])
    ops = max(len(program), 1)
    key = cells.cell * ops
    key += op
    key *= 4
    np.add(key, _WRITE, out=key, where=is_out)
    key = distinct(np.concatenate((key, key[again] + (_ADD - _WRITE))) if len(again) else key)
    role = (key & 3).astype(np.int8)
    key >>= 2
    cell, op = _divided(key, ops)
    store = np.zeros(int(cells.cell.max(initial=-1)) + 1, np.int64)
    store[cells.cell] = cells.store[cells.access]
    return _Events(cell, op, role, store[cell], *_neighbours(cell, role == _WRITE))


def _divided(pair: Column, by: int) -> tuple[Column, Column]:
    """Return quotients and remainders, these in the place of `pair`."""
    quotient = pair // by
    pair -= quotient * by
    return quotient, pair


def _neighbours(cell: Column, write: NDArray[np.bool_]) -> tuple[Column, Column]:
    """Return the rows of the last write before and the next write after each row in its cell; -1 without one.

    The ends of cells count as even numbers and writes as odd ones between them: the nearest of both is found at once.
    """
    count = len(cell)
    begins = np.ones(count + 1, bool)
    np.not_equal(cell[1:], cell[:-1], out=begins[1:count])
    ends, writes = np.flatnonzero(begins), np.flatnonzero(write)
    before = np.zeros(count + 1, np.int64)
    before[writes + 1] = 2 * writes + 1
    before[ends] = 2 * ends
    after = np.full(count + 1, 2 * count + 2)
    after[writes] = 2 * writes + 1
    after[ends] = 2 * ends
    before, after = before[:-1], after[1:]
    np.maximum.accumulate(before, out=before)
    np.minimum.accumulate(after[::-1], out=after[::-1])
    return _odd_halves(before), _odd_halves(after)


def _odd_halves(numbers: Column) -> Column:
    """Return the rows that odd numbers stand for, and -1 for even ones, in their place."""
    even = (numbers & 1) == 0
    numbers >>= 1
    np.copyto(numbers, -1, where=even)
    return numbers


def _flow(events: _Events, roles: tuple[int, ...] = (_READ, _ADD)) -> Edges:
    rows = np.flatnonzero(np.isin(events.role, roles) & (events.last_write >= 0))
    return edges(events.op[rows], events.op[events.last_write[rows]], FLOW)


def _output(events: _Events) -> Edges:
    """A write right after a write; with readers in between, they stand for it."""
    rows = np.flatnonzero((events.role == _WRITE) & (events.last_write >= 0))
    rows = rows[events.last_write[rows] == rows - 1]
    return edges(events.op[rows], events.op[events.last_write[rows]], OUTPUT)


def _anti(events: _Events, lane: Column) -> Edges:
    rows = np.flatnonzero((events.role != _WRITE) & (events.next_write >= 0))
    rows = rows[_last_of_each(events.next_write[rows], lane[events.op[rows]])]
    return edges(events.op[events.next_write[rows]], events.op[rows], ANTI)


def _last_of_each(group: Column, lane: Column) -> Column:
    """Positions of the last row of each (group, lane); rows of a group stand together."""
    key = group * (int(lane.max(initial=0)) + 1) + lane
    order = np.argsort(key, kind="stable")
    return order[np.flatnonzero(np.diff(key[order], append=-1))]


def edges(op: Column, pred: Column, kind: int) -> Edges:
    """Edges of one kind."""
    return Edges(op, pred, np.full(len(op), kind, np.int64))


def _reuse(accesses: Accesses, cells: Cells, events: _Events, allocation: Allocation, lane: Column) -> Edges:
    """Each buffer's first accesses wait for the last accesses of those whose bytes it got."""
    earlier, later = allocation.reuse.astype(np.int64).T
    enter, leave = _ends(accesses, cells, events)
    first = _one_a_lane(*enter, lane, last=False)
    last = _one_a_lane(*leave, lane, last=True)
    buffers = np.arange(len(allocation.first) + 1)
    first_row, last_row = np.searchsorted(first[0], buffers), np.searchsorted(last[0], buffers)
    before, after = np.diff(last_row)[earlier], np.diff(first_row)[later]
    # Every pair (earlier, later) once for each last access, and that for each first access.
    pred = last[1][spread(last_row[earlier], before)]
    pair = np.repeat(np.arange(len(earlier)), before)
    return edges(first[1][spread(first_row[later[pair]], after[pair])], np.repeat(pred, after[pair]), REUSE)


def _ends(accesses: Accesses, cells: Cells, events: _Events) -> tuple[tuple[Column, Column], tuple[Column, Column]]:
    """(buffer, op) of accesses that wait for no other access of the buffer, and of those that none waits for."""
    reads = events.role != _WRITE
    enter = (events.last_write < 0) & (reads | (np.diff(events.cell, prepend=-1) != 0))
    leave = (events.next_write < 0) & (reads | (np.diff(events.cell, append=-1) != 0))
    # In a store of several buffers, cells do not tell them apart: all of a buffer's accesses stand there.
    apart = ~np.isin(events.store, list(cells.shared))
    mixed = np.isin(cells.store, list(cells.shared))
    buffer, op = accesses.buffer[mixed], accesses.op[mixed]
    return (
        (np.append(events.store[enter & apart], buffer), np.append(events.op[enter & apart], op)),
        (np.append(events.store[leave & apart], buffer), np.append(events.op[leave & apart], op)),
    )


def _one_a_lane(buffer: Column, op: Column, lane: Column, *, last: bool) -> tuple[Column, Column]:
    """Of the rows of each buffer the first or last op in each lane, by buffer."""
    group = buffer * (int(lane.max(initial=0)) + 1) + lane[op]
    order = np.lexsort((op, group))
    differs = np.diff(group[order], prepend=-1, append=-1) != 0
    order = order[differs[1:] if last else differs[:-1]]
    return buffer[order], op[order]
