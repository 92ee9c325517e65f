"""NKI703: a tile is filled again and again, and each time the one before must have been read."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related
from nki_lab.kernel_runtime.allocate.placing import AddressSpace
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.schedule import EDGE_KINDS, Schedule
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, psum, sbuf
from nki_lab.rules.program_facts import Column
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts

_ANTI: Final = EDGE_KINDS.index("anti")


@timed_rule("NKI703")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that second tiles would make faster, at the tile whose reuse costs it most.

    The gain is that of two tiles in turn for each whose reuse is on the critical path, as far as memory has room.
    """
    fills, readers = _reuses(timed)
    spent = timed.path_time
    if not timed.is_worthwhile(int(spent[fills].sum())):
        return
    cost: dict[int, int] = {}
    for op, before in zip(fills.tolist(), readers.tolist(), strict=True):
        for number in _touched(timed, op, out=True) & _touched(timed, before, out=False):
            cost[number] = cost.get(number, 0) + int(spent[op])
    chosen = _fitting(timed, sorted(cost, key=lambda number: -cost[number]))
    if not chosen:
        return
    gain = timed.timing.makespan - timed.retimed(_doubled(timed, chosen))
    if timed.is_worthwhile(gain):
        yield _finding(timed, chosen, gain)


def _reuses(timed: TimedFacts) -> tuple[Column, Column]:
    """Return (what fills a tile, who has read it before) where the critical path goes from the second to the first."""
    row, found, ops = timed.timing.path.row, timed.schedule, len(timed.program)
    steps = row[row >= 0]
    after, before = steps[1:], steps[:-1]
    anti = found.kind == _ANTI
    edges = np.repeat(np.arange(ops), np.diff(found.start))[anti] * ops + found.pred[anti]
    kept = np.isin(after * ops + before, edges)
    return after[kept], before[kept]


def _touched(timed: TimedFacts, op: int, *, out: bool) -> set[int]:
    """Return the tiles on the chip that an op writes, or reads."""
    program = timed.program
    start, outs = program.op_access[op], program.variants[program.op_variant[op]].outs
    buffers = [program.views[program.access_view[start + at]].buffer for at, role in enumerate(outs) if role is out]
    return {buffer.id for buffer in buffers if buffer.on_chip}


def _fitting(timed: TimedFacts, numbers: list[int]) -> list[Buffer]:
    """Return as many of these tiles, in order, as there is room for a second time."""
    allocation, arch = timed.allocation, timed.program.arch
    left: dict[MemoryRegion, int] = {
        sbuf: AddressSpace.of(sbuf, arch).usable - allocation.sbuf_peak,
        psum: AddressSpace.of(psum, arch).usable - allocation.psum_peak,
    }
    chosen = []
    for buffer in (timed.program.buffers[number] for number in numbers):
        bank = AddressSpace.of(buffer.space, arch).bank
        size = -(-buffer.partition_bytes // bank) * bank if bank else buffer.partition_bytes
        if size <= left[buffer.space]:
            left[buffer.space] -= size
            chosen.append(buffer)
    return chosen


def _doubled(timed: TimedFacts, chosen: list[Buffer]) -> Schedule:
    """Return the schedule in which what fills one of the tiles waits for the readers of what was there two times
    before.
    """
    found, accesses = timed.schedule, timed.facts.accesses
    ops = len(timed.program)
    mine = np.zeros(len(timed.program.buffers), bool)
    mine[[buffer.id for buffer in chosen]] = True
    view = np.full(ops, -1, np.int64)  # of a tile that an op fills
    fills = accesses.is_out & mine[accesses.buffer]
    view[accesses.op[fills]] = accesses.view[fills]
    reads = np.zeros(ops, bool)
    reads[accesses.op[~accesses.is_out & mine[accesses.buffer]]] = True
    op = np.repeat(np.arange(ops), np.diff(found.start))
    pred, kind = found.pred.astype(np.int64), found.kind
    moved = np.flatnonzero((kind == _ANTI) & (view[op] >= 0) & reads[pred])
    later = _next_fill(view, op[moved])
    op[moved] = later
    order = np.lexsort((pred, op))
    order = order[op[order] >= 0]
    return replace(
        found, start=np.searchsorted(op[order], np.arange(ops + 1)), pred=found.pred[order], kind=kind[order]
    )


def _next_fill(view: Column, op: Column) -> Column:
    """For each op the next one that waits to fill the same view; -1 without one."""
    fillers = distinct(op)
    order = fillers[np.argsort(view[fillers], kind="stable")]
    following = np.full(len(view), -1, np.int64)
    same = view[order[1:]] == view[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    return following[op]


def _finding(timed: TimedFacts, chosen: list[Buffer], gain: int) -> Diagnostic:
    facts, buffer = timed.facts, chosen[0]
    accesses = facts.accesses
    fills = np.zeros(len(timed.program), bool)
    fills[accesses.op[accesses.is_out & (accesses.buffer == buffer.id)]] = True
    first = timed.first_at(timed.places(fills)[0], fills)
    others = [
        Related(f"so does {facts.title(item)}", facts.made(item)[0].span) for item in chosen[1:4] if facts.made(item)
    ]
    second = f"second tiles for it and {len(chosen) - 1} more" if len(chosen) > 1 else "a second tile for it"
    what = f"fills {facts.title(buffer)}, and waits each time until it has been read; {second}, taken in turn,"
    return facts.report(
        "NKI703",
        first,
        f"{facts.name(first)}: {what} would gain {timed.gain(gain)}",
        operand="dst",
        limit="a tile holds one value at a time: what fills it waits for all that reads it",
        use="allocate the tile inside the loop, or two before it and take them in turn",
        related=[*facts.made(buffer), *others],
        gain=gain / timed.timing.makespan,
    )
