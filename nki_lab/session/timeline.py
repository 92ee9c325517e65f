"""Memory and time of a program: addresses, queues, the walk through them, and the recording that views read."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.spec import show_value
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.ir import Program, Variant, access_columns, attributes_of
from nki_lab.kernel_runtime.options import changed
from nki_lab.kernel_runtime.path import Path, executed
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.derive import fill
from nki_lab.kernel_runtime.recording.schema import FULL_EFFICIENCY
from nki_lab.kernel_runtime.schedule import Schedule, schedule
from nki_lab.kernel_runtime.tensor import Buffer, psum, sbuf
from nki_lab.kernel_runtime.timing import CONFIDENCES, Timing, walk
from nki_lab.kernel_runtime.vocabulary import (
    BUFFER_KINDS,
    INDIRECTIONS,
    LANE_KINDS,
    SPACES,
    STALL_REASONS,
)
from nki_lab.rules import TimedFacts, check_timed
from nki_lab.session.summary import Summary, counted, summarise
from nki_lab.source_files import lines_of

_PICOSECONDS: Final = 1000  # in a nanosecond


@dataclass(frozen=True)
class Timeline:
    """What a program does to memory and time; `seconds` is what working that out took here.

    `program` is what is executed: of a program with device loops, `source`, a row for each instruction of each pass.
    """

    program: Program
    allocation: Allocation
    schedule: Schedule
    timing: Timing
    seconds: float
    source: Program

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Findings about capacity, addresses and the user's schedule."""
        return (*self.allocation.diagnostics, *self.schedule.diagnostics)

    @cached_property
    def advice(self) -> tuple[Diagnostic, ...]:
        """What would make it faster, and by how much."""
        facts = TimedFacts(program=self.program, allocation=self.allocation, schedule=self.schedule, timing=self.timing)
        return tuple(check_timed(facts))

    @cached_property
    def summary(self) -> Summary:
        """The counts of the program with its times, shares and peaks; times in nanoseconds."""
        return _summary(self)

    def record(self, diagnostics: Iterable[Diagnostic] = (), fault: int = -1) -> Recording:
        """The run as tables. `diagnostics` are findings that go with it: those of the session, beyond the own ones.

        `fault` is the instruction at which the run failed, -1: it did not.
        """
        return _recording(self, diagnostics, fault)


_KEPT: Final = 16
_recent: OrderedDict[tuple[int, Any], Timeline] = OrderedDict()


def timeline(program: Program, path: Path | None = None) -> Timeline:
    """Allocate, schedule and time a complete program; the timelines of the last programs are kept.

    One that names registers takes the way `path` through its device loops.
    """
    key = (id(program), None if path is None else path.key())
    known = _recent.get(key)
    if known is not None and known.source is program:
        return known
    start = time.perf_counter()
    allocation = allocate(program)
    rows = program if path is None else executed(program, path)
    queues = schedule(rows, allocation)
    timing = walk(rows, queues, program.options, allocation)
    seconds = time.perf_counter() - start
    made = _recent[key] = Timeline(rows, allocation, queues, timing, seconds, program)
    while len(_recent) > _KEPT:
        _recent.popitem(last=False)
    return made


def _summary(line: Timeline) -> Summary:
    program, timing, arch = line.program, line.timing, line.program.arch
    counts = summarise(program)
    nanoseconds = timing.makespan / _PICOSECONDS
    flops = counts.get("flops", 0)
    transposes = sum(count * variant.instruction.transpose_flops(variant.use) for variant, count in counted(program))
    # Operations that the Tensor Engines could have done.
    peak = arch.tensor_tflops_bf16 * 1e3 * nanoseconds * program.cores
    moved = counts["hbm_read_bytes"] + counts["hbm_write_bytes"]
    traffic = arch.mbu_bytes_per_ns * nanoseconds
    on_sbuf, on_psum = _occupied(line)
    return Summary(
        counts,
        makespan_ns=nanoseconds,
        engine_busy_ns=_busy(line),
        critical_path_ns=int(timing.path.work.sum()) / _PICOSECONDS,
        critical_wait_ns={
            STALL_REASONS[reason]: wait / _PICOSECONDS for reason, wait in sorted(timing.path.waits.items())
        },
        stall_ns={name: total / _PICOSECONDS for name, total in sorted(timing.stalls.items())},
        launch_ns=arch.launch_ns if program.options.launch_overhead else 0.0,
        sbuf_peak_bytes_per_partition=int(line.allocation.sbuf_peak),
        psum_peak_bytes_per_partition=int(line.allocation.psum_peak),
        sbuf_occupied_bytes_per_partition=on_sbuf,
        psum_occupied_bytes_per_partition=on_psum,
        mfu=flops / peak if peak else 0.0,
        hfu=(flops + transposes) / peak if peak else 0.0,
        mbu=moved / traffic if traffic else 0.0,
        confidence=dict(timing.trust),
    )


def _busy(line: Timeline) -> dict[str, float]:
    """Nanoseconds that each engine works; DMA as the time in which any queue does. Summed over cores."""
    busy: dict[str, float] = {}
    for lane in line.timing.lanes:
        if lane.kind == "engine":
            busy[lane.name] = busy.get(lane.name, 0.0) + lane.busy / _PICOSECONDS
    for core in range(line.program.cores):
        dma = [number for number, lane in enumerate(line.schedule.lanes) if lane.kind == "dma" and lane.core == core]
        rows = np.flatnonzero(np.isin(line.schedule.lane, dma))
        if len(rows):
            rows = rows[np.argsort(line.timing.start[rows], kind="stable")]
            ends = np.maximum.accumulate(line.timing.start[rows] + line.timing.duration[rows])
            covered = np.concatenate(([line.timing.start[rows[0]]], ends[:-1]))
            fresh = ends - np.maximum(covered, line.timing.start[rows])
            busy["dma"] = busy.get("dma", 0.0) + float(np.maximum(fresh, 0).sum()) / _PICOSECONDS
    return busy


def _occupied(line: Timeline) -> tuple[int, int]:
    """The most bytes of a partition of SBUF and of PSUM that are in use at one time: the largest in `usage`.

    A tensor is in use from the begin of its first access to the end of its last. That is another figure than the peak,
    which counts what is live from instruction to instruction in program order: loads run ahead into free memory, so
    that more is in use at a time; and it is less where one tensor's last reader has ended before another one, which is
    live beside it in program order, has begun.
    """
    program, timing, allocation = line.program, line.timing, line.allocation
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


def _recording(line: Timeline, diagnostics: Iterable[Diagnostic], fault: int) -> Recording:
    program, timing, queues = line.program, line.timing, line.schedule
    count = len(program)
    edges = np.repeat(np.arange(count), np.diff(queues.start))
    duration = np.maximum(timing.duration, 1)
    rows = {
        "start": timing.start, "duration": timing.duration, "ready": timing.ready, "setup": timing.setup,
        "op": np.frombuffer(program.op_variant, np.uint32), "site": np.frombuffer(program.op_site, np.uint32),
        "iteration": np.frombuffer(program.op_iteration, np.int32),
        "access": np.frombuffer(program.op_access, np.uint32), "after": timing.critical_pred,
        "work": timing.work,
        "bytes": timing.bytes, "lane": queues.lane,
        "pace": (timing.busy * FULL_EFFICIENCY // duration).clip(0, FULL_EFFICIENCY),
        "stall": timing.stall, "setup_stall": timing.setup_reason, "held": timing.throttle_reason,
        "confidence": timing.confidence,
    }  # fmt: skip
    patterns = _Patterns()
    views = [(view.buffer.id, patterns.of(view.type.dtype.name, view.type.shape, view.type.strides), view.offset,
              INDIRECTIONS.index(view.type.indirect or "none")) for view in program.views]  # fmt: skip
    tables: dict[str, dict[str, Any]] = {
        "rows": rows,
        "accesses": {"view": np.frombuffer(program.access_view, np.uint32), "role": _roles(program)},
        "edges": {"row": edges, "before": queues.pred, "kind": queues.kind},
        "views": _columns(("buffer", "pattern", "offset", "indirect"), views),
        "buffers": _buffers(line, patterns),
        "lanes": {
            "name": [lane.name for lane in queues.lanes],
            "kind": [LANE_KINDS.index(lane.kind) for lane in queues.lanes],
            "core": [lane.core for lane in queues.lanes],
        },
        "stalls": {"name": list(STALL_REASONS)},
        "ops": {
            "name": [variant.instruction.name for variant in program.variants],
            "detail": [_detail(variant) for variant in program.variants],
            "work_unit": [variant.instruction.work_unit for variant in program.variants],
        },
        "iterations": _columns(("parent", "loop", "value", "site"), program.iterations),
        "critical": {"row": _path_rows(timing)},
        **_sources(program),
    }  # fmt: skip
    tables["patterns"], tables["dims"] = patterns.tables()
    # What this computer took is no part of a recording: equal runs are equal recordings.
    told: dict[str, Any] = {
        "kernel": program.name, "options": changed(program.options),
        "diagnostics": [item.as_dict() for item in diagnostics],
    }  # fmt: skip
    if fault >= 0:
        told["fault"] = fault
    return Recording(tables, {**line.summary, **told}, timing.makespan)


def _path_rows(timing: Timing) -> np.ndarray[Any, Any]:
    """The ops of the critical path, each once."""
    row = timing.path.row[timing.path.row >= 0]
    return row[np.append(True, row[1:] != row[:-1])] if len(row) else row


def _columns(names: tuple[str, ...], records: list[Any]) -> dict[str, Any]:
    columns = zip(*records, strict=True) if records else ([] for _ in names)
    return dict(zip(names, (list(column) for column in columns), strict=True))


def _roles(program: Program) -> np.ndarray[Any, Any]:
    accesses = access_columns(program, indices=False)
    accumulating = program.variants_where(lambda item: item.instruction.accumulates(item.use))
    variants = np.frombuffer(program.op_variant, np.uint32)
    role = accesses.is_out.astype(np.uint8)
    if len(role):
        role[accesses.is_out & accumulating[variants[accesses.op]]] = 2
    return role


class _Patterns:
    """Shapes with steps and a dtype, numbered, and their dimensions one after the other."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._records: list[tuple[str, int, int]] = []
        self._dims: list[tuple[int, int]] = []

    def of(self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
        key = (dtype, shape, strides)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._records)
            self._records.append((dtype, len(self._dims), len(shape)))
            self._dims += zip(shape, strides, strict=True)
        return number

    def tables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return _columns(("dtype", "dim", "rank"), self._records), _columns(("size", "step"), self._dims)


def _buffers(line: Timeline, patterns: _Patterns) -> dict[str, Any]:
    allocation = line.allocation
    records = [
        (
            buffer.name, SPACES.index(buffer.space.value), BUFFER_KINDS.index(buffer.kind),
            patterns.of(buffer.dtype.name, buffer.shape, _dense(buffer)), int(allocation.partition[buffer.id]),
            buffer.partitions, int(allocation.byte[buffer.id]), buffer.partition_bytes, buffer.site, buffer.core,
        )
        for buffer in line.program.buffers
    ]  # fmt: skip
    names = ("name", "space", "kind", "pattern", "partition", "partitions", "byte", "partition_bytes", "site", "core")
    return _columns(names, records)


def _dense(buffer: Buffer) -> tuple[int, ...]:
    step, strides = 1, []
    for size in reversed(buffer.shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _detail(variant: Variant) -> str:
    """Attributes that differ from their defaults, then the operands' shapes."""
    parts = [f"{name}={show_value(value)}" for name, value in attributes_of(variant).items() if value is not None]
    parts += [f"{name}: {tuple(variant.use.types[name].shape)} {variant.use.types[name].dtype.name}"
              for name in variant.names]  # fmt: skip
    return ", ".join(parts)


def _sources(program: Program) -> dict[str, dict[str, Any]]:
    files = {file: number for number, file in enumerate(dict.fromkeys(site.file for site in program.sites))}
    sites = [(files[s.file], s.line, s.column, s.end_line, s.end_column, s.function) for s in program.sites]
    texts = ["".join(lines_of(file)) for file in files]
    return {
        "sites": _columns(("source", "line", "column", "end_line", "end_column", "function"), sites),
        "sources": {"path": list(files), "text": texts},
    }


__all__ = ["CONFIDENCES", "Timeline", "timeline"]
