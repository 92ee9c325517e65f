"""The recording of all ranks of a launch: their lanes, rows and memories side by side, and what they exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.kernel_runtime.recording.merging import Merging
from nki_lab.kernel_runtime.timing.reasons import OTHER_RANK
from nki_lab.timeline.ranks import Part, Together

_PICOSECONDS: Final = 1000  # in a nanosecond
_DECIMALS: Final = 3  # of nanoseconds
_SUMS: Final = (
    "instructions", "cores", "flops", "dma_bytes", "hbm_read_bytes", "hbm_write_bytes", "engine_busy_ns", "stall_ns",
    "slowed_ns",
)  # fmt: skip
_LARGEST: Final = (
    "sbuf_peak_bytes_per_partition", "psum_peak_bytes_per_partition", "sbuf_occupied_bytes_per_partition",
    "psum_occupied_bytes_per_partition",
)  # fmt: skip
_SHARES: Final = ("mfu", "hfu", "mbu")


def record_ranks(
    found: Together, alone: Sequence[int], diagnostics: Sequence[Sequence[Diagnostic]], faults: Sequence[int] = ()
) -> Recording:
    """Return the recording of all ranks.

    `alone` is the picoseconds of each rank as if no other came later, `diagnostics` are those of each rank; equal ones
    are kept once. `faults` has the instruction at which each rank failed, -1: it did not; nothing where none did.
    """
    recordings = [line.record(own) for line, own in zip(found.lines, diagnostics, strict=True)]
    merging = Merging(recordings)
    exchanges, after = _exchanges(found, merging.first_row)
    summary = _summary(found, alone, [recording.summary for recording in recordings])
    failed = [int(merging.first_row[rank]) + fault for rank, fault in enumerate(faults) if fault >= 0]
    if failed:
        summary["fault"] = failed[0]
    makespan = max(line.timing.makespan for line in found.lines)
    merged = merging.recording(exchanges, after, summary, makespan)
    times = digest(merged)
    return merged.with_summary(
        {
            "critical_path_ns": sum(times.work.values()) / _PICOSECONDS,
            "critical_wait_ns": {name: time / _PICOSECONDS for name, time in times.waits.items()},
        }
    )


def _row_of(found: Together, rank: int, op: int) -> int:
    """Return the recorded row of an op that the chip of a rank executes."""
    recorded = found.lines[rank].recorded
    return op if recorded is None else int(recorded.home[op])


def _exchanges(found: Together, first_row: Any) -> tuple[dict[str, Any], dict[int, int]]:
    """Return the table `exchanges`, and the rows of other ranks that rows waited for."""
    timings = [line.timing for line in found.lines]

    def last_of(part: Part) -> int:
        latest = max(part.sends, key=lambda op: int(timings[part.rank].ready[op]), default=-1)
        return -1 if latest < 0 else int(first_row[part.rank]) + _row_of(found, part.rank, latest)

    sends = [last_of(part) for part in found.parts]
    after: dict[int, int] = {}
    for part, other in zip(found.parts, found.last, strict=True):
        waited = [op for op in part.brings if timings[part.rank].stall[op] == OTHER_RANK]
        if other >= 0 and sends[other] >= 0:
            rows = [int(first_row[part.rank]) + _row_of(found, part.rank, op) for op in waited]
            after |= dict.fromkeys(rows, sends[other])
    numbers: dict[tuple[tuple[int, ...], int], int] = {}
    for place in sorted(range(len(found.parts)), key=lambda place: found.sent[place]):
        part = found.parts[place]
        numbers.setdefault((part.exchange.ranks, part.call), len(numbers))
    call = [numbers[part.exchange.ranks, part.call] for part in found.parts]
    order = sorted(range(len(call)), key=lambda place: (call[place], found.parts[place].rank))
    parts = [found.parts[place] for place in order]
    columns = {
        "call": [call[place] for place in order],
        "rank": [part.rank for part in parts],
        "what": [part.exchange.what for part in parts],
        "source": [part.exchange.source for part in parts],
        "sent": [found.sent[place] for place in order],
        "sends": [sends[place] for place in order],
        "row": [
            int(first_row[part.rank]) + _row_of(found, part.rank, part.brings[0]) if part.brings else -1
            for part in parts
        ],
        "bytes": [part.exchange.size for part in parts],
    }
    return {name: values if name == "what" else np.array(values, np.int64) for name, values in columns.items()}, after


def _summary(launch: Together, alone: Sequence[int], summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of all ranks: sums, the largest of peaks, and shares of the time of the whole launch."""
    makespans = [line.timing.makespan / _PICOSECONDS for line in launch.lines]
    longest = int(np.argmax(makespans))
    last, whole = summaries[longest], makespans[longest]
    out: dict[str, Any] = {
        name: last[name]
        for name in ("kernel", "target", "options", "makespan_interval_ns", "makespan_interval_basis",
                     "makespan_interval_notes", "launch_ns", "confidence")
        if name in last
    }  # fmt: skip
    out["makespan_ns"] = whole
    for name in _SUMS:
        if all(name in summary for summary in summaries):
            out[name] = _sum([summary[name] for summary in summaries])
    for name in _LARGEST:
        out[name] = max(summary[name] for summary in summaries)
    cores = [summary["cores"] for summary in summaries]
    for name in _SHARES:
        used = sum(item[name] * own * many for item, own, many in zip(summaries, makespans, cores, strict=True))
        out[name] = used / (whole * sum(cores)) if whole else 0.0
    found = {_identity(item): item for summary in summaries for item in summary["diagnostics"]}
    out["diagnostics"] = list(found.values())
    out["ranks"] = {
        "count": len(summaries),
        "slowest": launch.slowest,
        "makespan_ns": makespans,
        "alone_ns": [time / _PICOSECONDS for time in alone],
        "waits_ns": [time / _PICOSECONDS for time in launch.waits],
        "awaited_ns": [time / _PICOSECONDS for time in launch.awaited],
        "settled": launch.settled,
    }
    return out


def _identity(item: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what two findings that say the same have in common."""
    return item["code"], item["file"], item["line"], item["column"], item["message"]


def _sum(values: Sequence[Any]) -> Any:
    """Return the sum of numbers, or of mappings by name: nanoseconds to the picosecond."""
    if not isinstance(values[0], Mapping):
        return sum(values)
    names = dict.fromkeys(name for value in values for name in value)
    return {name: round(sum(value.get(name, 0) for value in values), _DECIMALS) for name in names}
