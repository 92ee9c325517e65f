"""What a view asks: the rows of a lane in a stretch of time, or sums per bucket where they are too many to draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording.columns import Array, Columns, pieces, search, whole
from nki_lab.kernel_runtime.recording.zoom import FACTOR, NO_ZOOM, Intervals, largest, per_bucket

LIMIT: Final = 4096
"""Rows that a window gives one by one."""
BUCKETS: Final = 1024
Tables = Callable[[str], Columns]
"""Gives a table by name, working it out where it must."""

_DRAWN: Final = ("row", "start", "duration", "wait", "setup", "stall", "setup_stall")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaneRows:
    """The rows of a lane that touch a window, or whose wait does, in order of start. Times in picoseconds.

    Before `start` the lane waited for `wait` picoseconds: for `stall`, and the last `setup` of them for `setup_stall`.
    """

    lane: int
    row: Array
    start: Array
    duration: Array
    wait: Array
    setup: Array
    stall: Array
    setup_stall: Array

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaneBuckets:
    """Exact sums per bucket of a lane.

    Bucket i lies from `edges[i]` to `edges[i + 1]`; the edges are multiples of one power of two and reach to the
    window's ends or a little beyond. `busy` and `waiting` are picoseconds within the bucket, `count` the rows that
    start in it, `stall` what most of the waiting was for, 0 where there is none.
    """

    lane: int
    edges: Array
    busy: Array
    waiting: Array
    count: Array
    stall: Array

    @property
    def busy_share(self) -> Array:
        """Work as a share of each bucket, 0 to 1."""
        return self.busy / np.diff(self.edges)

    def __len__(self) -> int:
        return len(self.count)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemorySteps:
    """Memory in use, in bytes of the fullest partition: from `time[i]` on, the first time being the window's begin."""

    time: Array
    sbuf: Array
    psum: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryBuckets:
    """The largest use of memory per bucket, in bytes of the fullest partition; edges as in LaneBuckets."""

    edges: Array
    sbuf: Array
    psum: Array


def lane_window(tables: Tables, lane: int, begin: int, end: int, limit: int, buckets: int) -> LaneRows | LaneBuckets:
    """The rows of `lane` between `begin` and `end` picoseconds, or sums in at most `buckets` + 1 buckets if there are
    more than `limit`."""
    if not begin < end:
        raise ValueError(f"a window from {begin} to {end} ps is empty")
    if limit < 0 or buckets < 1:
        raise ValueError(f"limit={limit}, buckets={buckets}: a window has at least one bucket")
    rows, spans = tables("lane_rows"), tables("lane_spans")
    low = int(spans["first"][lane])
    high = low + int(spans["rows"][lane])
    first, last = _touched(rows, low, high, begin, end)
    if last - first <= limit:
        rows.prefetch(_DRAWN, first, last)
        return LaneRows(lane=lane, **{name: rows[name][first:last] for name in _DRAWN})
    shift = bucket_shift(end - begin, buckets)
    edges = bucket_edges(begin, end, shift)
    finest = int(spans["shift"][lane])
    if finest == NO_ZOOM or shift < finest:
        sums = _from_rows(tables, low, high, edges)
    else:
        sums = _from_zoom(tables, lane, shift, finest, edges)
    time, count = sums
    waits = time.copy()
    waits[0] = 0
    return LaneBuckets(
        lane=lane, edges=edges, busy=time[0], waiting=waits.sum(axis=0), count=count,
        stall=waits.argmax(axis=0).astype(np.uint8),
    )  # fmt: skip


def bucket_shift(length: int, buckets: int) -> int:
    """The least power of two that cuts `length` picoseconds into at most `buckets` whole widths."""
    return max(0, (-(-length // buckets) - 1).bit_length())


def bucket_edges(begin: int, end: int, shift: int) -> Array:
    """Multiples of the bucket width from at or before `begin` to at or after `end`."""
    return np.arange(begin >> shift, ((end - 1) >> shift) + 2, dtype=np.int64) << shift


def _touched(rows: Columns, low: int, high: int, begin: int, end: int) -> tuple[int, int]:
    """The places of the rows that touch a window, among those of one lane."""
    start, duration, wait = rows["start"], rows["duration"], rows["wait"]
    first = search(start, begin, low, high)
    if first > low and int(start[first - 1]) + int(duration[first - 1]) > begin:
        first -= 1
    last = search(start, end, first, high)
    if last < high and int(wait[last]) and int(start[last]) - int(wait[last]) < end:
        last += 1
    return first, last


def _from_rows(tables: Tables, low: int, high: int, edges: Array) -> tuple[Array, Array]:
    """Picoseconds by reason and bucket, and rows by bucket, from the rows themselves."""
    rows = tables("lane_rows")
    time = np.zeros((len(tables("stalls")), len(edges) - 1), np.int64)
    count = np.zeros(len(edges) - 1, np.int64)
    first, last = _touched(rows, low, high, int(edges[0]), int(edges[-1]))
    for a, b in pieces(last - first):
        rows.prefetch(Intervals._fields, first + a, first + b)
        lane = Intervals(*(rows[name][first + a : first + b] for name in Intervals._fields))
        for reason, spent, starts in per_bucket(lane, edges):
            time[reason] += spent
            if not reason:
                count += starts
    return time, count


def _from_zoom(tables: Tables, lane: int, shift: int, finest: int, edges: Array) -> tuple[Array, Array]:
    """The same from the widest stored buckets that are no wider than 2**shift."""
    zoom, spans = tables("zoom"), tables("zoom_spans")
    shifts = whole(spans["shift"]).astype(np.int64)
    mine = np.flatnonzero((whole(spans["lane"]) == lane) & (shifts <= shift))
    level = int(mine[shifts[mine].argmax()])
    by = shift - int(shifts[level])
    low = int(spans["first"][level])
    high = low + int(spans["entries"][level])
    first = search(zoom["bucket"], int(edges[0]) >> (shift - by), low, high)
    last = search(zoom["bucket"], int(edges[-1]) >> (shift - by), first, high)
    zoom.prefetch(("bucket", "reason", "count", "time"), first, last)
    bucket = (zoom["bucket"][first:last] >> by).astype(np.int64) - (int(edges[0]) >> shift)
    reason, count = zoom["reason"][first:last], zoom["count"][first:last]
    time = np.zeros((len(tables("stalls")), len(edges) - 1), np.int64)
    np.add.at(time, (reason, bucket), zoom["time"][first:last])
    work = reason == 0
    counts = np.zeros(len(edges) - 1, np.int64)
    np.add.at(counts, bucket[work], count[work])
    return time, counts


def memory_window(
    tables: Tables, begin: int, end: int, run_end: int, limit: int, buckets: int
) -> MemorySteps | MemoryBuckets:
    """Memory in use between two times, step by step or as the largest per bucket if there are more than `limit`."""
    if not begin < end:
        raise ValueError(f"a window from {begin} to {end} ps is empty")
    usage = tables("usage")
    first = search(usage["time"], begin, 0, len(usage), "right") - 1
    last = search(usage["time"], end, max(first, 0), len(usage))
    if last - first <= limit:
        values = {name: usage[name][max(first, 0) : last] for name in ("time", "sbuf", "psum")}
        if first < 0:
            values = {name: np.concatenate(([0], column)) for name, column in values.items()}
        else:
            values["time"] = values["time"].copy()
        values["time"][0] = begin
        return MemorySteps(**values)
    shift = bucket_shift(end - begin, buckets)
    edges = bucket_edges(begin, end, shift)
    zoom = tables("usage_zoom")
    if shift >= (int(zoom["shift"][0]) if len(zoom) else NO_ZOOM):
        return MemoryBuckets(edges=edges, **_usage_from_zoom(zoom, usage, edges, shift, run_end))
    low = max(0, search(usage["time"], int(edges[0]), 0, len(usage), "right") - 1)
    high = search(usage["time"], int(edges[-1]), 0, len(usage))
    time = usage["time"][low:high]
    return MemoryBuckets(
        edges=edges, **{name: largest(time, usage[name][low:high], edges) for name in ("sbuf", "psum")}
    )


def _usage_from_zoom(zoom: Columns, usage: Columns, edges: Array, shift: int, run_end: int) -> dict[str, Array]:
    """The largest values per bucket from the widest stored buckets that are no wider than 2**shift."""
    level, place = int(zoom["shift"][0]), 0
    while level + FACTOR <= shift and place + (run_end >> level) + 1 < len(zoom):
        place, level = place + (run_end >> level) + 1, level + FACTOR
    by = shift - level
    last = run_end >> level
    starts = (np.arange(len(edges) - 1) + (int(edges[0]) >> shift)) << by
    inside = starts <= last
    out = {}
    for name in ("sbuf", "psum"):
        values = zoom[name][place + int(starts[0]) : place + min(int(starts[-1]) + (1 << by), last + 1)]
        out[name] = np.full(len(starts), usage[name][len(usage) - 1])  # what holds after the run
        if inside.any():
            out[name][inside] = np.maximum.reduceat(values, starts[inside] - starts[0])
    return out
