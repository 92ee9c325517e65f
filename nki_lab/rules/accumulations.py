"""What happened to a PSUM window before a matmul adds to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.footprint import boxes_overlap, rect_of
from nki_lab.kernel_runtime.ir import View
from nki_lab.kernel_runtime.tensor import psum
from nki_lab.rules.program_facts import ProgramFacts

Column = NDArray[np.int64]


class Addition(NamedTuple):
    """A matmul `op` adds to `view`; `before` is the last access of these elements, which is no matmul's."""

    op: int
    view: View
    before: int
    is_read: bool


def interrupted(facts: ProgramFacts) -> list[Addition]:
    """The matmuls that add to a sum which something else accessed since the last matmul into it, once for each place.

    Accesses of the same view are compared, and neighbouring accesses of one tensor where their views overlap.
    """
    return list(_interrupted(facts))


def _interrupted(facts: ProgramFacts) -> Iterator[Addition]:
    program = facts.program
    adding = np.zeros(len(program), bool)
    adding[[op for op, added in facts.coverage.add.items() if added is not False]] = True
    if not adding.any():
        return
    events = facts.events
    in_psum = np.array([buffer.space is psum for buffer in program.buffers], bool)
    rows = np.flatnonzero(in_psum[events.buffer])
    by_view = rows[np.argsort(events.view[rows], kind="stable")]
    sums = facts.can_accumulate
    told: set[tuple[int, bool]] = set()
    for order, key in ((by_view, events.view), (rows, events.buffer)):
        ops = events.op[order]
        found = _after_others(key[order], sums[ops] & events.is_out[order], adding[ops] & events.is_out[order])
        for at in found.tolist():
            row, former = int(order[at]), int(order[at - 1])
            item = Addition(
                int(events.op[row]), program.views[events.view[row]], int(events.op[former]),
                not bool(events.is_out[former]),
            )  # fmt: skip
            place = (int(program.op_site[item.op]), item.is_read)
            if place not in told and meet(item.view, program.views[events.view[former]]):
                told.add(place)
                yield item


def _after_others(key: Column, multiplies: NDArray[np.bool_], adds: NDArray[np.bool_]) -> Column:
    """Positions of what adds right after an access by something else, of the same key."""
    found = adds.copy()
    found[1:] &= (key[1:] == key[:-1]) & ~multiplies[:-1]
    found[:1] = False
    return np.flatnonzero(found)


def meet(a: View, b: View) -> bool:
    """Whether two views of a buffer surely have elements in common."""
    if a is b or a.full or b.full:
        return True
    p, q = rect_of(a), rect_of(b)
    return p is not None and q is not None and boxes_overlap(p, q)
