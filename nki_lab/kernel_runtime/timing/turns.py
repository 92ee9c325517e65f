"""The order in which ops of several cores are taken where nothing else decides: they take turns.

In a program the ops of one core come after those of another, as far as to where these meet. Cores run side by side, so
that their loops do: with turns, the ops that both cores are about to execute stand beside each other in the columns of
a machine, and what repeats on both is a stretch of these columns.
"""

from __future__ import annotations

import numpy as np

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.timing.columns import Machine, Ops, Times

_SINGLE = ("variant", "lane", "reused", "first_waiter", "loops", "arrival", "stream", "more_at")


def turns_of(program: Program) -> Column | None:
    """Return the row of each op in the columns of a machine; None where that is its place in the program.

    Cores take turns within each iteration of their loops, so that one may do more in it than the other.
    """
    if program.cores == 1:
        return None
    cores = program.core_column()
    iterations = np.frombuffer(program.op_iteration, program.op_iteration.typecode)
    block, rank = (np.zeros(len(cores), np.int64) for _ in range(2))
    for core in range(program.cores):
        mine = np.flatnonzero(cores == core)
        steps = np.flatnonzero(np.diff(iterations[mine])) + 1
        begins = np.concatenate(([0], steps))
        block[mine] = np.repeat(np.arange(len(begins)), np.diff(np.concatenate((begins, [len(mine)]))))
        rank[mine] = np.arange(len(mine)) - begins[block[mine]]
    return _inverse(np.lexsort((cores, rank, block)))


def taken_in_turns(machine: Machine, row: Column) -> Machine:
    """Return a machine before its first event with op i in row `row[i]` of its columns, which are arrays."""
    op = _inverse(row)
    ops = machine.ops
    edges, (pred, kind) = _gathered(ops.edge_start, op, ops.pred, ops.kind)
    locks, (lock,) = _gathered(ops.lock_start, op, ops.lock)

    def moved(column: Column) -> Column:
        return column[op] if len(column) == len(op) else column

    changed = Ops(
        **{name: moved(getattr(ops, name)) for name in _SINGLE},
        order=row[ops.order],
        edge_start=edges,
        pred=row[pred],
        kind=kind,
        lane_flow=moved(_rows(ops.lane_flow, row)),
        lock_start=locks,
        lock=lock,
        more_streams=ops.more_streams,
    )
    cursor = [int(edges[changed.order[place]]) if place < end else 0
              for place, end in zip(machine.lanes.place, machine.lanes.end, strict=True)]  # fmt: skip
    return machine._replace(
        ops=changed, lanes=machine.lanes._replace(cursor=cursor), times=Times(*map(moved, machine.times))
    )


def in_program_order(times: Times, row: Column) -> Times:
    """Return the times of a machine whose op i is in row `row[i]`, by op."""
    op = _inverse(row)
    return Times(*(column[row] for column in times._replace(critical_pred=_rows(times.critical_pred, op))))


def _inverse(order: Column) -> Column:
    """Return the place of each number in an order of all of them."""
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order))
    return found


def _rows(column: Column, row: Column) -> Column:
    """Return a column of ops, -1 for none, by their rows."""
    found: Column = np.where(column >= 0, row[column], -1)
    return found


def _gathered(start: Column, op: Column, *columns: Column) -> tuple[Column, list[Column]]:
    """Return the begins of the entries of each row, and these entries, row by row."""
    counts = np.diff(start)[op]
    begin = np.concatenate(([0], np.cumsum(counts)))
    at = np.repeat(start[op] - begin[:-1], counts) + np.arange(begin[-1])
    return begin, [column[at] for column in columns]
