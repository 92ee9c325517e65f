"""The tables of a recording, from a program with its queues, times and addresses."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from nki_lab.isa.spec import show_value
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program, Variant, View, attributes_of
from nki_lab.kernel_runtime.recording.schema import FULL_EFFICIENCY
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.kernel_runtime.tensor.buffer import row_major
from nki_lab.kernel_runtime.timing import Timing, VariantCost, cadence, costs_of
from nki_lab.kernel_runtime.vocabulary import (
    ARRANGEMENTS,
    BUFFER_KINDS,
    DESCRIPTOR_MODES,
    INDIRECTIONS,
    LANE_KINDS,
    SPACES,
    STALL_REASONS,
)
from nki_lab.printable import on_one_line
from nki_lab.source_files import lines_of, shown_names
from nki_lab.timeline.recorded_rows import roles_of


def recorded_tables(
    program: Program, queues: Schedule, timing: Timing, allocation: Allocation
) -> dict[str, dict[str, Any]]:
    """Return the tables of a recording of the rows that the chip executes."""
    edges = np.repeat(np.arange(len(program)), np.diff(queues.start))
    rows = {
        "start": timing.start,
        "duration": timing.duration,
        "ready": timing.ready,
        "setup": timing.setup,
        "op": np.frombuffer(program.op_variant, np.uint32),
        "site": np.frombuffer(program.op_site, np.uint32),
        "iteration": np.frombuffer(program.op_iteration, np.int32),
        "access": np.frombuffer(program.op_access, np.uint32),
        "after": timing.critical_pred,
        "work": timing.work,
        "bytes": timing.bytes,
        "lane": queues.lane,
        "pace": (timing.busy * FULL_EFFICIENCY // np.maximum(timing.duration, 1)).clip(0, FULL_EFFICIENCY),
        "stall": timing.stall,
        "setup_stall": timing.setup_reason,
        "held": timing.throttle_reason,
        "confidence": timing.confidence,
    }
    path = timing.path.row[timing.path.row >= 0]
    patterns = _Patterns()
    views = [
        (
            view.buffer.id,
            patterns.of(view.type.dtype.name, view.type.shape, view.type.strides),
            view.offset,
            INDIRECTIONS.index(view.type.indirect or "none"),
            _index(view),
        )
        for view in program.views
    ]
    tables: dict[str, dict[str, Any]] = {
        "rows": rows,
        "accesses": {"view": np.frombuffer(program.access_view, np.uint32), "role": roles_of(program)},
        "edges": {"row": edges, "before": queues.pred, "kind": queues.kind},
        "views": _columns(("buffer", "pattern", "offset", "indirect", "index"), views),
        "buffers": _buffers(program, allocation, patterns),
        "lanes": {
            "name": [lane.name for lane in queues.lanes],
            "kind": [LANE_KINDS.index(lane.kind) for lane in queues.lanes],
            "core": [lane.core for lane in queues.lanes],
        },
        "stalls": {"name": list(STALL_REASONS)},
        "ops": _ops(program),
        "iterations": _columns(("parent", "loop", "value", "site"), program.iterations),
        "critical": {"row": path[np.append(True, path[1:] != path[:-1])[: len(path)]]},  # each op once
        **_sources(program),
    }
    tables["patterns"], tables["dims"] = patterns.tables()
    made = np.flatnonzero(np.array(tables["ops"]["making"], np.int64)[np.frombuffer(program.op_variant, np.uint32)])
    tables["triggers"] = {"row": made, "start": timing.served[made]}
    return tables


def _columns(names: tuple[str, ...], records: list[Any]) -> dict[str, Any]:
    columns = zip(*records, strict=True) if records else ([] for _ in names)
    return dict(zip(names, (list(column) for column in columns), strict=True))


class _Patterns:
    """Shapes with steps and a dtype, numbered, and their dimensions one after the other."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, tuple[int, ...], tuple[int, ...]], int] = {}

    def of(self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
        return self._numbers.setdefault((dtype, shape, strides), len(self._numbers))

    def tables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        ranks = [len(shape) for _, shape, _ in self._numbers]
        first = itertools.accumulate(ranks, initial=0)
        records = [(dtype, dim, rank) for (dtype, _, _), dim, rank in zip(self._numbers, first, ranks, strict=False)]
        dims = [pair for _, shape, strides in self._numbers for pair in zip(shape, strides, strict=True)]
        return _columns(("dtype", "dim", "rank"), records), _columns(("size", "step"), dims)


def _buffers(program: Program, allocation: Allocation, patterns: _Patterns) -> dict[str, Any]:
    records = [
        (
            buffer.name,
            SPACES.index(buffer.space.value),
            BUFFER_KINDS.index(buffer.kind),
            patterns.of(buffer.dtype.name, buffer.shape, row_major(buffer.shape)),
            int(allocation.partition[buffer.id]),
            buffer.partitions,
            int(allocation.byte[buffer.id]),
            buffer.partition_bytes,
            buffer.site,
            buffer.core,
        )
        for buffer in program.buffers
    ]
    names = ("name", "space", "kind", "pattern", "partition", "partitions", "byte", "partition_bytes", "site", "core")
    return _columns(names, records)


def _index(view: View) -> int:
    """Return the view that holds the run-time indices of another one; -1 where a register does, or none are."""
    index = None if view.indirect is None else view.indirect.index
    return index._view if isinstance(index, NkiTensor) else -1


_OPS: Final = (
    "name", "detail", "work_unit", "operands", "arrangement", "stationary", "moving", "mode", "descriptors",
    "descriptor_bytes", "engines", "cadence", "making",
)  # fmt: skip


def _ops(program: Program) -> dict[str, Any]:
    return _columns(_OPS, [_op(program, *pair) for pair in zip(program.variants, costs_of(program), strict=True)])


def _op(program: Program, variant: Variant, cost: VariantCost) -> tuple[Any, ...]:
    """Return the values of `_OPS` for a variant."""
    instruction, names = variant.instruction, variant.names
    held, streamed = (_place(names, instruction.history.get(part)) for part in ("stationary", "moving"))
    return (
        instruction.name,
        _detail(variant),
        instruction.work_unit,
        " ".join(names),
        ARRANGEMENTS.index(_arrangement(variant)),
        held if variant.engine == "tensor" else -1,
        streamed,
        DESCRIPTOR_MODES.index(cost.mode),
        cost.descriptors,
        cost.descriptor_bytes,
        cost.engines,
        cadence(program.arch, cost),
        cost.generation,
    )


def _place(names: tuple[str, ...], name: str | None) -> int:
    return names.index(name) if name in names else -1


def _arrangement(variant: Variant) -> str:
    """Return where elements of the result come from, as far as the declaration tells."""
    instruction = variant.instruction
    if instruction.role == "copy":
        return "in order"
    if "transposes" in instruction.history:
        return "transposed"
    if "moving" in instruction.history:
        return "product"
    return "in place" if instruction.elementwise else "undeclared"


def _detail(variant: Variant) -> str:
    """Attributes that differ from their defaults, then the operands' shapes."""
    attributes = [f"{name}={show_value(value)}" for name, value in attributes_of(variant).items() if value is not None]
    types = {name: variant.use.types[name] for name in variant.names}
    return ", ".join([*attributes, *(f"{name}: {tuple(it.shape)} {it.dtype.name}" for name, it in types.items())])


def _sources(program: Program) -> dict[str, dict[str, Any]]:
    files = {file: number for number, file in enumerate(dict.fromkeys(site.file for site in program.sites))}
    sites = [(files[s.file], s.line, s.column, s.end_line, s.end_column, s.function) for s in program.sites]
    return {
        "sites": _columns(("source", "line", "column", "end_line", "end_column", "function"), sites),
        "sources": {
            "path": [on_one_line(name) for name in shown_names(files).values()],
            "text": ["".join(lines_of(file)) for file in files],
        },
    }
