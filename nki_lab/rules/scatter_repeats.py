"""NKI412: a scatter whose indices are the same in every run names a row twice."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nki_lab.isa import enums
from nki_lab.kernel_runtime.ir import View, registers_of
from nki_lab.kernel_runtime.issue.gathers import repeated_row
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.rules.program_facts import Column, ProgramFacts, distinct
from nki_lab.rules.rule import Findings, program_rule


@program_rule("NKI412")
def check(facts: ProgramFacts) -> Findings:
    """Yield one finding for each place that scatters by indices which one instruction fills a tile with.

    Those are the same for any data. A run finds it in other tiles too.
    """
    program = facts.program
    scatters = [item.id for item in program.variants if any(view and _picks(view) for view in item.use.types.values())]
    if not scatters:
        return
    ops = np.flatnonzero(np.isin(facts.variant, scatters)).tolist()
    found = ((op, view, twice) for op in ops for view, twice in _repeats(facts, op))
    for op, view, twice in distinct(found, lambda item: program.op_site[item[0]]):
        assert view.indirect is not None
        finding = repeated_row(program.variant_of(op).use.name, *twice, view.indirect.dim)
        yield placed(finding, program.sites[program.op_site[op]])


def _picks(view: object) -> bool:
    return getattr(view, "indirect", None) == "vector"


def _repeats(facts: ProgramFacts, op: int) -> Iterator[tuple[View, tuple[int, int, int]]]:
    """Yield each result of an op that names a row twice: the two rows that go there, and the index."""
    variant, views = facts.program.variant_of(op), facts.program.views_of(op)
    skips = variant.use.attrs.get("oob_mode") is enums.oob_mode.skip
    for view, is_out in zip(views, variant.outs, strict=True):
        if view.indirect is None or not is_out or not _picks(view.type):
            continue
        other = any(item.indirect not in (None, view.indirect) for item in views)
        values = None if skips and other else _constant(facts, op, view.indirect.index)  # it may leave out one of two
        if values is None:
            continue
        table = values.reshape(len(values), -1)
        rows = (table.T if variant.use.index_order == "columns" else table).reshape(-1)[: view.type.shape[0]]
        inside = np.flatnonzero((rows >= view.indirect.lowest) & (rows <= view.indirect.highest))
        _, first, which = np.unique(rows[inside], return_index=True, return_inverse=True)
        again = np.flatnonzero(first[which] != np.arange(len(inside)))
        if len(again):
            late = int(again[0])
            yield view, (int(inside[first[which[late]]]), int(inside[late]), int(rows[inside[late]]))


def _constant(facts: ProgramFacts, op: int, index: object) -> Column | None:
    """Return the values of a tile of indices that one fill before an op makes, and nothing else writes."""
    if not isinstance(index, NkiTensor):
        return None
    events, program, buffer = facts.events, facts.program, index._buffer
    rows = slice(events.start[buffer.id], events.start[buffer.id + 1])
    writes = events.op[rows][events.is_out[rows]]
    if len(writes) != 1 or writes[0] >= op or buffer.address is not None or buffer.id in facts.doubtful:
        return None
    (fill,) = writes.tolist()
    variant, (view, *others) = program.variant_of(fill), program.views_of(fill)
    if variant.instruction.fills is None or others or not view.full or registers_of(variant) or facts.in_loop[fill]:
        return None
    dst = np.empty(view.type.shape, view.type.dtype.storage)
    fills = variant.instruction.numerics
    if not callable(fills) or view.indirect is not None or dst.dtype.kind not in "iu":
        return None
    fills(SimpleNamespace(dst=dst.reshape(len(dst), -1)), SimpleNamespace(), variant.use, SimpleNamespace(values={}))
    steps = [step * dst.itemsize for step in index._strides]
    return as_strided(dst.reshape(-1)[index._offset :], index._shape, steps).astype(np.int64)
