"""Sums of every lane over stretches of the whole run, for what a page shows before it has the rows, or without them."""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.recording.window import bucket_shift
from nki_lab.kernel_runtime.recording.zoom import Intervals

BUCKETS: Final = 2048
"""Stretches of a run that is sent whole: as many as a wide screen has pixels."""
MANY_BUCKETS: Final = 16384
"""The same where rows are loaded a range at a time and what lies between a screen and a range is drawn from sums."""


def zoom(recording: Recording, buckets: int) -> tuple[int, dict[str, dict[str, Array]]]:
    """A shift, and the tables `zoom` and `zoom_critical` with stretches of 2**shift picoseconds, at most `buckets` + 1.

    `zoom` has what is not zero, by lane, reason (0 is work, else a stall) and bucket: picoseconds, and the rows that
    start there. `zoom_critical` names the buckets that rows of the critical path lie in, by lane.
    """
    end = max(recording.makespan, 1)
    shift = bucket_shift(end, buckets)
    count = (end >> shift) + 1  # a row that takes no time may stand at the very end
    rows, spans = recording.table("lane_rows"), recording.table("lane_spans")
    parts: list[dict[str, Array]] = []
    for lane in range(len(recording.lanes)):
        first = int(spans["first"][lane])
        mine = slice(first, first + int(spans["rows"][lane]))
        rows.prefetch(Intervals._fields, mine.start, mine.stop)
        intervals = Intervals(*(rows[name][mine] for name in Intervals._fields))
        time, starts = _sums(intervals, shift, count, len(recording.stalls))
        reason, bucket = np.nonzero((time > 0) | (starts > 0))
        found = {"reason": reason, "bucket": bucket, "time": time[reason, bucket], "rows": starts[reason, bucket]}
        parts.append({"lane": np.full(len(bucket), lane), **found})
    names = ("lane", "reason", "bucket", "time", "rows")
    entries = {name: np.concatenate([np.zeros(0, np.int64), *(part[name] for part in parts)]) for name in names}
    return shift, {"zoom": entries, "zoom_critical": _critical(recording, shift, count)}


def _sums(lane: Intervals, shift: int, count: int, reasons: int) -> tuple[Array, Array]:
    """Picoseconds, and rows that start, by reason and bucket."""
    begin = np.concatenate((lane.start, lane.start - lane.wait, lane.start - lane.setup))
    length = np.concatenate((lane.duration, lane.wait - lane.setup, lane.setup))
    cell = np.concatenate((np.zeros(len(lane.start), np.uint8), lane.stall, lane.setup_stall)).astype(np.int64) * count
    first, last = begin >> shift, np.maximum(begin, begin + length - 1) >> shift
    size = reasons * count
    # Sums of picoseconds stay below 2**53, where float64 is exact.
    time: Array = np.zeros(size)
    time += np.bincount(cell + first, np.minimum(length, ((first + 1) << shift) - begin), size)
    longer = np.flatnonzero(last > first)
    cell, first, last, end = cell[longer], first[longer], last[longer], (begin + length)[longer]
    time += np.bincount(cell + last, end - (last << shift), size)
    # Buckets between the first and the last of a stretch are full.
    inside = np.bincount(cell + first + 1, minlength=size) - np.bincount(cell + last, minlength=size)
    time += np.cumsum(inside) * float(1 << shift)
    starts = np.bincount(lane.start >> shift, minlength=size)  # in the cells of reason 0
    return time.astype(np.int64).reshape(reasons, count), starts.reshape(reasons, count)


def _critical(recording: Recording, shift: int, count: int) -> dict[str, Array]:
    """Lane and bucket wherever the critical path works."""
    path, rows = whole(recording.critical_path), recording.rows
    lane, start, duration = (rows[name][path].astype(np.int64) for name in ("lane", "start", "duration"))
    first = start >> shift
    last = np.minimum(np.maximum(start + duration - 1, start) >> shift, count - 1)
    # A path may touch millions of rows, yet only so many buckets: begins and ends added up say where it is.
    steps = np.zeros(len(recording.lanes) * (count + 1), np.int64)
    np.add.at(steps, lane * (count + 1) + first, 1)
    np.subtract.at(steps, lane * (count + 1) + last + 1, 1)
    touched = np.cumsum(steps).reshape(-1, count + 1)[:, :-1] > 0
    lanes, buckets = np.nonzero(touched)
    return {"lane": lanes, "bucket": buckets}
