"""NKI415 to NKI417: sums in PSUM that something else writes or reads, or that a matmul overwrites in part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from nki_lab.diagnostic import Related
from nki_lab.kernel_runtime.footprint import boxes_overlap, rect_of
from nki_lab.kernel_runtime.ir import View
from nki_lab.kernel_runtime.tensor import psum
from nki_lab.rules.program_facts import Mask, ProgramFacts, distinct
from nki_lab.rules.rule import Findings, program_rule

_BY_DEFAULT: Final = ": accumulate=None adds wherever a matmul has written before"


@program_rule("NKI415")
def check_overwritten(facts: ProgramFacts) -> Findings:
    """Yield one finding for each matmul of the source that adds to a sum which another instruction has overwritten."""
    for item in facts.once(_interrupted):
        if not item.is_read:
            yield facts.report(
                "NKI415",
                item.op,
                f"{facts.name(item.op)}: adds to {facts.title(item.view.buffer)}, which {facts.name(item.before)} at "
                f"line {facts.line(item.before)} has written since the last matmul",
                operand="dst",
                limit="between the first matmul of a sum and the last, only matmuls write it",
                use="begin anew with accumulate=False, or take another PSUM tile",
                related=(Related("it is written here", facts.span(item.before)), *facts.made(item.view.buffer)),
            )


@program_rule("NKI416")
def check_read_early(facts: ProgramFacts) -> Findings:
    """Yield one finding for each matmul of the source that adds to a sum which has been read already."""
    for item in facts.once(_interrupted):
        if item.is_read:
            variant = facts.program.variants[facts.program.op_variant[item.op]]
            accumulation = variant.instruction.accumulation
            assert accumulation is not None
            why = "" if accumulation.mode(variant.use) else _BY_DEFAULT
            yield facts.report(
                "NKI416",
                item.op,
                f"{facts.name(item.op)}: adds to {facts.title(item.view.buffer)}, which {facts.name(item.before)} at "
                f"line {facts.line(item.before)} has already read{why}",
                operand=accumulation.operand,
                limit="a sum is complete before it is read, and the next one begins anew",
                use="write accumulate=(k > 0), allocate the tile where its sum begins, or read it after the last "
                "matmul",
                related=(Related("it is read here", facts.span(item.before)), *facts.made(item.view.buffer)),
            )


class _Addition(NamedTuple):
    """A matmul `op` adds to `view`; `before` is the last access of these elements, which is no matmul's."""

    op: int
    view: View
    before: int
    is_read: bool


def _interrupted(facts: ProgramFacts) -> list[_Addition]:
    """Return the matmuls that add to a sum which something else accessed since the last matmul, once for each place.

    Accesses of the same view are compared, and neighbouring accesses of one tensor where their views overlap.
    """
    adding = np.zeros(len(facts.program), bool)
    adding[[op for op, added in facts.coverage.add.items() if added is not False]] = True
    site = facts.program.op_site
    found = _after_others(facts, adding) if adding.any() else ()
    return list(distinct(found, lambda item: (site[item.op], item.is_read)))


def _after_others(facts: ProgramFacts, adding: Mask) -> Iterator[_Addition]:
    """Yield the additions that come right after an access by something else."""
    program, events = facts.program, facts.events
    in_psum = np.array([buffer.space is psum for buffer in program.buffers], bool)
    rows = np.flatnonzero(in_psum[events.buffer])
    by_view = rows[np.argsort(events.view[rows], kind="stable")]
    for order, column in ((by_view, events.view), (rows, events.buffer)):
        key, is_out, ops = column[order], events.is_out[order], events.op[order]
        found = adding[ops] & is_out
        found[1:] &= (key[1:] == key[:-1]) & ~(facts.can_accumulate[ops] & is_out)[:-1]
        found[:1] = False
        for at in np.flatnonzero(found).tolist():
            row, former = int(order[at]), int(order[at - 1])
            view = program.views[events.view[row]]
            if _overlap(view, program.views[events.view[former]]):
                yield _Addition(int(events.op[row]), view, int(events.op[former]), not events.is_out[former])


def _overlap(a: View, b: View) -> bool:
    """Return whether two views of a buffer surely have elements in common."""
    if a is b or a.full or b.full:
        return True
    p, q = rect_of(a), rect_of(b)
    return p is not None and q is not None and boxes_overlap(p, q)


@program_rule("NKI417")
def check_mixed(facts: ProgramFacts) -> Findings:
    """Yield one finding for each such matmul of the source."""
    program = facts.program
    mixed = ((op, added) for op, added in facts.coverage.add.items() if not isinstance(added, bool))
    for op, added in distinct(mixed, lambda item: program.op_site[item[0]]):
        view = program.op(op).operand("dst")
        assert view is not None
        count = int(np.count_nonzero(added))
        yield facts.report(
            "NKI417",
            op,
            f"{facts.name(op)}: adds to {count} elements of {facts.title(view.buffer)} that a matmul has written, and "
            f"overwrites the other {added.size - count}",
            operand="dst",
            limit="the windows of two accumulation groups are the same, or have nothing in common",
            use="give each sum a window of its own, or say accumulate=True or False",
            related=facts.made(view.buffer),
        )
