"""Sums of every lane over stretches of the whole run, for what a page shows before it has the rows, or without them."""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.recording.window import bucket_shift
from nki_lab.kernel_runtime.recording.zoom import Intervals, per_bucket

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
    count = ((end - 1) >> shift) + 1
    edges = np.arange(count + 1, dtype=np.int64) << shift
    rows, spans = recording.table("lane_rows"), recording.table("lane_spans")
    parts: list[dict[str, Array]] = []
    for lane in range(len(recording.lanes)):
        first = int(spans["first"][lane])
        mine = slice(first, first + int(spans["rows"][lane]))
        rows.prefetch(Intervals._fields, mine.start, mine.stop)
        for reason, time, starts in per_bucket(Intervals(*(rows[name][mine] for name in Intervals._fields)), edges):
            some = np.flatnonzero((time > 0) | (starts > 0))
            begun = starts[some] if reason == 0 else np.zeros(len(some), np.int64)
            same = {name: np.full(len(some), value) for name, value in (("lane", lane), ("reason", reason))}
            parts.append({**same, "bucket": some, "time": time[some], "rows": begun})
    names = ("lane", "reason", "bucket", "time", "rows")
    entries = {name: np.concatenate([np.zeros(0, np.int64), *(part[name] for part in parts)]) for name in names}
    return shift, {"zoom": entries, "zoom_critical": _critical(recording, shift, count)}


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
