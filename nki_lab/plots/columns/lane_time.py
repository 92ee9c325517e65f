"""The time of engines and queues: how busy they are over time, and what they wait for."""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.kernel_runtime.recording.digest import Digest, digest, executing
from nki_lab.kernel_runtime.vocabulary import NO_KIND, kind_of_stall, known_kind
from nki_lab.plots.columns.frame import BINS, Frame, Group, edges, groups, nanoseconds, of_records

CRITICAL: Final = "Critical path"


def utilisation(recording: Recording, *, bins: int = BINS, bin_ns: float | None = None) -> Frame:
    """Return how busy each engine and the DMA queues of each core are, by bin of time.

    `busy_ns` adds up over the bins to the busy time of the summary; `share` is that of the bin. A row is a bin of
    `lane`, of the `kind` and `core`.
    """
    bounds, found = edges(recording, bins, bin_ns), groups(recording)
    count = len(bounds) - 1
    busy = [np.diff(_before(*executing(recording, group.lanes), bounds)) for group in found]
    time = np.concatenate([np.zeros(0, np.int64), *busy])
    width = np.tile(np.diff(bounds), len(found))
    return {
        "lane": np.repeat(np.array([group.label for group in found], str), count),
        "kind": np.repeat(np.array([group.kind for group in found], str), count),
        "core": np.repeat(np.array([group.core for group in found], np.int64), count),
        "begin_ns": np.tile(nanoseconds(bounds[:-1]), len(found)),
        "end_ns": np.tile(nanoseconds(bounds[1:]), len(found)),
        "busy_ns": nanoseconds(time),
        "share": time / np.maximum(width, 1),
    }


def _before(begin: Array, end: Array, bounds: Array) -> Array:
    """Return how much of some stretches, which are in order and disjoint, lies before each of some times."""
    done = np.concatenate(([0], np.cumsum(end - begin)))
    place = np.searchsorted(begin, bounds, "right")
    beyond = np.where(place > 0, end[place - 1] - bounds, 0) if len(end) else np.zeros(len(bounds), np.int64)
    out: Array = done[place] - np.maximum(beyond, 0)
    return out


def stalls(recording: Recording) -> Frame:
    """Return what each lane does with the time of the run, and the critical path: parts that add up to it.

    `part` is `works`, `slowed` (the part of its busy time by which instructions take longer than their own work),
    `waits` or `empty`; `reason` is what it waits for, or what slows it, and `kind` the engine that this names: its own
    where it works. Of all DMA queues of a core together the reasons are not told apart.
    """
    found = digest(recording)
    records = [record for group in groups(recording) for record in _parts(found, group)] if found.makespan else []
    if records:
        for kind, time in found.work.items():
            records.append((CRITICAL, -1, "works", "", known_kind(kind), time))
        for reason, time in found.waits.items():
            records.append((CRITICAL, -1, "waits", reason, kind_of_stall(reason), time))
    names = ("lane", "core", "part", "reason", "kind", "time")
    out = of_records(names, records, ("lane", "part", "reason", "kind"))
    spent = out.pop("time").astype(np.int64)
    return {**out, "time_ns": nanoseconds(spent), "share": spent / max(found.makespan, 1)}


def _parts(found: Digest, group: Group) -> list[tuple[object, ...]]:
    """Return the records of a lane."""
    if len(group.lanes) > 1 or group.kind == "dma":
        busy, waiting = found.dma.get(group.core, 0), found.dma_waiting.get(group.core, 0)
        slowed: dict[str, int] = {}
        waits = {"": waiting}
        empty = found.makespan - busy - waiting
    else:
        lane = found.lanes[group.lanes[0]]
        busy, slowed, waits, empty = lane.busy, dict(lane.slowed), dict(lane.waits), lane.empty
    parts = [
        ("works", "", group.kind, busy - sum(slowed.values())),
        *(("slowed", reason, kind_of_stall(reason), time) for reason, time in slowed.items()),
        *(("waits", reason, kind_of_stall(reason) if reason else NO_KIND, time) for reason, time in waits.items()),
        ("empty", "", NO_KIND, empty),
    ]
    return [(group.label, group.core, *part) for part in parts if part[3]]
