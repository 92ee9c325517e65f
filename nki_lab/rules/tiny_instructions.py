"""NKI706, NKI707: instructions that one instruction on more partitions, or on longer rows, could replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from nki_lab.isa.spec import Use
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.kernel_runtime.issue.legality import is_legal
from nki_lab.kernel_runtime.schedule import EDGE_KINDS, Schedule
from nki_lab.kernel_runtime.tensor import ViewType
from nki_lab.kernel_runtime.timing import VariantCost
from nki_lab.kernel_runtime.timing.costs import cost_of
from nki_lab.rules.program_facts import Column, Mask
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import CostOf, Saving, TimedFacts

_FLOW: Final = EDGE_KINDS.index("flow")
_ENGINES: Final = ("vector", "scalar", "gpsimd")
_PLACES: Final = 6  # those that the critical path spends most time at
_LONGEST: Final = 512  # columns that one instruction is advised to take, as many as float32 has in a PSUM bank


class _Groups(NamedTuple):
    """Ops of which `size[variant]` can be one."""

    ops: Mask
    size: dict[int, int]


@timed_rule("NKI706")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that full partitions would make faster, at the instruction that costs it most.

    The gain is that of a copy of the program in which one instruction of the same length does the work of as many as
    more partitions of it would hold, and the others take no time.
    """
    pmax = timed.program.arch.pmax
    found = _groups(timed, lambda variant: pmax // _partitions(variant) if variant.engine in _ENGINES else 1)
    saving = _together(timed, found, lambda _number, cost: cost)
    if saving is None:
        return
    facts, first = timed.facts, saving.first
    rows = _partitions(timed.program.variants[timed.program.op_variant[first]])
    yield facts.report(
        "NKI706",
        first,
        f"{facts.name(first)}: works on {rows} of {pmax} partitions, {found.size[int(facts.variant[first])]} such "
        f"instructions in one would gain {saving.gain}",
        note=timed.shape(first),
        limit=f"an instruction takes as long for {pmax} partitions as for one",
        use="lay the tiles out so that several of them lie in the partitions of one",
        related=saving.related,
        gain=saving.share,
    )


@timed_rule("NKI707")
def check_length(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that longer instructions would make faster, at the one that costs it most.

    The gain is that of a copy of the program in which the first of as many instructions as one could do has the cost of
    longer rows, and the others take no time. An instruction has one scalar for each partition, and adds up one value:
    those with scalars of their own stay apart, and so do those that reduce on the way.
    """

    def most(variant: Variant) -> int:
        return 1 if any(variant.outs[at] for at in _of_whole_rows(variant)) else _LONGEST // _columns(variant)

    found = _groups(timed, most, _of_whole_rows)
    wide: dict[int, VariantCost] = {}
    for number, count in found.size.items():
        size, use = count, None
        while size > 1 and (use := _longer(timed.program.variants[number], size)) is None:
            size //= 2
        found.size[number] = size
        if use is not None:
            wide[number] = cost_of(timed.program.arch, Variant(0, use))
    found = _Groups(found.ops & np.isin(timed.facts.variant, list(wide)), found.size)
    saving = _together(timed, found, lambda number, _cost: wide[number])
    if saving is None:
        return
    facts, first = timed.facts, saving.first
    number = int(facts.variant[first])
    columns = _columns(timed.program.variants[number])
    yield facts.report(
        "NKI707",
        first,
        f"{facts.name(first)}: {int((facts.site == facts.site[first]).sum()):,} instructions of "
        f"{columns} {'column' if columns == 1 else 'columns'}, {found.size[number]} in one would gain {saving.gain}",
        note=timed.shape(first),
        limit="each instruction has a fixed time beside that for its columns",
        use="keep the tiles side by side in one tensor and work on several of them at once",
        related=saving.related,
        gain=saving.share,
    )


def _together(timed: TimedFacts, found: _Groups, whole: CostOf) -> Saving | None:
    """Return the saving where the first of each group of ops has another cost, and the others take no time."""
    ops = found.ops
    if not timed.is_worthwhile(int(timed.path_time[ops].sum())):
        return None
    facts, rows = timed.facts, np.flatnonzero(ops)
    keys = (timed.program.core_column()[rows], facts.variant[rows], facts.site[rows])
    order = np.lexsort((rows, *keys))
    changed = np.any([np.diff(key[order], prepend=-1) != 0 for key in keys], axis=0)
    begin = np.flatnonzero(changed)
    rank = np.arange(len(rows)) - begin[np.cumsum(changed) - 1]
    size = np.array([found.size[number] for number in facts.variant[rows[order]].tolist()])
    first = np.zeros(len(ops), bool)
    first[rows[order[rank % size == 0]]] = True
    rest = ops & ~first
    makespan = timed.at_costs((first, whole), (rest, _nothing), order=_loose(timed, rest, ops))
    return timed.saving_of(ops, timed.timing.makespan - makespan)


def _loose(timed: TimedFacts, rest: Mask, ops: Mask) -> Schedule:
    """Return the schedule in which `rest`, whose work others do, waits for none of `ops`."""
    found = timed.schedule
    op, before = np.repeat(np.arange(len(rest)), np.diff(found.start)), found.pred.astype(np.int64)
    kept = ~(rest[op] & ops[before])
    lane_flow = found.lane_flow.copy()
    lane_flow[rest & (lane_flow >= 0) & ops[lane_flow]] = -1
    return replace(
        found,
        start=np.searchsorted(op[kept], np.arange(len(rest) + 1)),
        pred=found.pred[kept],
        kind=found.kind[kept],
        lane_flow=lane_flow,
    )


def _nothing(_number: int, cost: VariantCost) -> VariantCost:
    """Return the cost of an instruction whose work another one does."""
    return replace(cost, interval=0, latency=0, issue=0)


def _partitions(variant: Variant) -> int:
    return max((variant.use.types[name].partitions for name in variant.names), default=1)


def _columns(variant: Variant) -> int:
    """Return the elements of a partition that a call writes, or that one with rows of its own reads, at least 1."""
    views = [variant.use.types[name] for name in variant.names]
    if not variant.instruction.rowwise:
        views = [view for view, out in zip(views, variant.outs, strict=True) if out]
    return max((view.free_size for view in views), default=1) or 1


def _of_whole_rows(variant: Variant) -> list[int]:
    """Return the operands, by number, that have less elements than the rows: those that an instruction has once."""
    if variant.instruction.rowwise:
        return []
    columns = _columns(variant)
    return [at for at, name in enumerate(variant.names) if variant.use.types[name].free_size < columns]


def _longer(variant: Variant, size: int) -> Use | None:
    """Return the same call with rows `size` times as long; None where that is not legal."""
    use, columns, rows = variant.use, _columns(variant), variant.instruction.rowwise
    types = {
        name: _stretched(view, size, rows != "") if view is not None and (rows or view.free_size == columns) else view
        for name, view in use.types.items()
    }
    attributes = dict(use.attrs)
    if rows:  # behind the new dimension
        given = attributes[rows]
        attributes[rows] = [axis + (axis > 0) for axis in (given if isinstance(given, tuple | list) else [given])]
    other = Use(use.instruction, use.arch, types, attributes, {})
    return other if is_legal(other) else None


def _stretched(view: ViewType, size: int, apart: bool) -> ViewType:
    """Return a type with `size` times as many elements, the new ones in an outer dimension: one of its own if `apart`,
    or where that is needed.
    """
    step = max(1, view.span_bytes // view.dtype.nbytes)
    first = 1 if view.on_chip else 0
    shape = (*view.shape[:first], size, *view.shape[first:])
    strides = (*view.strides[:first], step, *view.strides[first:])
    if len(view.shape) == first + 1 and view.contiguous and not apart:
        shape = (*view.shape[:first], size * view.shape[first])
        strides = view.strides
    place = view.start_partition, 0, view.partition_step, view.indirect, view.placed, view.index
    return ViewType(-1, view.space, view.dtype, shape, strides, *place)


def _groups(
    timed: TimedFacts, most: Callable[[Variant], int], common: Callable[[Variant], list[int]] = lambda _variant: []
) -> _Groups:
    """Return how many instructions of a variant can be one, at most `most`, at the places that cost most.

    Instructions of one place count that do not follow from each other, those at the same step of the longest chain,
    and that have the operands which `common` numbers in common.
    """
    facts = timed.facts
    limits = np.array([most(item) if _is_parallel(item) else 1 for item in timed.program.variants] or [1])
    found = _Groups(np.zeros(len(timed.program), bool), {})
    able = (limits[facts.variant] > 1) & timed.own
    if not timed.is_worthwhile(int(timed.path_time[able].sum())):
        return found
    size: dict[int, int] = {}
    for site in timed.places(able)[:_PLACES]:
        ops = able & (facts.site == site)
        kind, shared = facts.variant[ops], _shared(timed, ops, common)
        # at one step of the chain, of the same operands, and equal
        together = distinct((_steps(timed, ops) * (shared.max() + 1) + shared) * len(limits) + kind)
        for number, count in zip(*np.unique(kind, return_counts=True), strict=True):
            groups = int((together % len(limits) == number).sum())
            size[int(number)] = min(size.get(int(number), int(limits[number])), int(count) // groups)
        found.ops[ops] = True
    found.size.update({number: item for number, item in size.items() if item > 1})
    found.ops[:] &= np.isin(facts.variant, list(found.size))
    return found


def _shared(timed: TimedFacts, ops: Mask, common: Callable[[Variant], list[int]]) -> Column:
    """Return a number of each of some ops, the same for those of one variant with the same `common` operands."""
    program, rows = timed.program, np.flatnonzero(ops)
    view, start = np.frombuffer(program.access_view, np.uint32), np.frombuffer(program.op_access, np.uint32)
    kind, out = timed.facts.variant[rows], np.zeros(len(rows), np.int64)
    for number in distinct(kind).tolist():
        if places := common(program.variants[number]):
            mine = kind == number
            views = view[start[rows[mine], None].astype(np.int64) + places]
            out[mine] = np.unique(views, axis=0, return_inverse=True)[1].reshape(-1)
    return out


def _is_parallel(variant: Variant) -> bool:
    """Return whether a call does the same to each element of its operands, so that calls can be put together."""
    instruction, use = variant.instruction, variant.use
    partitions = {use.types[name].partitions for name in variant.names}
    moved = any(use.types[name].indirect for name in variant.names)
    alike = instruction.elementwise or instruction.rowwise != ""
    return alike and variant.engine in _ENGINES and len(partitions) == 1 and not moved


def _steps(timed: TimedFacts, ops: Mask) -> Column:
    """Return of each of some ops how many of them it follows from one after the other, itself counted."""
    schedule, rows = timed.schedule, np.flatnonzero(ops)
    first, end = int(rows[0]), int(rows[-1]) + 1
    starts = schedule.start[first : end + 1]
    edges = slice(int(starts[0]), int(starts[-1]))
    later = np.repeat(np.arange(first, end), np.diff(starts))
    pred = schedule.pred[edges].astype(np.int64)
    # What follows from nothing in between follows from the last number of `level`, which is 0.
    flows = (schedule.kind[edges] == _FLOW) & (pred >= first) & (pred < later)
    before, counts = (pred[flows] - first).tolist(), ops[first:end].tolist()
    ends = np.concatenate(([0], np.cumsum(flows)))[starts[1:] - starts[0]].tolist()
    flow = schedule.lane_flow[first:end]
    same_lane = np.where((flow >= first) & (flow < np.arange(first, end)), flow - first, -1).tolist()
    level, edge = [0] * (end - first + 1), 0
    for at, (counted, stop, row) in enumerate(zip(counts, ends, same_lane, strict=True)):
        most = level[row]
        while edge < stop:
            if level[before[edge]] > most:  # noqa: PLR1730 - a call of max takes as long as three lines
                most = level[before[edge]]
            edge += 1
        level[at] = most + counted
    found: Column = np.array(level[:-1], np.int64)[ops[first:end]]
    return found
