"""Counts, memory and time of a program: addresses, queues, their simulation, and the recording that views read."""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.spec import HBM, Instruction, Unmodelled, show_value
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.backend import MEMORY_NOTES, Compiled, compiled
from nki_lab.kernel_runtime.ir import Program, Variant, View, access_columns, attributes_of
from nki_lab.kernel_runtime.options import changed, compiler_steps
from nki_lab.kernel_runtime.path import Path, executed
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.kernel_runtime.recording.derive import fill
from nki_lab.kernel_runtime.recording.figures import hbm_bytes_per_ns, peak_flops_per_ns
from nki_lab.kernel_runtime.recording.schema import FULL_EFFICIENCY
from nki_lab.kernel_runtime.schedule import Schedule, schedule
from nki_lab.kernel_runtime.tensor import NkiTensor, psum, sbuf
from nki_lab.kernel_runtime.tensor.buffer import row_major
from nki_lab.kernel_runtime.timing import Timing, VariantCost, cadence, costs_of, makespans_without, walk
from nki_lab.kernel_runtime.vocabulary import (
    ARRANGEMENTS,
    BUFFER_KINDS,
    DESCRIPTOR_MODES,
    INDIRECTIONS,
    LANE_KINDS,
    SPACES,
    STALL_REASONS,
)
from nki_lab.rules import TimedFacts, check_timed
from nki_lab.rules.timed_facts import WORTHWHILE
from nki_lab.session.interval import Case, case_of, figures_of, interval
from nki_lab.session.recorded_rows import RecordedRows, recorded_rows, roles_of, tables_of_program
from nki_lab.source_files import lines_of, shown_names


class Summary(dict[str, Any]):
    """A dict whose names are attributes as well.

    `later` are values that are worked out when they are first asked for by name; until then they are no items.
    """

    __slots__ = ("later",)

    def __init__(
        self, *values: Any, later: Mapping[str, Callable[[], object]] = MappingProxyType({}), **named: Any
    ) -> None:
        super().__init__(*values, **named)
        self.later = later

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the summary has no {name}; it has {', '.join([*self, *self.later])}") from None

    def __missing__(self, name: str) -> Any:
        if name not in self.later:
            raise KeyError(name)
        return self.later[name]()


def summarise(program: Program) -> Summary:
    """Return the counts of a program, without a model of time.

    `instructions` of all `cores`; `flops` of matrix products, transposes not counted; `dma_bytes` moved by DMA;
    `hbm_read_bytes` and `hbm_write_bytes` of all accesses to HBM; `target`. A name of which some part is not modelled
    is left out. Of a program with device loops, whose trip counts are unknown here, only the recorded
    `instructions` are counted.
    """
    if program.regions:
        return Summary(target=program.arch.target, instructions=len(program), cores=program.cores)
    totals = {"flops": 0, "dma_bytes": 0, "hbm_read_bytes": 0, "hbm_write_bytes": 0}
    unknown: set[str] = set()
    for variant, count in counted(program):
        totals["flops"] += count * variant.instruction.flops(variant.use)
        cost = variant.instruction.cost
        if isinstance(cost, Unmodelled):
            unknown |= {"dma_bytes"} if variant.engine == "dma" else set()
        elif variant.engine == "dma":
            totals["dma_bytes"] += count * int(cost(variant.use).bytes)
        for name, is_out in zip(variant.names, variant.outs, strict=True):
            view = variant.use.types[name]
            if variant.use.space(name) == HBM and not variant.instruction.only_orders:  # which touches no element
                key = "hbm_write_bytes" if is_out else "hbm_read_bytes"
                totals[key] += count * view.partitions * view.free_size * view.dtype.nbytes
    known = {name: value for name, value in totals.items() if name not in unknown}
    counts = {"target": program.arch.target, "instructions": len(program), "cores": program.cores}
    return Summary({**counts, **known})


def counted(program: Program) -> list[tuple[Variant, int]]:
    """Return each variant of a program with the number of its instructions."""
    counts: list[int] = np.bincount(program.variant_column(), minlength=len(program.variants)).tolist()
    return list(zip(program.variants, counts, strict=True))


SPILL: Final = "NKI318"
_PICOSECONDS: Final = 1000  # in a nanosecond


@dataclass(frozen=True)
class Timeline:
    """The effect of a program on memory and time.

    `program` has a row for each instruction that values are computed for: `source`, or its way through device loops.
    The chip executes the rows of `chip`, which are others where the compiler model changed them (`compiled`);
    `schedule`, `timing` and `chip_allocation` are about these, `allocation` is about `program`.
    """

    program: Program
    allocation: Allocation
    schedule: Schedule
    timing: Timing
    source: Program
    compiled: Compiled | None = None
    compiled_allocation: Allocation | None = None

    @property
    def chip(self) -> Program:
        """The rows that the chip executes."""
        return self.program if self.compiled is None else self.compiled.program

    @property
    def chip_allocation(self) -> Allocation:
        """The addresses of their tensors."""
        return self.allocation if self.compiled_allocation is None else self.compiled_allocation

    @cached_property
    def recorded(self) -> RecordedRows | None:
        """How the rows of the recording come from those of the chip; None where they are the same."""
        return None if self.compiled is None else recorded_rows(self.program, self.compiled)

    @cached_property
    def start(self) -> Array:
        """When each recorded row begins, in picoseconds."""
        timing, found = self.timing, self.recorded
        if found is None:
            return timing.start
        return np.where(found.executes, timing.start[found.of], (timing.start + timing.duration)[found.of])

    @cached_property
    def ready(self) -> Array:
        """When the result of each recorded row is visible, in picoseconds."""
        return self.timing.ready if self.recorded is None else self.timing.ready[self.recorded.of]

    @cached_property
    def makespan_without_model(self) -> int:
        """The time of the program as it stands, in picoseconds."""
        if self.compiled is None:
            return self.timing.makespan
        queues = schedule(self.program, self.allocation)
        return walk(self.program, queues, self.program.options, self.allocation).makespan

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Findings about capacity, addresses and the user's schedule."""
        notes = {} if self.compiled is None else self.compiled.notes
        said = "; ".join(f"{count:,} {what}" for what, count in notes.items() if what in MEMORY_NOTES)
        found = self.allocation.diagnostics
        if said:
            found = tuple(
                replace(item, note=f"{item.note}; {said}" if item.note else said) if item.code == SPILL else item
                for item in found
            )
        return (*found, *self.schedule.diagnostics)

    @cached_property
    def advice(self) -> tuple[Diagnostic, ...]:
        """Findings that say how the program could be faster, and by how much; none where memory has no room for it."""
        if any(item.severity == "error" for item in self.allocation.diagnostics):
            return ()
        return tuple(
            check_timed(
                TimedFacts(
                    program=self.chip,
                    allocation=self.chip_allocation,
                    schedule=self.schedule,
                    timing=self.timing,
                    written=self._with_repeats if self._leaves_repeats_out else None,
                    unspilled=self._with_room if self._is_spilled else None,
                    inserted=None if self.compiled is None else self.compiled.source < 0,
                    quotients=self._quotients,
                )
            )
        )

    @property
    def _leaves_repeats_out(self) -> bool:
        """Whether the compiler model leaves out a worthwhile part of the rows."""
        return self.compiled is not None and len(self.chip) < (1 - WORTHWHILE) * len(self.program)

    @property
    def _is_spilled(self) -> bool:
        """Whether the compiler model loads tiles again, or saves them, for want of memory."""
        return self.compiled is not None and any(name in self.compiled.notes for name in MEMORY_NOTES)

    def _without_step(self, step: str) -> Program:
        """Return the program after all steps of the compiler model but one."""
        steps = [name for name in compiler_steps(self.program.options) if name != step]
        made = compiled(self.program, steps)
        return self.program if made is None else made.program

    def _with_room(self) -> tuple[Program, Allocation]:
        program = self._without_step("spills")
        return program, allocate(program)

    def _with_repeats(self) -> TimedFacts:
        """Time the program without what the compiler model does about repeats."""
        program = self._without_step("repeats")
        addresses = allocate(program)
        queues = schedule(program, addresses)
        timing = walk(program, queues, program.options, addresses)
        return TimedFacts(
            program=program, allocation=addresses, schedule=queues, timing=timing, quotients=self._quotients
        )

    @property
    def _quotients(self) -> tuple[float, float]:
        """The bounds of the measured time over the predicted one."""
        found = interval(self.case)
        return found.low, found.high

    @cached_property
    def busy(self) -> dict[str, float]:
        """Nanoseconds in which each engine executes, summed over cores."""
        return _busy(self)

    @cached_property
    def case(self) -> Case:
        """The class of the run and what is unknown about it: the interval of the time depends on them."""
        return case_of(
            self.program,
            self.chip,
            (*self.allocation.diagnostics, *self.chip_allocation.diagnostics),
            {} if self.compiled is None else self.compiled.notes,
            busy=self.busy,
            read_bytes=summarise(self.chip).get("hbm_read_bytes", 0),
        )

    @cached_property
    def summary(self) -> Summary:
        """The counts of the program with its times, shares and peaks; times in nanoseconds."""
        program, timing, arch = self.chip, self.timing, self.program.arch
        counts = summarise(program)
        nanoseconds, busy = timing.makespan / _PICOSECONDS, self.busy
        products, transposes = _at_peak(program)
        available = nanoseconds * program.cores
        traffic = hbm_bytes_per_ns(arch, program.cores) * nanoseconds
        in_sbuf, in_psum = _peak_use(self)
        return Summary(
            counts,
            makespan_ns=nanoseconds,
            **figures_of(self.case, nanoseconds),
            engine_busy_ns=busy,
            critical_path_ns=int(timing.path.work.sum()) / _PICOSECONDS,
            critical_wait_ns={
                STALL_REASONS[reason]: wait / _PICOSECONDS for reason, wait in sorted(timing.path.waits.items())
            },
            stall_ns={name: total / _PICOSECONDS for name, total in sorted(timing.stalls.items())},
            slowed_ns={name: total / _PICOSECONDS for name, total in sorted(timing.slowed.items())},
            launch_ns=arch.before_ns(program.cores) if program.options.launch_overhead else 0.0,
            sbuf_peak_bytes_per_partition=int(self.chip_allocation.sbuf_peak),
            psum_peak_bytes_per_partition=int(self.chip_allocation.psum_peak),
            sbuf_occupied_bytes_per_partition=in_sbuf,
            psum_occupied_bytes_per_partition=in_psum,
            mfu=products / available if available else 0.0,
            hfu=(products + transposes) / available if available else 0.0,
            mbu=(counts["hbm_read_bytes"] + counts["hbm_write_bytes"]) / traffic if traffic else 0.0,
            confidence=dict(timing.trust),
            **_model_account(self),
            later={"bottlenecks": lambda: self.bottlenecks},
        )

    @cached_property
    def bottlenecks(self) -> dict[str, float]:
        """The nanoseconds of the program without one part of the machine each, the part that costs most first.

        `makespans_without` says what the names mean. Each is a simulation, so that they take some times as long as the
        profile itself.
        """
        found = makespans_without(self.chip, self.schedule, self.chip_allocation)
        return {name: time / _PICOSECONDS for name, time in sorted(found.items(), key=lambda item: item[1])}

    def record(
        self, diagnostics: Iterable[Diagnostic] = (), fault: int = -1, *, fault_after: bool = False
    ) -> Recording:
        """Return the run as tables, with the `diagnostics` of the session.

        `fault` is the instruction at which the run failed, -1: it did not; with `fault_after` the last one before it.
        """
        # The time that this computer took is no part of a recording: equal runs are equal recordings.
        names = shown_names(dict.fromkeys(site.file for site in self.program.sites))
        session: dict[str, object] = {
            "kernel": self.program.name,
            "options": changed(self.program.options),
            "diagnostics": [_renamed(item.as_dict(), names) for item in diagnostics],
        }
        failed = {} if fault < 0 else {"fault": fault, **({"fault_after": True} if fault_after else {})}
        summary = {**self.summary, **session, **failed}
        return Recording(_tables(self), summary, self.timing.makespan)


def _renamed(item: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A diagnostic as data with its files, and those of what it refers to, by the names to show for them."""
    related = [{**one, "file": names.get(one["file"], one["file"])} for one in item["related"]]
    return {**item, "file": names.get(item["file"], item["file"]), "related": related}


_KEPT: Final = 16
_recent: OrderedDict[tuple[int, object], Timeline] = OrderedDict()


def timeline(program: Program, path: Path | None = None) -> Timeline:
    """Allocate, schedule and time a complete program; the timelines of the last programs are kept.

    A program that names registers takes the way `path` through its device loops.
    """
    key = (id(program), None if path is None else path.key())
    known = _recent.get(key)
    if known is None or known.source is not program:
        allocation = allocate(program)
        rows = program if path is None else executed(program, path)
        made = compiled(rows, compiler_steps(program.options))
        chip, addresses = (rows, allocation) if made is None else (made.program, allocate(made.program))
        queues = schedule(chip, addresses)
        timing = walk(chip, queues, program.options, addresses)
        known = _recent[key] = Timeline(
            rows, allocation, queues, timing, program, made, None if made is None else addresses
        )
        while len(_recent) > _KEPT:
            _recent.popitem(last=False)
    return known


def _at_peak(program: Program) -> tuple[float, float]:
    """Nanoseconds of one Tensor Engine for the products and for the transposes of a program, at their peak rates."""
    products = transposes = 0.0
    for variant, count in counted(program):
        use, instruction = variant.use, variant.instruction
        flops, moved = instruction.flops(use), instruction.transpose_flops(use)
        if flops or moved:
            stationary, moving = (use.types[name].dtype for name in _multiplied(instruction))
            peak = peak_flops_per_ns(program.arch, moving, stationary)
            products += count * flops / peak
            transposes += count * moved / peak
    return products, transposes


def _multiplied(instruction: Instruction) -> tuple[str, str]:
    """The stationary and the moving operand of an instruction that multiplies; a transpose has the one."""
    stationary = str(instruction.history["stationary"])
    return stationary, str(instruction.history.get("moving", stationary))


def _busy(line: Timeline) -> dict[str, float]:
    """Nanoseconds in which each engine executes; DMA as the time in which any queue does. Summed over cores."""
    busy: Counter[str] = Counter()
    timing, queues = line.timing, line.schedule
    for lane in timing.lanes:
        if lane.kind == "engine":
            busy[lane.name] += lane.busy
    for core in range(line.chip.cores):
        dma = [number for number, lane in enumerate(queues.lanes) if lane.kind == "dma" and lane.core == core]
        rows = np.flatnonzero(np.isin(queues.lane, dma))
        if len(rows):
            rows = rows[np.argsort(timing.start[rows], kind="stable")]
            start = timing.start[rows]
            ends = np.maximum.accumulate(start + timing.duration[rows])
            busy["dma"] += int(np.maximum(ends - np.maximum(np.concatenate((start[:1], ends[:-1])), start), 0).sum())
    return {name: picoseconds / _PICOSECONDS for name, picoseconds in busy.items()}


def _peak_use(line: Timeline) -> tuple[int, int]:
    """The most bytes of a partition of SBUF and of PSUM that are in use at one time: the largest in `usage`.

    A tensor is in use from the begin of its first access to the end of its last. That is another figure than the peak,
    which counts what is live from instruction to instruction in program order: loads run ahead into free memory, so
    that more is in use at a time; and it is less where one tensor's last reader has ended before another one, which is
    live beside it in program order, has begun.
    """
    program, timing, allocation = line.chip, line.timing, line.chip_allocation
    accesses = access_columns(program, indices=False)
    begin, end = np.full(len(program.buffers), np.iinfo(np.int64).max), np.full(len(program.buffers), -1, np.int64)
    done = np.where(accesses.is_out, timing.ready[accesses.op], (timing.start + timing.duration)[accesses.op])
    np.minimum.at(begin, accesses.buffer, timing.start[accesses.op])
    np.maximum.at(end, accesses.buffer, done)
    most = []
    for space in (sbuf, psum):
        used = [buffer for buffer in program.buffers if buffer.space is space and end[buffer.id] >= 0]
        rows = [(buffer.id, buffer.core, buffer.partitions, buffer.partition_bytes) for buffer in used]
        number, core, count, size = np.array(rows, np.int64).reshape(-1, 4).T
        _, level = fill(begin[number], end[number], core, allocation.partition[number], count, size)
        most.append(int(level.max(initial=0)))
    return most[0], most[1]


def _tables(line: Timeline) -> dict[str, dict[str, Any]]:
    """Return the tables of a recording."""
    program, timing, queues = line.chip, line.timing, line.schedule
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
        "buffers": _buffers(line, patterns),
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
    return (
        tables
        if line.recorded is None
        else tables_of_program(line.recorded, line.program, line.chip, queues, timing, tables)
    )


def _model_account(line: Timeline) -> dict[str, Any]:
    """Return what the compiler model did, and the time without it; nothing where it did nothing."""
    if line.compiled is None:
        return {}
    return {
        "compiler_model": dict(line.compiled.notes),
        "makespan_without_compiler_model_ns": line.makespan_without_model / _PICOSECONDS,
    }


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


def _buffers(line: Timeline, patterns: _Patterns) -> dict[str, Any]:
    allocation = line.chip_allocation
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
        for buffer in line.chip.buffers
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
        "sources": {"path": list(shown_names(files).values()), "text": ["".join(lines_of(file)) for file in files]},
    }
