"""Exact time per bucket, at several widths, so that a long stretch of a lane is drawn without reading its rows.

Bucket `b` of width 2**shift lies from `b << shift` to `(b + 1) << shift` picoseconds. Each lane has its own finest
width, chosen by how dense its rows are; coarser ones follow by factors of four. Reason 0 stands for work, the others
are stalls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from nki_lab.kernel_runtime.recording.columns import Array, Columns, pieces, whole

NO_ZOOM: Final = 255
MIN_ROWS: Final = 4096
"""Lanes with fewer rows are read directly."""
ROWS_PER_BUCKET: Final = 16
"""At least so many in the finest buckets, on average: all widths together then hold at most one entry a reason for
twelve rows."""
COARSEST: Final = 64
"""Levels end when this many buckets cover the run; what is coarser still is added up when asked for."""
FACTOR: Final = 2
"""Shift between one width and the next."""


class Intervals(NamedTuple):
    """Rows of a lane, or a stretch of them, in order of start."""

    start: Array
    duration: Array
    wait: Array
    setup: Array
    stall: Array
    setup_stall: Array

    def busy_before(self, times: Array) -> Array:
        """Picoseconds of work before each time."""
        return _covered(self.start, self.duration, times)

    def waits(self) -> Iterator[tuple[int, Array, Array]]:
        """Each stall with the begins and lengths of its waits."""
        length = self.wait - self.setup
        for reason in np.unique(np.concatenate((self.stall[length > 0], self.setup_stall[self.setup > 0]))).tolist():
            main, last = (self.stall == reason) & (length > 0), (self.setup_stall == reason) & (self.setup > 0)
            begin = np.concatenate((self.start[main] - self.wait[main], self.start[last] - self.setup[last]))
            order = np.argsort(begin, kind="stable") if last.any() else slice(None)
            yield reason, begin[order], np.concatenate((length[main], self.setup[last]))[order]


def _covered(begin: Array, length: Array, times: Array) -> Array:
    """How much of the disjoint intervals, in order of begin, lies before each time."""
    if not begin.size:
        return np.zeros(len(times), np.int64)
    before = np.concatenate(([0], np.cumsum(length)[:-1]))
    place = np.searchsorted(begin, times, "right") - 1
    inside = np.minimum(times - begin[place], length[place])
    return np.where(place < 0, 0, before[place] + inside)


def per_bucket(lane: Intervals, edges: Array) -> Iterator[tuple[int, Array, Array]]:
    """(reason, picoseconds, rows) per bucket between consecutive edges, for work and each stall that occurs.

    A row counts where it starts, its wait where it ends.
    """
    counts = np.diff(np.searchsorted(lane.start, edges, "left"))
    yield 0, np.diff(lane.busy_before(edges)), counts
    for reason, begin, length in lane.waits():
        ends = np.searchsorted(begin + length, edges, "left")
        yield reason, np.diff(_covered(begin, length, edges)), np.diff(ends)


def finest_shift(rows: int, end: int) -> int:
    """The finest width for a lane of `rows` rows in a run of `end` picoseconds."""
    shift = 0
    while end >> shift > rows // ROWS_PER_BUCKET:
        shift += 1
    return shift


class _Entries(NamedTuple):
    bucket: Array
    reason: Array
    starts: Array
    time: Array

    def sorted(self) -> _Entries:
        order = np.lexsort((self.reason, self.bucket))
        return _Entries(*(column[order] for column in self))

    def coarser(self) -> _Entries:
        """The entries of the next width; the input is sorted."""
        bucket = self.bucket >> FACTOR
        order = np.lexsort((self.reason, bucket))
        bucket, reason = bucket[order], self.reason[order]
        first = np.flatnonzero(np.concatenate(([True], (bucket[1:] != bucket[:-1]) | (reason[1:] != reason[:-1]))))
        starts, time = (np.add.reduceat(column[order], first) for column in (self.starts, self.time))
        return _Entries(bucket[first], reason[first], starts, time)


def _finest(lane: Intervals, shift: int, end: int) -> _Entries:
    parts = []
    for low, high in pieces((end >> shift) + 1):
        edges = np.arange(low, high + 1, dtype=np.int64) << shift
        for reason, time, count in per_bucket(lane, edges):
            some = np.flatnonzero((time > 0) | (count > 0))
            parts.append(_Entries(some + low, np.full(len(some), reason, np.uint8), count[some], time[some]))
    return _Entries(*(np.concatenate(column) for column in zip(*parts, strict=True))).sorted()


def pyramid(lanes: Columns, spans: Columns, end: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """The columns of `zoom` and `zoom_spans`, from `lane_rows` and `lane_spans` of a run of `end` picoseconds."""
    levels: dict[tuple[int, int], _Entries] = {}
    for lane in range(len(spans)):
        shift = int(spans["shift"][lane])
        if shift == NO_ZOOM:
            continue
        first = int(spans["first"][lane])
        mine = slice(first, first + int(spans["rows"][lane]))
        intervals = Intervals(*(lanes[name][mine] for name in Intervals._fields))
        entries = _finest(intervals, shift, end)
        levels[shift, lane] = entries
        while end >> shift > COARSEST:
            shift, entries = shift + FACTOR, entries.coarser()
            levels[shift, lane] = entries
    keys = sorted(levels)
    sizes = [len(levels[key].bucket) for key in keys]
    names = {"bucket": "bucket", "reason": "reason", "count": "starts", "time": "time"}
    zoom = {
        name: np.concatenate([np.zeros(0, np.int64), *(getattr(levels[key], field) for key in keys)])
        for name, field in names.items()
    }
    directory = {
        "lane": np.array([lane for _, lane in keys], np.int64),
        "shift": np.array([shift for shift, _ in keys], np.int64),
        "first": np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64) if keys else np.zeros(0, np.int64),
        "entries": np.array(sizes, np.int64),
    }
    return zoom, directory


def usage_levels(usage: Columns, end: int) -> dict[str, Array]:
    """The columns of `usage_zoom`: the largest values in force within each bucket."""
    if len(usage) < MIN_ROWS:
        return {"shift": np.zeros(0, np.int64), "sbuf": np.zeros(0, np.int64), "psum": np.zeros(0, np.int64)}
    shift = finest_shift(len(usage), end)
    time = whole(usage["time"])
    edges = np.arange((end >> shift) + 2, dtype=np.int64) << shift
    level = {name: largest(time, whole(usage[name]), edges) for name in ("sbuf", "psum")}
    out: dict[str, list[Array]] = {"shift": [], "sbuf": [], "psum": []}
    while True:
        for name, values in level.items():
            out[name].append(values)
        out["shift"].append(np.full(len(level["sbuf"]), shift))
        if end >> shift <= COARSEST:
            return {name: np.concatenate(parts) for name, parts in out.items()}
        shift += FACTOR
        starts = np.arange(0, len(level["sbuf"]), 1 << FACTOR)
        level = {name: np.maximum.reduceat(values, starts) for name, values in level.items()}


def largest(time: Array, values: Array, edges: Array) -> Array:
    """The largest value in force within each bucket, of values that hold from their time to the next one's.

    Before the first time the value is 0.
    """
    held = np.concatenate(([0], values))
    low = np.searchsorted(time, edges[:-1], "right")
    high = np.searchsorted(time, edges[1:], "left")
    if not len(low):
        return np.zeros(0, np.int64)
    # In force are the value at the bucket's begin (place low) and those that follow up to its end (place high).
    bounds = np.stack((low, high + 1), axis=1).reshape(-1)
    padded = np.append(held, 0)
    return np.maximum.reduceat(padded, bounds)[::2]
