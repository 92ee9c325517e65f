"""The figures of two recordings by engine, by reason to wait, and by memory.

Each is worked out where reports take it from: the digest, or the summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nki_lab.comparison.amounts import Amount, Error, Unit, is_profile, of_summaries, time
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.kernel_runtime.recording.digest import Digest, executing
from nki_lab.kernel_runtime.vocabulary import KINDS, LANE_KINDS, kind_of_lane

Errors = tuple[Error | None, Error | None]

_OF_SUMMARY: tuple[tuple[str, Unit], ...] = (
    ("sbuf_peak_bytes_per_partition", "bytes"),
    ("psum_peak_bytes_per_partition", "bytes"),
    ("sbuf_occupied_bytes_per_partition", "bytes"),
    ("psum_occupied_bytes_per_partition", "bytes"),
    ("hbm_read_bytes", "bytes"),
    ("hbm_write_bytes", "bytes"),
    ("dma_bytes", "bytes"),
    ("flops", "count"),
    ("mfu", "share"),
    ("hfu", "share"),
    ("mbu", "share"),
)
"""The figures of summaries that are compared."""

_PEAKS: Final = {"sbuf": "sbuf_occupied_bytes_per_partition", "psum": "psum_occupied_bytes_per_partition"}
"""Those that a profile of a device does not have, by the memory whose use over time tells them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDifference:
    """An engine of all cores, or all DMA queues: the time in which it executes, in which it waits, and the share of
    the run in which it executes."""

    kind: str
    busy: Amount
    waiting: Amount
    utilisation: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class StallDifference:
    """A reason to wait: the time on the critical path, and of all lanes together."""

    name: str
    critical: Amount
    lanes: Amount


def engines(
    before: Recording, after: Recording, digests: tuple[Digest, Digest], errors: Errors
) -> list[EngineDifference]:
    """Return the engines that either run uses."""
    one, other = (_engine_times(recording, found) for recording, found in zip((before, after), digests, strict=True))
    available = [found.makespan * cores_of(run) for run, found in zip((before, after), digests, strict=True)]
    out = []
    for kind in KINDS:
        if kind in one or kind in other:
            (busy, waiting), (later, later_waiting) = one.get(kind, (0, 0)), other.get(kind, (0, 0))
            shares = [part / total if total else 0.0 for part, total in zip((busy, later), available, strict=True)]
            out.append(
                EngineDifference(
                    kind=kind,
                    busy=time("busy", busy, later, errors),
                    waiting=time("waiting", waiting, later_waiting, errors),
                    utilisation=Amount(name="utilisation", unit="share", before=shares[0], after=shares[1]),
                )
            )
    return out


def cores_of(recording: Recording) -> int:
    """Return how many cores a recording has lanes of; at least one."""
    return max(1, len({lane.core for lane in recording.lanes}))


def _engine_times(recording: Recording, found: Digest) -> dict[str, tuple[int, int]]:
    """Return the busy and the waiting time of each kind of lanes, summed over cores."""
    lanes: dict[tuple[str, int], list[int]] = {}
    for lane in recording.lanes:
        lanes.setdefault((kind_of_lane(lane.name, lane.kind), lane.core), []).append(lane.number)
    out: dict[str, tuple[int, int]] = {}
    for (kind, core), numbers in lanes.items():
        if kind == "dma":
            busy, waiting = found.dma[core], found.dma_waiting[core]
        elif len(numbers) == 1:
            mine = found.lanes[numbers[0]]
            busy, waiting = mine.busy, sum(mine.waits.values())
        else:  # a device pipelines: its engine has several lanes
            begin, end = executing(recording, numbers)
            busy = int((end - begin).sum())
            waiting = int(end[-1]) - busy if len(end) else 0
        known = out.get(kind, (0, 0))
        out[kind] = known[0] + busy, known[1] + waiting
    return {kind: times for kind, times in out.items() if any(times)}


def stalls(digests: tuple[Digest, Digest], errors: Errors) -> list[StallDifference]:
    """Return the reasons to wait that occur, those first whose time on the critical path differs most."""
    lanes = [_lane_waits(found) for found in digests]
    names = sorted({name for found in digests for name in found.waits} | {name for waits in lanes for name in waits})
    out = [
        StallDifference(
            name=name,
            critical=time("critical", digests[0].waits.get(name, 0), digests[1].waits.get(name, 0), errors),
            lanes=time("lanes", lanes[0].get(name, 0), lanes[1].get(name, 0), errors),
        )
        for name in names
    ]
    return sorted(out, key=lambda item: (-abs(item.critical.change or 0), -abs(item.lanes.change or 0), item.name))


def _lane_waits(found: Digest) -> dict[str, int]:
    waits: dict[str, int] = {}
    for lane in found.lanes:
        for name, spent in lane.waits.items():
            waits[name] = waits.get(name, 0) + spent
    return waits


def work(digests: tuple[Digest, Digest], errors: Errors) -> list[Amount]:
    """Return the work on the critical path by kind of lane; with the waits on it, it is the time of the run."""
    names = [name for name in KINDS if any(name in found.work for found in digests)]
    names += sorted({name for found in digests for name in found.work} - set(names))
    return [time(name, digests[0].work.get(name, 0), digests[1].work.get(name, 0), errors) for name in names]


def memory(before: Recording, after: Recording) -> list[Amount]:
    """Return peaks of memory, traffic with HBM, and number and sizes of DMA transfers."""
    summaries = [_with_peaks(before), _with_peaks(after)]
    found = [of_summaries(name, unit, *summaries) for name, unit in _OF_SUMMARY]
    one, other = _transfers(before), _transfers(after)
    units: Mapping[str, Unit] = {
        "dma_transfers": "count",
        "dma_transfer_bytes": "bytes",
        "dma_descriptors": "count",
        "dma_descriptor_bytes": "bytes",
    }
    found += [
        Amount(name=name, unit=unit, before=one[name], after=other[name])
        for name, unit in units.items()
        if one[name] is not None or other[name] is not None
    ]
    return [item for item in found if item is not None]


def _with_peaks(recording: Recording) -> Mapping[str, Any]:
    """Return the summary; that of a profile with the most of each memory that it records in use."""
    summary = recording.summary
    if not is_profile(recording):
        return summary
    usage = recording.usage_by_core()
    peaks = {_PEAKS[name]: int(usage[name].max(initial=0)) for name in _PEAKS}
    return {name: peak for name, peak in peaks.items() if peak} | summary


def _transfers(recording: Recording) -> dict[str, float | None]:
    """Return the number of DMA transfers and of their descriptors, and the mean bytes of one; None of unknown ones."""
    rows, ops = recording.rows, recording.table("ops")
    dma = LANE_KINDS.index("dma")
    is_queue = whole(recording.table("lanes")["kind"]) == dma
    mine = (
        np.flatnonzero(is_queue[whole(rows["lane"])] & recording.executed) if len(is_queue) else np.zeros(0, np.int64)
    )
    moved = int(whole(rows["bytes"])[mine].sum(dtype=np.int64))
    op = whole(rows["op"])[mine]
    descriptors = whole(ops["descriptors"]).astype(np.int64)
    sizes = descriptors * whole(ops["descriptor_bytes"]).astype(np.int64)
    count, total = int(descriptors[op].sum()), int(sizes[op].sum())
    return {
        "dma_transfers": len(mine),
        "dma_transfer_bytes": moved / len(mine) if len(mine) else None,
        "dma_descriptors": count or None,
        "dma_descriptor_bytes": total / count if count else None,
    }
