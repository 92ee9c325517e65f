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
_STEPS: Final = 300  # of the critical path of a longer run
_SUMS: Final = 10_000  # stretches in all lanes together
_LANES: Final = 64
_HALF: Final = 0.33  # of a lane's height
_THIN: Final = 0.22
_TEXTS: Final = ("what", "detail", "when", "waited", "where", "sure")

Columns = dict[str, list[Any]]
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Bars:
    """Columns of rectangles, x in the unit of the drawing, y in lanes: 0 is the critical path, the others follow.

    `work` has a kind, an opacity and texts; `waits` and, below stretches, `feet` a kind; `marks` underline what is on
    the critical path. `lanes` are the drawn ones, `note` says what is not drawn singly.
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
    single = len(recording) <= _ROWS
    limit = _ROWS if single else 256
    buckets = max(1, min(600, _SUMS // max(1, len(lanes))))
    build = _Building(recording, told, per_unit)
    build.path(buckets)
    for place, number in enumerate(lanes, start=1):
        found = recording.window(number, 0, recording.makespan, limit=limit, buckets=buckets)
        build.rows(place, found) if isinstance(found, LaneRows) else build.sums(place, found)
    return Bars(build.work, build.waits, build.feet, build.marks, tuple(lanes), build.note(lanes))


class _Building:
    def __init__(self, recording: Recording, told: Digest, per_unit: int) -> None:
        self.recording = recording
        self.told = told
        self.per_unit = per_unit
        self.work: Columns = {name: [] for name in ("left", "right", "top", "bottom", "kind", "alpha", *_TEXTS)}
        self.waits: Columns = {name: [] for name in ("left", "right", "top", "bottom", "kind")}
        self.feet: Columns = {name: [] for name in self.waits}
        self.marks: Columns = {name: [] for name in ("left", "right", "top", "bottom")}
        self.kinds = [of_lane(lane) for lane in recording.lanes]
        self.reasons = [of_reason(name) for name in recording.stalls]
        self.names = recording.texts("ops", "name")
        self.details = recording.texts("ops", "detail")
        self.files = [PurePath(path).name for path in recording.texts("sources", "path")]
        self.critical = set(told.path.row.tolist()) if len(recording) <= _ROWS else set()
        self.width = 0  # of a stretch, in picoseconds

    def _add(self, to: Columns, left: int, right: int, place: float, half: float, **more: Any) -> None:
        values = {
            "left": left / self.per_unit, "right": right / self.per_unit, "top": place - half, "bottom": place + half,
        }  # fmt: skip
        for name in to:
            to[name].append(values[name] if name in values else more.get(name, ""))

    def _wait(self, left: int, right: int, place: int, stall: int, other: str = "") -> None:
        """A wait for `stall`; `other` is the kind of the lane that ended it."""
        if right > left and stall:
            kind = other if other and self.recording.stalls[stall] in FROM_OTHERS else self.reasons[stall]
            self._add(self.waits, left, right, place, 0.17, kind=kind)

    def path(self, buckets: int) -> None:
        """The critical path: its work in the colours of the lanes, in stretches where it has many steps."""
        path = self.told.path
        start = path.begin + path.rest + path.setup
        length = path.work + path.held_for
        if len(path.row) <= (_ROWS if len(self.recording) <= _ROWS else _STEPS):
            steps = (path.row, path.begin, path.rest, path.setup, length, path.stall, path.setup_stall, path.lane)
            before = -1
            for row, begin, rest, setup, long, stall, setup_stall, lane in zip(
                *(item.tolist() for item in steps), strict=True
            ):
                other = self.kinds[before] if before >= 0 else ""
                self._wait(begin, begin + rest, 0, stall, other)
                self._wait(begin + rest, begin + rest + setup, 0, setup_stall)
                left, before = begin + rest + setup, lane
                if long:
                    self._add(self.work, left, left + long, 0, _THIN, kind=self.kinds[lane], alpha=1.0,
                              **self._texts(row))  # fmt: skip
            return
        kind = np.array([KINDS.index(kind) for kind in self.kinds], np.int64)[path.lane]
        edges = np.linspace(0, self.recording.makespan, buckets + 1).astype(np.int64)
        share = np.stack([_within(start[kind == n], length[kind == n], edges) for n in range(len(KINDS))])
        most = share.argmax(axis=0)
        for place in np.flatnonzero(share.max(axis=0) > 0).tolist():
            left, right = int(edges[place]), int(edges[place + 1])
            total = int(share[:, place].sum())
            alpha = 0.35 + 0.65 * min(1.0, total / max(1, right - left))
            what = f"critical path, mostly {words.ENGINES.get(KINDS[most[place]], KINDS[most[place]])}"
            self._add(self.work, left, right, 0, _THIN, kind=KINDS[most[place]], alpha=alpha, what=what,
                      when=self._when(left, right - left))  # fmt: skip

    def rows(self, place: int, found: LaneRows) -> None:
        """A lane row by row: the work, what it waited for before, and whether it is critical."""
        kind, rows = self.kinds[found.lane], self.recording.rows
        columns = (found.row, found.start, found.duration, found.wait, found.setup, found.stall, found.setup_stall)
        for row, start, duration, wait, setup, stall, setup_stall in zip(
            *(item.tolist() for item in columns), strict=True
        ):
            after = int(rows["after"][row])
            other = self.kinds[int(rows["lane"][after])] if after >= 0 else ""
            self._wait(start - wait, start - setup, place, stall, other)
            self._wait(start - setup, start, place, setup_stall)
            if duration:
                self._add(self.work, start, start + duration, place, _HALF, kind=kind, alpha=1.0, **self._texts(row))
            if row in self.critical:
                self._add(self.marks, start, start + duration, place + _HALF + 0.06, 0.035)

    def sums(self, place: int, found: LaneBuckets) -> None:
        """A lane in stretches: opacity is the busy share, the length of a foot the waiting share, its colour the cause."""
        kind, names = self.kinds[found.lane], self.recording.stalls
        self.width = max(self.width, int(found.edges[1] - found.edges[0]))
        end = self.recording.makespan
        columns = (found.edges[:-1], found.edges[1:], found.busy, found.waiting, found.count, found.stall)
        for left, right, busy, waiting, count, stall in zip(*(item.tolist() for item in columns), strict=True):
            right = min(right, end)
            long = max(1, right - left)
            if waiting:
                share = min(1.0, waiting / long)
                self._add(self.feet, left, left + round(share * long), place + _HALF + 0.06, 0.05,
                          kind=self.reasons[stall])  # fmt: skip
            if busy:
                waited = (
                    f"waits {words.share(waiting / long)}, mostly for {words.reason(names[stall])}" if stall else ""
                )
                self._add(
                    self.work, left, right, place - 0.05, _HALF - 0.03, kind=kind, alpha=0.15 + 0.85 * min(1.0, busy / long),
                    what=f"{words.number(count)} instructions", detail=f"busy {words.share(busy / long)}",
                    when=self._when(left, right - left), waited=waited,
                )  # fmt: skip

    def _when(self, start: int, length: int) -> str:
        return f"{words.duration(length)} at {words.duration(start)}"

    def _texts(self, number: int) -> dict[str, str]:
        row = self.recording.row(number)
        waited = ""
        if row.wait:
            cause = row.stall if row.wait > row.setup and row.stall != "none" else row.setup_stall
            waited = f"waited {words.duration(row.wait)}, for {words.reason(cause)}"
        place = f"{PurePath(row.file).name}:{row.line}" if row.line else ""
        return {
            "what": row.name, "detail": row.detail, "when": self._when(row.start, row.duration), "waited": waited,
            "where": place, "sure": f"cost: {row.confidence}",
        }  # fmt: skip

    def note(self, lanes: Sequence[int]) -> str:
        """What is not drawn singly, or not at all."""
        parts = []
        if self.width:
            parts.append(
                f"{words.number(len(self.recording))} instructions, drawn in stretches of {words.duration(self.width)}: "
                "opacity is the busy share, the line below the waiting share"
            )
        hidden = sum(1 for lane in self.told.lanes if lane.rows) - sum(
            1 for number in lanes if self.told.lanes[number].rows
        )
        if hidden:
            parts.append(f"{hidden} more lanes are not drawn")
        return ". ".join(parts)


def _within(start: Array, length: Array, edges: Array) -> Array:
    """How much of disjoint intervals, in order of time, lies between neighbouring edges."""
    if not len(start):
        return np.zeros(len(edges) - 1, np.int64)
    before = np.concatenate(([0], np.cumsum(length)))
    place = np.searchsorted(start, edges, "right") - 1
    inside = np.clip(edges - start[place], 0, length[place])
    covered = np.where(place < 0, 0, before[np.maximum(place, 0)] + inside)
    return np.diff(covered)
