"""The parts of a message about the whole run, whichever rows it carries: header, tables, lifetimes, sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

import numpy as np

from nki_lab.isa.arch import TARGETS
from nki_lab.kernel_runtime.recording import Recording, bottlenecks
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.recording.digest import Digest, digest
from nki_lab.kernel_runtime.recording.figures import hbm_bytes_per_ns
from nki_lab.kernel_runtime.recording.loops import loops
from nki_lab.kernel_runtime.timing import curve
from nki_lab.wire.header_types import Capacity, Finding, Header, LineTime, LoopFigures, Machine, Part
from nki_lab.wire.labels import Names
from nki_lab.wire.message import Delta
from nki_lab.wire.rows import Steps, Tables

TABLES: Final = {
    "views": ("buffer", "pattern", "offset", "indirect", "index"),
    "patterns": ("dtype", "dim", "rank"),
    "dims": ("size", "step"),
    "buffers": (
        "name",
        "space",
        "kind",
        "pattern",
        "partition",
        "partitions",
        "byte",
        "partition_bytes",
        "site",
        "core",
    ),
    "sites": ("source", "line", "column", "end_line", "end_column", "function"),
    "iterations": ("parent", "loop", "value", "site"),
    "ops": (
        "name", "detail", "work_unit", "operands", "arrangement", "stationary", "moving", "mode", "descriptors",
        "descriptor_bytes", "engines", "cadence", "making",
    ),
}  # fmt: skip
"""Tables that go out as they are, with these columns; `buffers.name` numbers labels, as `labels.Names` has them."""

USAGE: Final = ("time", "core", "sbuf", "psum")
"""The columns of the table `usage` in a message: those recorded, for each core."""

ITERATIONS: Final = ("in_loop", "execution", "begin", "length", "rows", "interval", "state")
"""Columns of the table `iterations` in a message beside those recorded: `recording.loops.Iterations`."""

EXCHANGES: Final = ("call", "rank", "what", "source", "sent", "sends", "row", "bytes")
"""The columns of the table `exchanges` in a message: those recorded, with steps in place of rows."""

LIFETIMES: Final = ("buffer", "start", "end", "first", "last", "written", "writer")
"""The columns of the table `lifetimes` in a message: those recorded, and `in_steps` in place of rows."""


def header(recording: Recording, names: Names, fault: int, step_of: Array) -> Header:
    """Return the texts and single numbers of a run. `fault` is the step at which it failed, -1: it did not; `step_of`
    has the step of each row."""
    summary = {name: value for name, value in recording.summary.items() if name != "diagnostics"}
    recorded = recording.summary.get("diagnostics")
    sources = recording.table("sources")
    times = digest(recording)
    head: Header = {
        "kernel": str(summary.get("kernel") or ""),
        "target": str(summary.get("target") or ""),
        "makespan": recording.makespan,
        "steps": len(recording),
        "instructions": recording.instructions,
        "fault": fault,
        "capacity": capacity(
            str(summary.get("target") or ""), len({lane.core for lane in recording.lanes}), recording.ranks
        ),
        "lanes": [
            {"name": lane.name, "kind": lane.kind, "core": lane.core, "rank": lane.rank} for lane in recording.lanes
        ],
        "stalls": list(recording.stalls),
        "names": names.all,
        "sources": [
            {"path": path, "text": text}
            for path, text in zip(sources.texts("path"), sources.texts("text"), strict=True)
        ],
        "summary": summary,
        "findings": list(cast("Iterable[Finding]", recorded if isinstance(recorded, Iterable) else ())),
        "path": {"work": times.work, "waits": times.waits},
        "bottlenecks": [
            {"parts": [_part(part, sources.texts("path"), step_of) for part in sentence]}
            for sentence in bottlenecks.bottlenecks(recording)
        ],
        "lane_times": [
            {
                "busy": lane.busy,
                "critical": lane.critical,
                "slowed": lane.slowed,
                "waits": lane.waits,
                "empty": lane.empty,
                "rows": lane.rows,
            }
            for lane in times.lanes
        ],
        "dma_busy": {str(core): time for core, time in sorted(times.dma.items())},
        "dma_waiting": {str(core): time for core, time in sorted(times.dma_waiting.items())},
        "lines": _lines(recording, times),
        "core_names": {str(core): name for core, name in recording.core_names.items() if name},
        "loops": _loops(recording, sources.texts("path")),
    }
    if fault >= 0 and summary.get("fault_after") is True:
        head["fault_after"] = True
    known = machine(head["target"])
    return {**head, "machine": known} if known else head


def _loops(recording: Recording, paths: Sequence[str]) -> list[LoopFigures]:
    numbers = {path: number for number, path in enumerate(paths)}
    return [
        {
            "variable": loop.variable,
            "kind": loop.kind,
            "parent": loop.parent,
            "depth": loop.depth,
            "core": loop.core,
            "source": numbers.get(loop.file, -1),
            "line": loop.line,
            "executions": loop.executions,
            "iterations": loop.iterations,
            "begin": loop.begin,
            "end": loop.end,
            "warm_up": loop.warm_up,
            "outliers": loop.outliers,
            "steady": loop.steady,
            "interval": loop.interval,
            "mean": loop.mean,
            "spread": loop.spread,
            "representative": loop.representative,
        }
        for loop in loops(recording).loops
    ]


def _part(part: bottlenecks.Part, paths: Sequence[str], step_of: Array) -> Part:
    out: Part = {"text": part.text} if part.share is None else {"share": part.share}
    if part.kind:
        out["hue"] = part.kind
    if part.row >= 0:
        out["waiting"] = int(step_of[part.row])
    if part.line and part.file in paths:  # the finding of a recording may name any file
        out |= {"source": paths.index(part.file), "line": part.line}
    return out


def capacity(target: str, cores: int, ranks: int = 1) -> Capacity:
    """Bytes of a partition, partitions, and the rate of HBM; zeros where nothing is known of the target."""
    arch = TARGETS.get(target)
    if arch is None:
        return {"sbuf": 0, "psum": 0, "psumBank": 0, "partitions": 0, "hbm": 0}
    return {
        "sbuf": arch.sbuf_partition_bytes,
        "psum": arch.psum_partition_bytes,
        "psumBank": arch.psum_bank_bytes,
        "partitions": arch.pmax,
        "hbm": round(hbm_bytes_per_ns(arch, cores, ranks) * 1e9),
    }


def machine(target: str) -> Machine | None:
    """Return the facts of a target; None where nothing is known of it."""
    arch = TARGETS.get(target)
    if arch is None:
        return None
    sizes, shares = zip(*curve(arch), strict=True)
    return {
        "arrayRows": arch.pmax,
        "arrayColumns": arch.gemm_stationary_fmax,
        "dmaEngines": arch.dma_engines,
        "dmaEngineRate": arch.dma_bytes_per_ns,
        "dmaEfficiency": {"bytes": list(sizes), "shares": list(shares)},
    }


def _lines(recording: Recording, times: Digest) -> list[LineTime]:
    """Every line that has rows, the one that costs most of the critical path first, and the lane where it does."""
    lanes, site = len(recording.lanes), whole(recording.rows["site"])
    sites = recording.table("sites")
    places = list(zip(whole(sites["source"]).tolist(), whole(sites["line"]).tolist(), strict=True))
    group = np.zeros(len(places) + 1, np.int64)  # the last is that of rows without a site
    numbers: dict[tuple[int, int], int] = {}
    for number, place in enumerate(places):
        group[number] = numbers.setdefault(place, len(numbers))
    group[-1] = len(numbers)
    size = (len(numbers) + 1) * lanes
    lane = whole(recording.rows["lane"])
    busy = np.bincount(group[site] * lanes + lane, weights=whole(recording.rows["duration"]), minlength=size)
    on_path = np.bincount(
        group[site[times.path.row]] * lanes + times.path.lane, weights=times.path.time, minlength=size
    )
    busy, on_path = (spent.reshape(len(numbers) + 1, lanes) for spent in (busy, on_path))
    paths = recording.texts("sources", "path")
    out: list[LineTime] = []
    for line in times.lines:
        source = paths.index(line.file)
        number = numbers.get((source, line.line), len(numbers))
        most = on_path[number] if on_path[number].any() else busy[number]
        out.append(
            {
                "source": source,
                "line": line.line,
                "critical": line.critical,
                "busy": line.busy,
                "rows": line.rows,
                "lane": int(most.argmax()) if lanes else -1,
            }
        )
    return out


def tables(steps: Steps, names: Names) -> Tables:
    """The tables that rows refer to, and memory over time."""
    recording = steps.recording
    out: Tables = {
        name: {column: whole(recording.table(name)[column]) for column in columns} for name, columns in TABLES.items()
    }
    out["buffers"]["name"] = Delta(names.of_buffers)
    recorded, found = recording.table("lifetimes"), steps.lifetimes
    out["lifetimes"] = {name: found[name] if name in found else whole(recorded[name]) for name in LIFETIMES}
    out["usage"] = dict(recording.usage_by_core())
    found_loops = loops(recording).iterations
    out["iterations"] |= {
        "in_loop": found_loops.loop,
        "execution": found_loops.execution,
        "begin": Delta(found_loops.begin),
        "length": found_loops.end - found_loops.begin,
        "rows": found_loops.rows,
        "interval": found_loops.interval,
        "state": found_loops.state,
    }
    out["exchanges"] = _exchanges(steps)
    return out


def _exchanges(steps: Steps) -> dict[str, Array | Delta]:
    """The table `exchanges` with steps in place of rows."""
    table = steps.recording.table("exchanges")
    out: dict[str, Array | Delta] = {name: whole(table[name]) for name in EXCHANGES}
    for name in ("sends", "row"):
        row = whole(table[name])
        out[name] = np.where(row >= 0, steps.step_of[row], -1) if len(row) else row
    return out


def sums(recording: Recording, buckets: int) -> tuple[int, Tables]:
    """A shift, and the tables `zoom` and `zoom_critical` with stretches of 2**shift picoseconds, at most `buckets` + 1.

    `zoom` has the sums of the run, `zoom_critical` the buckets that rows of the critical path lie in, by lane.
    """
    # A row that takes no time may stand at the very end.
    shift, found = recording.sums(0, recording.makespan + 1, buckets)
    count = (recording.makespan >> shift) + 1
    path, rows = whole(recording.critical_path), recording.rows
    lane, start, duration = (rows[name][path].astype(np.int64) for name in ("lane", "start", "duration"))
    first = start >> shift
    last = np.minimum(np.maximum(start + duration - 1, start) >> shift, count - 1)
    # A path may touch millions of rows, yet only so many buckets: begins and ends added up say where it is.
    steps = np.zeros(len(recording.lanes) * (count + 1), np.int64)
    np.add.at(steps, lane * (count + 1) + first, 1)
    np.subtract.at(steps, lane * (count + 1) + last + 1, 1)
    lanes, touched = np.nonzero(np.cumsum(steps).reshape(-1, count + 1)[:, :-1] > 0)
    return shift, {"zoom": found._asdict(), "zoom_critical": {"lane": lanes, "bucket": touched}}
