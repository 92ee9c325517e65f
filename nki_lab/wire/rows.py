"""Rows in the order of steps, with their operands and what they wait for."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, Columns, search, whole
from nki_lab.kernel_runtime.recording.lifetimes import in_steps
from nki_lab.wire.message import Delta

_AS_THEY_ARE: Final = (
    "setup", "op", "site", "iteration", "work", "bytes", "lane", "pace", "stall", "setup_stall", "held", "confidence",
)  # fmt: skip

TABLES: Final = {
    "rows": (
        *_AS_THEY_ARE,
        "row",
        "start",
        "duration",
        "ready",
        "lead",
        "wait",
        "accesses",
        "edges",
        "after",
        "critical",
    ),
    "accesses": ("view", "role"),
    "edges": ("before", "kind"),
    "changes": ("place", "origin", "stands_for"),
}
"""The tables of a range of steps, with their columns."""

Tables = dict[str, dict[str, Array | Delta]]


class Steps:
    """The rows of a recording by step. What all ranges need is worked out once."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    @cached_property
    def order(self) -> Array:
        """The row of each step."""
        return whole(self.recording.order)

    @cached_property
    def step_of(self) -> Array:
        """The step of each row."""
        out = np.empty(len(self.order), np.int32)
        out[self.order] = np.arange(len(self.order), dtype=np.int32)
        return out

    @cached_property
    def lifetimes(self) -> dict[str, Array]:
        """Tells of each row of the table `lifetimes` what `in_steps` does."""
        return in_steps(self.recording.table, self.step_of)

    @cached_property
    def waits(self) -> Array:
        """The wait of each row, in picoseconds."""
        return self.recording.waits()

    @cached_property
    def lead(self) -> Array:
        """How long before the start of each row its descriptors begin to be made; 0: unknown, or there are none."""
        out = np.zeros(len(self.order), np.int64)
        made = self.recording.table("triggers")
        row = whole(made["row"])
        out[row] = (self.recording.rows["start"][row] - whole(made["start"])).clip(0)
        return out

    @cached_property
    def changes(self) -> dict[str, Array]:
        """The table `changes` in the order of steps: the rows that the compiler model changed."""
        table = self.recording.table("changes")
        step = self.step_of[whole(table["row"])]
        order = np.argsort(step, kind="stable")
        return {
            "step": step[order],
            "origin": whole(table["origin"])[order],
            "stands_for": whole(table["stands_for"])[order],
        }

    @cached_property
    def critical(self) -> Array:
        """The number 1 for each row on the critical path, 0 for others."""
        out = np.zeros(len(self.order), np.uint8)
        out[whole(self.recording.critical_path)] = 1
        return out

    @cached_property
    def _access(self) -> Array:
        """The first access of each row, and behind the last one how many there are."""
        return np.append(whole(self.recording.rows["access"]), len(self.recording.table("accesses")))

    @cached_property
    def _edge(self) -> Array:
        """The first edge of each row, and behind the last one how many there are."""
        counts = np.bincount(whole(self.recording.table("edges")["row"]).astype(np.int64), minlength=len(self.order))
        return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))

    def tables(self, first: int, count: int) -> Tables:
        """The tables `rows`, `accesses`, `edges` and `changes` of `count` steps from `first` on."""
        row = self.order[first : first + count]
        rows = self.recording.rows
        step = np.arange(first, first + len(row), dtype=np.int32)
        start = rows["start"][row]
        operands, places = gathered(self._access, row)
        waits, edges = gathered(self._edge, row)
        after = rows["after"][row]
        columns: dict[str, Array | Delta] = {name: rows[name][row] for name in _AS_THEY_ARE}
        columns |= {
            "row": Delta(row),
            "start": Delta(start),
            "duration": rows["duration"][row],
            "ready": rows["ready"][row] - start,  # how long after the start
            "lead": self.lead[row],
            "wait": self.waits[row],
            "accesses": operands,
            "edges": waits,
            "after": np.where(after < 0, 0, step - self.step_of[after]),  # how many steps before; 0: none
            "critical": self.critical[row],
        }
        changed = slice(*np.searchsorted(self.changes["step"], (first, first + len(row))))
        accesses, waited = self.recording.table("accesses"), self.recording.table("edges")
        return {
            "rows": columns,
            "accesses": {name: accesses[name][places] for name in TABLES["accesses"]},
            "edges": {
                # How many steps before; negative where equal starts stand the other way round.
                "before": np.repeat(step, waits) - self.step_of[waited["before"][edges]],
                "kind": waited["kind"][edges],
            },
            "changes": {
                "place": self.changes["step"][changed] - first,  # among the steps of the range
                "origin": self.changes["origin"][changed],
                "stands_for": self.changes["stands_for"][changed],
            },
        }

    def span(self, first: int, count: int) -> tuple[int, int]:
        """The picoseconds between which a range of steps shows all that happens: no row before or after it, nor the
        wait of one, reaches in there."""
        begin, until = 0, self.recording.makespan
        table = self.recording.table("lane_rows")
        start, duration, row = table["start"], table["duration"], table["row"]
        for lane in range(len(self.recording.lanes)):
            low, high = self.recording.lane_span(lane)
            # Of a lane's rows with one start, the steps need not be in the lane's order.
            time, place = self._place(table, low, high, first)
            if place > low:
                begin = max(begin, int(start[place - 1]) + int(duration[place - 1]))
            while place < high and int(start[place]) == time:
                if self.step_of[int(row[place])] < first:
                    begin = max(begin, time + int(duration[place]))
                place += 1
            time, place = self._place(table, low, high, first + count)
            while place < high and int(start[place]) == time and self.step_of[int(row[place])] < first + count:
                place += 1
            if place < high:
                until = min(until, int(start[place]) - int(table["wait"][place]))
        return begin, max(until, begin)

    def _place(self, lane_rows: Columns, low: int, high: int, step: int) -> tuple[int, int]:
        """The start of a step, and the place of a lane's first row that starts then or later."""
        if step >= len(self.order):
            return -1, high
        time = int(self.recording.rows["start"][int(self.order[step])])
        return time, search(lane_rows["start"], time, low, high, "left")


def gathered(bounds: Array, rows: Array) -> tuple[Array, Array]:
    """Return the number of entries of each row, and the places of all, row by row; row r begins at bounds[r]."""
    begin = bounds[rows].astype(np.int64)
    length = bounds[1:][rows] - begin
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return length, np.repeat(begin - ends + length, length) + np.arange(total)
