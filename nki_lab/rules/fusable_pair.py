"""NKI711: instructions whose work the one before or the one after could do on the way."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from nki_lab.isa.spec import Use
from nki_lab.kernel_runtime.ir import Variant, View
from nki_lab.kernel_runtime.issue.legality import is_legal
from nki_lab.kernel_runtime.tensor import ViewType
from nki_lab.kernel_runtime.timing import VariantCost
from nki_lab.kernel_runtime.timing.costs import cost_of
from nki_lab.rules.program_facts import ProgramFacts
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts

_MOST: Final = 256  # accesses of a tensor: the values of one that is used more often are not followed
_PLACES: Final = 8  # those that the critical path spends most time at


class _Events(NamedTuple):
    """The accesses of all tensors one after the other, as lists; `start` is where those of each tensor begin."""

    op: list[int]
    view: list[int]
    is_out: list[bool]
    start: list[int]


class _Fusion:
    """Instructions that others do the work of: `carrier[row]` is that, and `uses[row]` its call then."""

    def __init__(self, timed: TimedFacts) -> None:
        self.timed, self.facts = timed, timed.facts
        self.carrier: dict[int, int] = {}
        self.uses: dict[int, Use] = {}
        events = timed.facts.events
        self.events = _Events(*(column.tolist() for column in (events.op, events.view, events.is_out, events.start)))
        self._known: dict[tuple[object, ...], tuple[Use, Use | None]] = {}

    def changed(
        self, use: Use, types: Mapping[str, ViewType], attributes: Mapping[str, object], key: object
    ) -> Use | None:
        """Return a call with operands of other types, and with attributes that `key` tells apart; None where it is not
        legal.
        """
        known_by = id(use), *((name, id(kind)) for name, kind in types.items()), key
        known = self._known.get(known_by)
        if known is None:
            other = Use(use.instruction, use.arch, {**use.types, **types}, {**use.attrs, **attributes}, {}, use.engine)
            known = self._known[known_by] = use, other if is_legal(other) else None
        return known[1]

    def use(self, row: int) -> Use:
        """Return the call that an instruction makes."""
        return self.uses.get(row) or _variant(self.facts, row).use

    def add(self, row: int, stays: int, use: Use | None) -> bool:
        """Let an instruction do the work of another one, by a call that is None where there is no legal one."""
        if use is None or stays in self.carrier or row in self.uses:
            return False
        self.carrier[row] = stays
        self.uses[stays] = use
        return True


class _Life(NamedTuple):
    """A value in a tile: what wrote it, the view that this wrote, and what reads it before something else is
    written."""

    writer: int
    view: View
    readers: list[int]


class _Kind(NamedTuple):
    """A way to make one instruction of two, in words."""

    fuse: Callable[[_Fusion, int], bool]
    what: str
    use: str


@timed_rule("NKI711")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that fewer instructions on the same tiles would make faster, at the one that costs
    most.

    The gain is that of a copy of the program without the instructions that others could stand for: reductions that the
    writer of their data could make on the way, copies whose result the writer of their source could write, and those
    whose source their reader could read.
    """
    able = np.isin(timed.facts.variant, [item.id for item in timed.program.variants if _may_go(item)]) & timed.own
    if not timed.is_worthwhile(int(timed.path_time[able].sum())):
        return
    rows = [np.flatnonzero(able & (timed.facts.site == site)).tolist() for site in timed.places(able)[:_PLACES]]
    fusion, best, known = _Fusion(timed), 0, 0
    kinds: dict[int, _Kind] = {}
    for kind in _KINDS:
        for row in (row for some in rows for row in some if row not in fusion.carrier):
            if kind.fuse(fusion, row):
                kinds[row] = kind
        if len(kinds) > known:
            known = len(kinds)
            gone = np.zeros(len(timed.program), bool)
            gone[list(kinds)] = True
            if timed.is_worthwhile(int(timed.path_time[gone].sum())):
                best = max(best, timed.timing.makespan - _retimed(fusion))
    saving = timed.saving_of(gone, best) if best else None
    if saving is None:
        return
    kind = kinds[saving.first]
    yield timed.facts.report(
        "NKI711",
        saving.first,
        f"{timed.facts.name(saving.first)}: {kind.what}; {known:,} instructions less would gain {saving.gain}",
        note=timed.shape(saving.first),
        limit="an instruction reads and writes its whole tile: each one left out is a pass less",
        use=kind.use,
        related=saving.related,
        gain=saving.share,
    )


def _may_go(variant: Variant) -> bool:
    copies = variant.instruction.role == "copy" and variant.engine != "dma" and variant.outs == (True, False)
    return (copies or variant.instruction.rowwise != "") and not variant.use.types[variant.names[0]].indirect


def _operands(facts: ProgramFacts, row: int) -> dict[str, View]:
    program = facts.program
    variant, start = program.variants[program.op_variant[row]], program.op_access[row]
    return {name: program.views[program.access_view[start + at]] for at, name in enumerate(variant.names)}


def _variant(facts: ProgramFacts, row: int) -> Variant:
    return facts.program.variants[facts.program.op_variant[row]]


def _life(fusion: _Fusion, number: int, row: int) -> _Life | None:
    """Return what was last written to a tile before an op; None without that, or where much happens to the tile."""
    events = fusion.events
    start, end = events.start[number], events.start[number + 1]
    if end - start > _MOST:
        return None
    ops, outs = events.op, events.is_out
    here = bisect_left(ops, row, start, end)
    last = next((at for at in range(here - 1, start - 1, -1) if outs[at]), -1)
    if last < 0:
        return None
    until = next((at for at in range(here, end) if outs[at]), end)
    readers = [ops[at] for at in range(last + 1, until) if not outs[at]]
    return _Life(ops[last], fusion.facts.program.views[events.view[last]], readers)


def _is_alone(fusion: _Fusion, number: int) -> bool:
    """Return whether all accesses of a tensor, not many, are of the same elements."""
    events = fusion.events
    start, end = events.start[number], events.start[number + 1]
    if end - start > _MOST:
        return False
    views = fusion.facts.program.views
    first, *others = set(events.view[start:end])
    return all(_is_same(views[first], views[other]) for other in others)


def _is_same(one: View, other: View) -> bool:
    return one.buffer is other.buffer and one.offset == other.offset and one.type is other.type


def _writes_itself(fusion: _Fusion, row: int) -> bool:
    """Let the writer of a copy's source write its result."""
    facts = fusion.facts
    if _variant(facts, row).instruction.role != "copy":
        return False
    dst, src = _operands(facts, row).values()
    life = _life(fusion, src.buffer.id, row)
    if life is None or not _is_same(life.view, src) or dst.type.shape != src.type.shape:
        return False
    writer = _variant(facts, life.writer)
    outs = [name for name, view in _operands(facts, life.writer).items() if _is_same(view, life.view)]
    readers = [reader for reader in life.readers if reader not in fusion.carrier]
    if readers != [row] or len(outs) != 1 or writer.engine == "dma" or writer.instruction.updates(writer.use):
        return False
    between = [at for at in _after(fusion, dst.buffer.id, life.writer) if fusion.events.op[at] < row]
    if between or not _is_alone(fusion, src.buffer.id):
        return False
    return fusion.add(row, life.writer, fusion.changed(fusion.use(life.writer), {outs[0]: dst.type}, {}, None))


def _reads_itself(fusion: _Fusion, row: int) -> bool:
    """Let the only reader of a copy read its source."""
    facts, events = fusion.facts, fusion.events
    if _variant(facts, row).instruction.role != "copy":
        return False
    dst, src = _operands(facts, row).values()
    after = _after(fusion, dst.buffer.id, row)
    if dst.type.shape != src.type.shape or not after or events.is_out[after[0]]:
        return False
    if (len(after) > 1 and not events.is_out[after[1]]) or not _is_alone(fusion, dst.buffer.id):
        return False  # another reader
    reader = events.op[after[0]]
    call = _variant(facts, reader)
    overwritten = any(events.is_out[at] and events.op[at] < reader for at in _after(fusion, src.buffer.id, row))
    names = [name for name, view in _operands(facts, reader).items() if _is_same(view, dst)]
    if overwritten or not call.instruction.elementwise or len(names) != 1:
        return False
    return fusion.add(row, reader, fusion.changed(fusion.use(reader), {names[0]: src.type}, {}, None))


def _after(fusion: _Fusion, number: int, row: int) -> range:
    """Return the events of a tensor behind an op; none where it has many."""
    start, end = fusion.events.start[number], fusion.events.start[number + 1]
    if end - start > _MOST:
        return range(0)
    return range(bisect_right(fusion.events.op, row, start, end), end)


def _sums_itself(fusion: _Fusion, row: int) -> bool:
    """Let the writer of what is reduced over all columns reduce it on the way."""
    facts, variant = fusion.facts, _variant(fusion.facts, row)
    if not variant.instruction.rowwise or variant.use.types[variant.names[0]].free_size != 1:
        return False
    result, data = _operands(facts, row).values()
    life = _life(fusion, data.buffer.id, row)
    if life is None or not _is_same(life.view, data):
        return False
    use, fold = fusion.use(life.writer), _variant(facts, life.writer).instruction.folds
    if fold is None or use.types.get(fold.result) is not None:
        return False
    attributes = {fold.operator: variant.use.attrs["op"], **fold.given}
    return fusion.add(row, life.writer, fusion.changed(use, {fold.result: result.type}, attributes, variant.id))


def _retimed(fusion: _Fusion) -> int:
    """Return the makespan in picoseconds without the instructions that others do the work of."""
    timed = fusion.timed
    carrier = np.arange(len(timed.program))
    carrier[list(fusion.carrier)] = list(fusion.carrier.values())
    while True:  # a carrier may have one itself
        further = carrier[carrier]
        if np.array_equal(further, carrier):
            break
        carrier = further
    costs: dict[tuple[object, ...], VariantCost] = {}
    groups: dict[tuple[object, ...], list[int]] = {}
    for row, use in fusion.uses.items():
        if row not in fusion.carrier:
            key = int(timed.facts.variant[row]), *use.types.values(), len(use.attrs)
            if key not in costs:
                costs[key] = cost_of(timed.program.arch, Variant(0, use))
            groups.setdefault(key, []).append(row)
    changes = []
    for key, rows in groups.items():
        mine = np.zeros(len(timed.program), bool)
        mine[rows] = True
        changes.append((mine, _always(costs[key])))
    return timed.at_costs(*changes, order=timed.carried(carrier))


def _always(cost: VariantCost) -> Callable[[int, VariantCost], VariantCost]:
    return lambda _number, _cost: cost


_KINDS: Final = (
    _Kind(
        _sums_itself,
        "reduces what the instruction before it could reduce on the way",
        "give that instruction the operator and a result for the reduction: reduce_op, reduce_res",
    ),
    _Kind(
        _writes_itself,
        "copies what the instruction before it could write there, in this dtype, itself",
        "pass the tile that is copied to as dst of the instruction that makes the values",
    ),
    _Kind(
        _reads_itself,
        "copies what the instruction behind it could read where it is",
        "pass the tile that is copied from to the instruction that reads the copy",
    ),
)
