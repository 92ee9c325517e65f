"""NKI418: an iteration of an `affine_range` loop depends on another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related
from nki_lab.isa.alu import AluOp
from nki_lab.kernel_runtime.ir import Accesses, Variant
from nki_lab.kernel_runtime.issue.source_location import span_of
from nki_lab.rules.program_facts import Column, Mask, ProgramFacts, distinct
from nki_lab.rules.rule import Findings, program_rule
from nki_lab.source_files import range_of_loop


class _Rows(NamedTuple):
    """Accesses in a loop by (view, op, reads before writes), with their execution of the loop and iteration of it."""

    execution: Column
    turn: Column
    op: Column
    view: Column
    buffer: Column
    is_out: Mask


@program_rule("NKI418")
def check(facts: ProgramFacts) -> Findings:
    """Yield one finding for each instruction of the source that writes, in every iteration, what others access.

    Sums may be added up in any order: matmuls into PSUM, and tensors that are an operand of their own sum.
    """
    program = facts.program
    if not program.iterations:
        return
    parent, _, value, site_of = zip(*program.iterations, strict=True)
    places = {site: program.sites[site] for site in set(site_of)}
    affine = sorted(site for site, at in places.items() if range_of_loop(at.file, at.line) == "affine_range")
    if not affine or not len(facts.once(_by_view).op):
        return
    iterations = np.array((parent, value, site_of), np.int64).T
    sums = program.variants_where(_adds_up)[facts.variant]
    for site in affine:
        yield from _loop(facts, site, iterations, sums)


def _loop(facts: ProgramFacts, site: int, iterations: Column, sums: Mask) -> Findings:
    carried = []
    for group in _shared_accesses(_rows(facts, site, iterations), sums):
        writer, buffer = int(group.op[group.is_out][0]), int(group.buffer[0])
        reader = _carried(group, int(group.turn[group.op == writer][0]))
        # AWS's kernels have tiles that every iteration fills again; iterations are unrolled in order.
        refilled = reader < 0 and facts.program.dialect == "current" and facts.program.buffers[buffer].on_chip
        if not refilled:
            carried.append((writer, buffer, reader))
    for writer, buffer, reader in distinct(carried, lambda item: facts.program.op_site[item[0]]):
        yield _finding(facts, site, buffer, writer, reader)


def _by_view(facts: ProgramFacts) -> Accesses:
    """Return the accesses of views that are written more than once, by (view, op, reads before writes)."""
    accesses = facts.accesses
    writes = np.bincount(accesses.view[accesses.is_out], minlength=len(facts.program.views))
    rows = np.flatnonzero(writes[accesses.view] > 1)
    order = rows[np.lexsort((accesses.is_out[rows], accesses.op[rows], accesses.view[rows]))]
    return Accesses(accesses.op[order], accesses.view[order], accesses.buffer[order], accesses.is_out[order])


def _rows(facts: ProgramFacts, site: int, iterations: Column) -> _Rows:
    """Return the accesses in iterations of the loop at `site`."""
    mine, parent = iterations[:, 2] == site, iterations[:, 0]
    turn = np.where(mine, np.arange(len(iterations)), -1)
    for _ in range(len(iterations)):  # as often as loops are nested
        found = np.where((turn < 0) & (parent >= 0), turn[parent], turn)
        if (found == turn).all():
            break
        turn = found
    # Where the variable does not grow, the loop begins again.
    own = np.flatnonzero(mine)
    begins = np.ones(len(own), bool)
    begins[1:] = (parent[own[1:]] != parent[own[:-1]]) | (iterations[own[1:], 1] <= iterations[own[:-1], 1])
    execution = np.zeros(len(iterations), np.int64)
    execution[own] = np.cumsum(begins)
    of_op = np.append(turn, -1)[np.frombuffer(facts.program.op_iteration, np.int32)]
    accesses = facts.once(_by_view)
    rows = np.flatnonzero(of_op[accesses.op] >= 0)
    turns = of_op[accesses.op[rows]]
    columns = (accesses.op, accesses.view, accesses.buffer, accesses.is_out)
    return _Rows._make((execution[turns], turns, *(column[rows] for column in columns)))


def _shared_accesses(rows: _Rows, sums: Mask) -> Iterator[_Rows]:
    """Yield the rows that access one view in one execution of the loop, in several iterations, and write it.

    Accesses that make one sum are left out.
    """
    if not len(rows.op):
        return
    begins = np.ones(len(rows.op), bool)
    begins[1:] = (rows.execution[1:] != rows.execution[:-1]) | (rows.view[1:] != rows.view[:-1])
    first = np.flatnonzero(begins)
    end = np.append(first[1:], len(rows.op))
    several = rows.turn[first] != rows.turn[end - 1]
    written = np.logical_or.reduceat(rows.is_out, first)
    other = np.logical_or.reduceat(~sums[rows.op], first)
    for number in np.flatnonzero(several & written & other).tolist():
        group = _Rows._make(column[first[number] : end[number]] for column in rows)
        if not _is_sum(group, sums):
            yield group


def _adds_up(variant: Variant) -> bool:
    """Return whether an instruction may be one term of a sum: a matmul, or an element-wise operation in any order."""
    if variant.instruction.accumulation is not None:
        return True
    attrs = variant.use.attrs
    op = attrs.get("op", attrs.get("reduce_op"))
    return isinstance(op, AluOp) and op.reduction and op.name != "subtract"


def _is_sum(group: _Rows, sums: Mask) -> bool:
    """Return whether the writes are terms of one sum, but for a first one, and nothing else reads it before the
    last.
    """
    written = np.unique(group.op[group.is_out])
    terms = written[sums[written]]
    others = np.setdiff1d(group.op[~group.is_out], terms)
    begin = np.setdiff1d(written, terms)
    return bool(
        len(terms)
        and (not len(begin) or begin.max() < terms.min())
        and (not len(others) or others.min() > written.max())
    )


def _carried(group: _Rows, turn: int) -> int:
    """Return the first op after pass `turn` that reads what another pass has left; -1 without one."""
    for row in np.flatnonzero(~group.is_out & (group.turn > turn)).tolist():
        before = group.is_out & (group.turn == group.turn[row]) & (group.op < group.op[row])
        if not before.any():
            return int(group.op[row])
    return -1


def _finding(facts: ProgramFacts, site: int, number: int, writer: int, reader: int) -> Diagnostic:
    program = facts.program
    place = program.sites[site]
    buffer = program.buffers[number]
    variable = next(item.variable for item in program.iterations if item.site == site)
    line = facts.line(reader) if reader >= 0 else 0
    what = f"the next iteration reads it at line {line}" if line else "every iteration writes the same elements"
    return facts.report(
        "NKI418",
        writer,
        f"{facts.name(writer)}: {facts.title(buffer)} is written in the affine_range loop over {variable!r}, "
        f"and {what}",
        operand="dst",
        limit="the iterations of an affine_range loop may run in any order, and at the same time",
        use="use nl.sequential_range, or index what is written by the loop's variable",
        related=(Related(f"the loop over {variable!r}", span_of(place)), *facts.made(buffer)),
    )
