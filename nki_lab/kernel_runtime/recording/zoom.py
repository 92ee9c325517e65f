"""Sum up exactly, over stretches of time, how long lanes work and wait: a long run is drawn without reading its rows.

Bucket `b` of width 2**shift lies from `b << shift` to `(b + 1) << shift` picoseconds. A recording keeps the sums at
several widths, each four times the one before; the finest is chosen by how many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from nki_lab.kernel_runtime.recording.columns import Array, Columns, pieces, search, whole

Tables = Callable[[str], Columns]
"""Gives a table by name, working it out where it must."""

MIN_ROWS: Final = 1 << 16
"""Sums of fewer rows are worked out when they are asked for."""
ROWS_PER_BUCKET: Final = 8
"""At least so many of each lane in the finest buckets, on average: the kept sums stay smaller than the rows, and a
finer query reads few of these."""
COARSEST: Final = 64
"""Levels end when this many buckets cover the run; what is coarser still is added up when asked for."""
FACTOR: Final = 2
"""Shift between one width and the next."""

_FIELDS: Final = ("start", "duration", "wait", "setup", "stall", "setup_stall")


class Sums(NamedTuple):
    """Work and waits of lanes, by bucket, lane and reason; reason 0 is work, the others are stalls.

    `time` is picoseconds within the bucket, `rows` how many rows start there, in the entry of their work. What is not
    listed is zero.
    """

    bucket: Array
    lane: Array
    reason: Array
    time: Array
    rows: Array

    def coarser(self, by: int) -> Sums:
        """Add up buckets of 2**by times the width."""
        key = (self.bucket.astype(np.int64) >> by) << 24 | self.lane.astype(np.int64) << 8 | self.reason
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        time, rows = (np.add.reduceat(column[order], first) for column in (self.time, self.rows))
        key = key[first]
        return Sums(key >> 24, key >> 8 & 0xFFFF, key & 0xFF, time, rows)


def sums(tables: Tables, begin: int, end: int, buckets: int) -> tuple[int, Sums]:
    """Return a shift, and the sums between two times in picoseconds in at most `buckets` + 1 buckets of 2**shift.

    The first and the last bucket may reach beyond the two times.
    """
    if not begin < end or buckets < 1:
        raise ValueError(f"no buckets: {buckets} from {begin} to {end} ps")
    shift = bucket_shift(end - begin, buckets)
    first, last = begin >> shift, ((end - 1) >> shift) + 1
    levels = tables("lane_sum_levels")
    usable = [level for level, stored in enumerate(whole(levels["shift"]).tolist()) if stored <= shift]
    if not usable:
        return shift, _from_rows(tables, shift, first, last)
    level, kept = usable[-1], tables("lane_sums")
    by = shift - int(levels["shift"][level])
    low = int(levels["first"][level])
    high = low + int(levels["entries"][level])
    low, high = (search(kept["bucket"], edge << by, low, high) for edge in (first, last))
    kept.prefetch(Sums._fields, low, high)
    return shift, Sums(*(kept[name][low:high] for name in Sums._fields)).coarser(by)


def bucket_shift(length: int, buckets: int) -> int:
    """Return the least power of two that cuts `length` picoseconds into at most `buckets` whole widths."""
    return max(0, (-(-length // buckets) - 1).bit_length())


def levels(tables: Tables, end: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the columns of `lane_sums` and `lane_sum_levels` of a run of `end` picoseconds."""
    rows, used = len(tables("lane_rows")), int(np.count_nonzero(whole(tables("lane_spans")["rows"])))
    found: list[tuple[int, Sums]] = []
    if rows >= MIN_ROWS:
        shift = bucket_shift(end + 1, max(COARSEST, rows // (ROWS_PER_BUCKET * used)))
        parts = [_from_rows(tables, shift, low, high) for low, high in pieces((end >> shift) + 1)]
        found.append((shift, Sums(*map(np.concatenate, zip(*parts, strict=True)))))
        while end >> shift > COARSEST:
            shift += FACTOR
            found.append((shift, found[-1][1].coarser(FACTOR)))
    sizes = np.array([len(entries.bucket) for _, entries in found], np.int64)
    columns = {
        name: np.concatenate([np.zeros(0, np.int64), *(getattr(entries, name) for _, entries in found)])
        for name in Sums._fields
    }
    shifts = np.array([shift for shift, _ in found], np.int64)
    return columns, {"shift": shifts, "first": np.cumsum(sizes) - sizes, "entries": sizes}


def _from_rows(tables: Tables, shift: int, first: int, last: int) -> Sums:
    """Sum up the rows, from bucket `first` to before `last`."""
    rows, spans, reasons = tables("lane_rows"), tables("lane_spans"), len(tables("stalls"))
    parts = [(np.zeros(0, np.int64),) * len(Sums._fields)]
    for lane, (low, count) in enumerate(zip(spans["first"][:].tolist(), spans["rows"][:].tolist(), strict=True)):
        touched = _touched(rows, low, low + count, first << shift, last << shift)
        rows.prefetch(_FIELDS, *touched)
        time, starts = _of_lane({name: rows[name][slice(*touched)] for name in _FIELDS}, shift, first, last, reasons)
        reason, bucket = np.nonzero((time > 0) | (starts > 0))
        parts.append((bucket + first, np.full(len(bucket), lane), reason, time[reason, bucket], starts[reason, bucket]))
    return Sums(*map(np.concatenate, zip(*parts, strict=True))).coarser(0)


def _touched(rows: Columns, low: int, high: int, begin: int, end: int) -> tuple[int, int]:
    """Return the places, among those of one lane, of rows that lie between two times, or whose wait does."""
    start = rows["start"]
    first = search(start, begin, low, high)
    if first > low and int(start[first - 1]) + int(rows["duration"][first - 1]) > begin:
        first -= 1
    last = search(start, end, first, high)
    return first, last + (last < high and int(start[last]) - int(rows["wait"][last]) < end)


def _of_lane(rows: dict[str, Array], shift: int, first: int, last: int, reasons: int) -> tuple[Array, Array]:
    """Return picoseconds, and rows that start, by reason and bucket, of some rows of a lane."""
    start, wait, setup = rows["start"], rows["wait"], rows["setup"]
    count = last - first
    low, high = first << shift, last << shift
    begin = np.concatenate((start, start - wait, start - setup))
    end = np.minimum(begin + np.concatenate((rows["duration"], wait - setup, setup)), high)
    begin = np.maximum(begin, low)
    inside = np.flatnonzero(end > begin)
    begin, end = begin[inside] - low, end[inside] - low
    reason = np.concatenate((np.zeros(len(start), np.uint8), rows["stall"], rows["setup_stall"]))[inside]
    cell = reason * np.int64(count)
    one, other = begin >> shift, (end - 1) >> shift
    size = reasons * count
    # Sums of picoseconds stay below 2**53, where float64 is exact.
    time: Array = np.bincount(cell + one, np.minimum(end, (one + 1) << shift) - begin, size)
    longer = np.flatnonzero(other > one)
    if longer.size:
        cell, one, other, end = cell[longer], one[longer], other[longer], end[longer]
        time += np.bincount(cell + other, end - (other << shift), size)
        # Buckets between the first and the last of a stretch are full.
        full = np.bincount(cell + one + 1, minlength=size) - np.bincount(cell + other, minlength=size)
        time += np.cumsum(full) * float(1 << shift)
    begun = start[(start >= low) & (start < high)] - low
    starts = np.bincount(begun >> shift, minlength=size)  # in the cells of reason 0
    return time.astype(np.int64).reshape(reasons, count), starts.reshape(reasons, count)


def largest(time: Array, values: Array, edges: Array) -> Array:
    """Return the largest value in force within each bucket, of values that hold from their time to the next one's.

    Before the first time the value is 0.
    """
    # In force are the value at the bucket's begin and those that follow up to its end.
    low = np.searchsorted(time, edges[:-1], "right")
    high = np.searchsorted(time, edges[1:], "left")
    return np.maximum.reduceat(np.concatenate(([0], values, [0])), np.stack((low, high + 1), axis=1).reshape(-1))[::2]
