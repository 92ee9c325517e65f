"""NKI414: what an instruction writes, nothing reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related
from nki_lab.kernel_runtime.ir import Program, Variant
from nki_lab.rules.program_facts import Column, Events, Mask, ProgramFacts
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI414")
def check(facts: ProgramFacts) -> Findings:
    """Yield one finding for each place whose instructions all write what is never read.

    A write is dead where the same elements, or all of the tensor, are written again before anything reads the tensor,
    or where nothing reads it any more. One that is read on some passes through its place is no mistake, but for a
    matmul that writes over the product of the same place, which was meant to be a term of a sum; nor is what a loop of
    one iteration leaves for the next one. A kernel without a result, as one that is being typed, has nothing to read
    anything for.
    """
    program = facts.program
    if not facts.complete or program.observed or not len(program):
        return
    events = facts.events
    if not _outside(facts)[events.buffer[events.is_out]].any():
        return  # a kernel that nobody can see the end of, yet
    dead, killer = _dead_writes(facts, events)
    if not dead.any():
        return
    ops = _dead_ops(facts, events, dead)
    site = facts.site
    at_place = np.bincount(site, minlength=len(program.sites))
    wasted = np.bincount(site[ops], minlength=len(program.sites))
    found = (wasted == at_place) & (at_place > 0)
    found[list(_lost_sums(facts, events, dead & ops[events.op], killer))] = True
    trips = Counter((item.parent, item.site) for item in program.iterations) if found.any() else Counter()
    for place in np.flatnonzero(found).tolist():
        op = int(np.flatnonzero(ops & (site == place))[0])
        if _is_carried(facts, events, op, trips):
            continue
        row = int(np.flatnonzero(dead & (events.op == op))[0])
        count, of = int(wasted[place]), int(at_place[place])
        times = "" if of == 1 else f"; so it is all {of} times" if count == of else f"; so it is {count} of {of} times"
        yield _finding(facts, op, int(events.buffer[row]), int(killer[row]), times)


def _is_carried(facts: ProgramFacts, events: Events, op: int, trips: Counter[tuple[int, int]]) -> bool:
    """Return whether a loop around an op runs once, and has read what the op writes: longer loops read it again.

    `trips` counts the iterations of each loop, by the iteration around it and its site.
    """
    program = facts.program
    loops = program.iterations
    once = {number for number in _iterations(program, op) if trips[loops[number].parent, loops[number].site] == 1}
    if not once:
        return False
    written = events.buffer[(events.op == op) & events.is_out]
    earlier = events.op[np.isin(events.buffer, written) & ~events.is_out & (events.op < op)]
    return any(not once.isdisjoint(_iterations(program, reader)) for reader in earlier.tolist())


def _iterations(program: Program, op: int) -> list[int]:
    """Return the numbers of the iterations that an op is in, from the inside out."""
    number, found = program.op_iteration[op], []
    while number >= 0:
        found.append(number)
        number = program.iterations[number].parent
    return found


def _dead_writes(facts: ProgramFacts, events: Events) -> tuple[Mask, Column]:
    """Return the events that are dead writes, and for each the op that writes over it, -1 where nothing does."""
    count = len(events.op)
    pure = facts.overwrites[events.op]
    reads = ~events.is_out | ~pure
    row = np.arange(count)
    whole = np.array([view.full for view in facts.program.views], bool)
    certain = np.array([view.indirect is None for view in facts.program.views], bool)  # known before the run
    end = events.start[events.buffer + 1]
    next_read = _next(reads, count, row)
    kill = np.minimum(_next_alike(events), _next(whole[events.view] & events.is_out & pure, count, row))
    killed = (kill < end) & (kill < next_read)
    forgotten = (next_read >= end) & _local(facts)[events.buffer]
    straight = _straight(facts, events)[events.buffer]
    unread = np.bincount(events.buffer[reads], minlength=len(facts.program.buffers)) == 0
    found = events.is_out & pure & np.where(straight, killed | forgotten, forgotten & unread[events.buffer])
    return found & certain[events.view], np.where(killed, events.op[np.minimum(kill, count - 1)], -1)


def _lost_sums(facts: ProgramFacts, events: Events, dead: Mask, killer: Column) -> Iterator[int]:
    """Yield the places whose matmuls overwrite each other's products.

    A matmul that is repeated as it is warms the engine up.
    """
    site = facts.program.op_site
    rows = np.flatnonzero(dead & (killer >= 0) & facts.can_accumulate[events.op])
    for op, other in zip(events.op[rows].tolist(), killer[rows].tolist(), strict=True):
        if site[op] == site[other] and _read_views(facts, op) != _read_views(facts, other):
            yield site[op]


def _read_views(facts: ProgramFacts, op: int) -> list[int]:
    """Return the numbers of the views that an op reads."""
    program = facts.program
    outs, start = program.variants[program.op_variant[op]].outs, program.op_access[op]
    return [int(program.access_view[start + at]) for at, is_out in enumerate(outs) if not is_out]


def _next(marked: Mask, count: int, row: Column) -> Column:
    """For each row the next later one that is marked; `count` without one."""
    at = np.where(marked, row, count)
    following = np.minimum.accumulate(at[::-1])[::-1]
    return np.append(following[1:], count)


def _next_alike(events: Events) -> Column:
    """For each event the next one that writes the same view; the number of events without one."""
    count = len(events.op)
    out = np.full(count, count)
    rows = np.flatnonzero(events.is_out)
    order = rows[np.argsort(events.view[rows], kind="stable")]
    same = events.view[order[1:]] == events.view[order[:-1]]
    out[order[:-1][same]] = order[1:][same]
    return out


def _local(facts: ProgramFacts) -> Mask:
    """Return the buffers that do not outlive the kernel, and that are seen under one name only."""
    out: Mask = ~_outside(facts) & _under_one_name(facts)
    out[list(facts.doubtful)] = False
    return out


def _under_one_name(facts: ProgramFacts) -> Mask:
    """Return the buffers whose memory is not read through another buffer.

    An access through the other name reads what nothing has written under that name.
    """
    placed = np.array([buffer.address is not None for buffer in facts.program.buffers], bool)
    aliased = any(item.code in ("NKI301", "NKI302") for item in facts.coverage.diagnostics)
    alone: Mask = ~placed if aliased else np.ones(len(placed), bool)
    if placed.any():
        alone[facts.allocation.overlaps.ravel()] = False  # both live, in the same bytes
    return alone


def _outside(facts: ProgramFacts) -> Mask:
    """Return the buffers that are the caller's in the end."""
    out = np.array([buffer.kind != "temp" for buffer in facts.program.buffers], bool)
    out[[tensor._buffer.id for tensor in facts.program.outputs]] = True
    return out


def _straight(facts: ProgramFacts, events: Events) -> Mask:
    """Return the buffers whose accesses happen in program order: on one core, outside of device loops, by one name."""
    out = _under_one_name(facts).copy()
    out[events.buffer[facts.in_loop[events.op]]] = False
    if facts.program.cores > 1:
        core = facts.program.core_column()[events.op]
        used = np.flatnonzero(np.diff(events.start))
        first = events.start[:-1][used]
        out[used] &= np.minimum.reduceat(core, first) == np.maximum.reduceat(core, first)
    return out


def _dead_ops(facts: ProgramFacts, events: Events, dead: Mask) -> Mask:
    """Return the ops that write nothing but what is dead, and do nothing else."""
    count = len(facts.program)
    written = np.bincount(events.op[events.is_out], minlength=count)
    wasted = np.bincount(events.op[dead], minlength=count)
    busy = facts.program.variants_where(_has_effects)
    found: Mask = (wasted == written) & (written > 0) & ~busy[facts.variant]
    return found


def _has_effects(variant: Variant) -> bool:
    """Return whether an instruction does more than write its results: to registers, or with the other core."""
    instruction = variant.instruction
    keeps = instruction.keeps_state is not None and instruction.keeps_state(variant.use)
    return keeps or instruction.writes_register or instruction.synchronizes is not None


def _finding(facts: ProgramFacts, op: int, number: int, killer: int, times: str) -> Diagnostic:
    buffer = facts.program.buffers[number]
    reason, related = "nothing reads it", facts.made(buffer)
    if killer >= 0:
        reason = f"line {facts.line(killer)} writes over it before anything reads it"
        related = (Related("it is written over here", facts.span(killer)), *related)
    adds = killer >= 0 and facts.program.op_site[killer] == facts.program.op_site[op]
    return facts.report(
        "NKI414",
        op,
        f"{facts.name(op)}: {facts.title(buffer)} is written, and {reason}{times}",
        operand="dst",
        limit="an instruction is worth its time where something reads its result",
        use="add to it with accumulate=True or None" if adds else "leave it out, or read the tile that is meant",
        related=related,
    )
