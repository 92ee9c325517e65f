"""What a timeline draws of a recording: a bar for each row, or sums per stretch of time where rows are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import numpy as np

from nki_lab.export import words
from nki_lab.export.html.colours import FROM_OTHERS, KINDS, of_lane, of_reason
from nki_lab.kernel_runtime.recording import LaneBuckets, LaneRows, Recording
from nki_lab.kernel_runtime.recording.digest import Digest

_ROWS: Final = 3000  # drawn one by one
_SOME: Final = 300  # the same of a lane, or of the critical path, of a longer run
_SUMS: Final = 8_000  # stretches in all lanes together
_BUCKETS: Final = 600
_LANES: Final = 64
# Halves of heights, in lanes.
_WORK: Final = 0.33
_PATH: Final = 0.22
_WAIT: Final = 0.17
_FOOT: Final = 0.05

NUMBERS: Final = ("left", "right", "top", "bottom", "alpha")
"""Columns of numbers; the others are texts."""

Columns = dict[str, list[Any]]
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Bars:
    """Columns of rectangles, x in the unit of the drawing, y in lanes: 0 is the critical path, the others follow.

    `work` has a kind, an opacity and texts; `waits` a kind, and `feet` below stretches an opacity too; `marks`
    underline what is on the critical path. `lanes` are the drawn ones, `note` says what is not drawn singly.
    """

    work: Columns
    waits: Columns
    feet: Columns
    marks: Columns
    lanes: tuple[int, ...]
    note: str


def of_recording(recording: Recording, told: Digest, per_unit: int) -> Bars:
    """The bars of a whole run, times divided by `per_unit`."""
    lanes = [lane.number for lane in told.lanes if lane.rows or lane.kind == "engine"][:_LANES]
    limit = _ROWS if len(recording) <= _ROWS else _SOME
    buckets = max(1, min(_BUCKETS, _SUMS // max(1, len(lanes))))
    build = _Building(recording, told, per_unit)
    if len(told.path.row) <= limit:
        build.path()
    else:
        build.path_sums(buckets)
    for place, number in enumerate(lanes, start=1):
        found = recording.window(number, 0, recording.makespan, limit=limit, buckets=buckets)
        if isinstance(found, LaneRows):
            build.rows(place, found)
        else:
            build.sums(place, found)
    return Bars(build.work, build.waits, build.feet, build.marks, tuple(lanes), build.note(lanes))


class _Building:
    def __init__(self, recording: Recording, told: Digest, per_unit: int) -> None:
        self.recording = recording
        self.told = told
        self.per_unit = per_unit
        place = ("left", "right", "top", "bottom")
        self.work: Columns = {name: [] for name in (*place, "kind", "alpha", "what", "told")}
        self.waits: Columns = {name: [] for name in (*place, "kind")}
        self.feet: Columns = {name: [] for name in (*place, "kind", "alpha")}
        self.marks: Columns = {name: [] for name in place}
        self.kinds = [of_lane(lane) for lane in recording.lanes]
        self.reasons = [of_reason(name) for name in recording.stalls]
        self.critical = set(told.path.row.tolist()) if len(recording) <= _ROWS else set()
        self.width = 0  # of a stretch, in picoseconds

    def _add(self, to: Columns, left: int, right: int, middle: float, half: float, **more: Any) -> None:
        to["left"].append(left / self.per_unit)
        to["right"].append(right / self.per_unit)
        to["top"].append(middle - half)
        to["bottom"].append(middle + half)
        for name, value in more.items():
            to[name].append(value)

    def _wait(self, left: int, right: int, place: int, stall: int, other: str = "") -> None:
        """A wait for `stall`; `other` is the kind of the lane that ended it."""
        if right > left and stall:
            kind = other if other and self.recording.stalls[stall] in FROM_OTHERS else self.reasons[stall]
            self._add(self.waits, left, right, place, _WAIT, kind=kind)

    def path(self) -> None:
        """The critical path step by step: work in the colours of the lanes, waits in those of their causes."""
        path = self.told.path
        columns = (path.row, path.begin, path.rest, path.setup, path.work + path.held_for, path.stall,
                   path.setup_stall, path.lane)  # fmt: skip
        before = ""
        for row, begin, rest, setup, long, stall, setup_stall, lane in zip(
            *map(np.ndarray.tolist, columns), strict=True
        ):
            start = begin + rest + setup
            self._wait(begin, begin + rest, 0, stall, before)
            self._wait(begin + rest, start, 0, setup_stall)
            before = self.kinds[lane]
            if long:
                self._add(self.work, start, start + long, 0, _PATH, kind=before, alpha=1.0, **self._texts(row))

    def path_sums(self, buckets: int) -> None:
        """The critical path in stretches, each in the colour of the lane that works most of it."""
        path = self.told.path
        start, length = path.begin + path.rest + path.setup, path.work + path.held_for
        kind = np.array([KINDS.index(kind) for kind in self.kinds], np.int64)[path.lane]
        edges = np.linspace(0, self.recording.makespan, buckets + 1).astype(np.int64)
        spent = np.stack([_within(start[kind == n], length[kind == n], edges) for n in range(len(KINDS))])
        most = spent.argmax(axis=0)
        for bucket in np.flatnonzero(spent.sum(axis=0)).tolist():
            left, right = int(edges[bucket]), int(edges[bucket + 1])
            busy, name = int(spent[:, bucket].sum()) / (right - left), KINDS[most[bucket]]
            told = f"{_when(left, right - left)}\nwork {words.share(busy)}, mostly {words.ENGINES.get(name, name)}"
            self._add(
                self.work, left, right, 0, _PATH, kind=name, alpha=_opacity(busy), what="critical path", told=told
            )

    def rows(self, place: int, found: LaneRows) -> None:
        """A lane row by row: the work, what it waited for before, and whether it is critical."""
        kind, rows = self.kinds[found.lane], self.recording.rows
        columns = (found.row, found.start, found.duration, found.wait, found.setup, found.stall, found.setup_stall)
        for row, start, duration, wait, setup, stall, setup_stall in zip(*map(np.ndarray.tolist, columns), strict=True):
            after = int(rows["after"][row])
            other = self.kinds[int(rows["lane"][after])] if after >= 0 else ""
            self._wait(start - wait, start - setup, place, stall, other)
            self._wait(start - setup, start, place, setup_stall)
            if duration:
                self._add(self.work, start, start + duration, place, _WORK, kind=kind, alpha=1.0, **self._texts(row))
            if row in self.critical:
                self._add(self.marks, start, start + duration, place + _WORK + 0.06, 0.035)

    def sums(self, place: int, found: LaneBuckets) -> None:
        """A lane in stretches: opacity is the busy share, that of a foot the waiting share, in its cause's colour."""
        kind, names, end = self.kinds[found.lane], self.recording.stalls, self.recording.makespan
        self.width = max(self.width, int(found.edges[1] - found.edges[0]))
        columns = (
            found.edges[:-1],
            np.minimum(found.edges[1:], end),
            found.busy,
            found.waiting,
            found.count,
            found.stall,
        )
        for left, right, busy, waiting, count, stall in zip(*map(np.ndarray.tolist, columns), strict=True):
            long = max(1, right - left)
            told = [_when(left, right - left), f"busy {words.share(busy / long)}"]
            if waiting:
                self._add(self.feet, left, right, place + _WORK + 0.06, _FOOT, kind=self.reasons[stall],
                          alpha=_opacity(waiting / long))  # fmt: skip
                told.append(f"waits {words.share(waiting / long)}, mostly for {words.reason(names[stall])}")
            if busy:
                what = f"{words.number(count)} instruction{'s' * (count != 1)} begin{'s' * (count == 1)}"
                self._add(self.work, left, right, place - _FOOT, _WORK - _FOOT, kind=kind, alpha=_opacity(busy / long),
                          what=what, told="\n".join(told))  # fmt: skip

    def _texts(self, number: int) -> dict[str, str]:
        row = self.recording.row(number)
        waited = ""
        if row.wait:
            cause = row.stall if row.wait > row.setup and row.stall != self.recording.stalls[0] else row.setup_stall
            waited = f"waited {words.duration(row.wait)} for {words.reason(cause)}"
        place = f"{PurePath(row.file).name}:{row.line}" if row.line else ""
        told = (_when(row.start, row.duration), waited, row.detail, place, f"cost {row.confidence}")
        return {"what": row.name, "told": "\n".join(filter(None, told))}

    def note(self, lanes: Sequence[int]) -> str:
        """What is not drawn singly, or not at all."""
        parts = []
        if self.width:
            parts.append(
                f"{words.number(len(self.recording))} instructions in stretches of {words.duration(self.width)}: "
                "opacity is the share of time at work, that of the line below the share of waiting"
            )
        used = {lane.number for lane in self.told.lanes if lane.rows}
        if hidden := len(used - set(lanes)):
            parts.append(f"{hidden} more lanes are not drawn")
        return ". ".join(parts)


def _when(start: int, length: int) -> str:
    return f"{words.duration(length)} at {words.duration(start)}"


def _opacity(share: float) -> float:
    """Of a stretch with this share of work, or of waiting."""
    return 0.15 + 0.85 * min(1.0, share)


def _within(start: Array, length: Array, edges: Array) -> Array:
    """How much of disjoint intervals, in order of time, lies between neighbouring edges."""
    if not len(start):
        return np.zeros(len(edges) - 1, np.int64)
    before = np.concatenate(([0], np.cumsum(length)))
    place = np.searchsorted(start, edges, "right") - 1
    inside = np.clip(edges - start[place], 0, length[place])
    return np.diff(np.where(place < 0, 0, before[np.maximum(place, 0)] + inside))
