"""The tables of a profile that sum up: activity by engine and by instruction, the run as a whole, the chip."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.export.explorer.tables import ENGINES, VERSION
from nki_lab.export.findings import numbered, queues
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, pieces
from nki_lab.kernel_runtime.recording.digest import digest, executing
from nki_lab.quantities import in_nanoseconds

Columns = dict[str, Any]

SUMMARY_FIELDS: Final = (
    ("hbm_read_bytes", "hbm_read_bytes", 1), ("hbm_write_bytes", "hbm_write_bytes", 1),
    ("dma_bytes", "dma_transfer_total_bytes", 1), ("flops", "hardware_flops", 1),
    ("mfu", "mfu_estimated_percent", 0.01), ("hfu", "hfu_estimated_percent", 0.01),
    ("mbu", "mbu_estimated_percent", 0.01),
)  # fmt: skip
"""Numbers of a recording's summary, the fields of Summary that hold them, and the factor from field to number."""


def known_arch(target: str) -> Arch | None:
    """Return the table of a target; None for a name that is none."""
    try:
        return arch_of(target)
    except NkiError:
        return None


def active_time(recording: Recording) -> Columns:
    """The columns of ActiveTime: stretches of an engine without a gap, to the nanosecond."""
    out: Columns = {name: [] for name in ("start_ts", "end_ts", "engine", "pcore_idx", "duration_ns")}
    table = recording.table("lane_rows")
    for lane in recording.lanes:
        if lane.kind == "dma":
            continue
        mine = slice(*recording.lane_span(lane.number))
        begin, end = merged(
            *map(in_nanoseconds, (table["start"][mine], table["start"][mine] + table["duration"][mine]))
        )
        out["start_ts"] += begin.tolist()
        out["end_ts"] += end.tolist()
        out["duration_ns"] += (end - begin).tolist()
        out["engine"] += [ENGINES.get(lane.name, lane.name)] * len(begin)
        out["pcore_idx"] += [lane.core] * len(begin)
    return out


def merged(begin: Array, end: Array) -> tuple[Array, Array]:
    """Intervals in order of begin as the fewest that cover the same; empty ones are left out."""
    some = end > begin
    begin, end = begin[some], np.maximum.accumulate(end[some])
    first = np.append(True, begin[1:] > end[:-1]) if len(begin) else np.zeros(0, bool)
    return begin[first], end[np.append(np.flatnonzero(first)[1:] - 1, len(end) - 1)] if len(end) else end


def opcodes(recording: Recording) -> Columns:
    """The columns of OpcodeSummary."""
    lanes, (known, of_op) = recording.lanes, numbered(recording.texts("ops", "name"))
    count, time = (np.zeros((len(lanes), len(known)), np.int64) for _ in range(2))
    for low, high in pieces(len(recording)):
        executed = recording.executed[low:high]
        lane, op = recording.rows["lane"][low:high][executed], of_op[recording.rows["op"][low:high][executed]]
        np.add.at(count, (lane, op), 1)
        np.add.at(time, (lane, op), recording.rows["duration"][low:high][executed])
    pairs = [(lane, op) for lane in lanes if lane.kind != "dma" for op in np.flatnonzero(count[lane.number]).tolist()]
    spent = [in_nanoseconds(int(time[lane.number, op])) for lane, op in pairs]
    return {
        "engine": [ENGINES.get(lane.name, lane.name) for lane, _ in pairs],
        "opcode": [known[op] for _, op in pairs],
        "instruction_count": [int(count[lane.number, op]) for lane, op in pairs],
        "instruction_time_ns": spent,
        "active_time_ns": spent,  # rows of a lane do not overlap
        "active_time_percent": [100_000 * one / max(recording.makespan, 1) for one in spent],
    }


def summary(recording: Recording) -> Columns:
    """The one row of Summary. Times are seconds."""
    end, times = recording.makespan / 1e12, recording.lane_times[:, 0]
    counts = [lane.rows for lane in digest(recording).lanes]
    results, count = recording.summary, recording.instructions
    out: Columns = {"total_time": end, "event_count": count, "total_row_count": count}
    for engine in ENGINES:
        mine = [lane.number for lane in recording.lanes if lane.name == engine]
        spent = float(times[mine].sum()) / 1e12
        out[f"{engine}_engine_instruction_time"] = out[f"{engine}_engine_active_time"] = spent
        out[f"{engine}_engine_active_time_percent"] = 100 * spent / (end * len(mine)) if end and mine else 0.0
        out[f"{engine}_engine_instruction_count"] = sum(counts[lane] for lane in mine)
    dma = queues(recording)
    begin, stop = executing(recording, dma)
    active = int((stop - begin).sum()) / 1e12
    moved = 0
    for low, high in pieces(len(recording)):
        is_moved = np.isin(recording.rows["lane"][low:high], dma) & recording.executed[low:high]
        moved += int(recording.rows["bytes"][low:high][is_moved].sum(dtype=np.int64))
    transfers = sum(counts[lane] for lane in dma)
    out |= {
        "dma_active_time": active,
        "dma_active_time_percent": 100 * active / end if end else 0.0,
        "dma_transfer_count": transfers,
        "dma_transfer_total_bytes": moved,
        "dma_transfer_average_bytes": moved / transfers if transfers else 0.0,
        "dma_queue_count": len(dma),
    }
    for name, field, factor in SUMMARY_FIELDS:
        if isinstance(value := results.get(name), int | float) and name != "dma_bytes":
            out[field] = value * (1 / factor) if factor < 1 else round(value)
    return {name: [value] for name, value in out.items()}


def metadata(recording: Recording, arch: Arch) -> Columns:
    """The one row of Metadata: the chip as the model has it."""
    row: Columns = {
        "profile_schema_version": VERSION,
        "ntff_version": 0,
        "num_physical_cores": max((lane.core for lane in recording.lanes), default=0) + 1,
        "vnc_enabled": any(lane.core for lane in recording.lanes),
        "first_hw_timestamp": 0,
        "last_hw_timestamp": in_nanoseconds(recording.makespan),
        "first_ts": "1970-01-01 00:00:00+00:00",
        "last_ts": "1970-01-01 00:00:00+00:00",
        "dma_ddr_bandwidth": arch.dma_engines * arch.dma_peak_bytes_per_ns * 1e9,
        "num_dma_engines_per_neuroncore": arch.dma_engines,
        "hbm_ddr_bandwidth": arch.hbm_bytes_per_ns * 1e9,
        "tensor_engine_num_rows": arch.pmax,
        "tensor_engine_num_cols": arch.gemm_stationary_fmax,
        "tensor_engine_clock_freq": arch.tensor_ghz,
        "neuroncore_clock_freq": arch.sync_ghz,
        "ticks_per_nanosec": 1000,
        "instance_type": arch.target,
        "profile_name": str(recording.summary.get("kernel", "kernel")),
        "is_simulation": True,
    }
    for engine in ("vector", "scalar", "gpsimd"):
        row[f"{engine}_engine_clock_freq"] = arch.ghz(engine)
        row[f"{engine}_engine_num_channels"] = arch.pmax
    return {name: [value] for name, value in row.items()}
