"""Invariants between the tables of a recording."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nki_lab.kernel_runtime.recording import schema
from nki_lab.kernel_runtime.recording.columns import Array, Columns, pieces, whole

LAST_PICOSECOND = 1 << 62
"""Times stay below it, so that sums of two fit: 53 days."""


def check_ranges(tables: Mapping[str, Columns]) -> None:
    """ValueError where a value names a row that is not there. Cheap also on disk: reads limits, not values."""
    for table in tables.values():
        for column in table.spec.columns:
            if not column.is_text and len(table):
                _check_range(tables, table, column)
    rows = tables["rows"]
    if len(rows):
        for name in ("start", "duration", "ready"):
            low, high = rows.limits(name)
            if low < 0 or high >= LAST_PICOSECOND:
                raise ValueError(f"rows.{name}: {low if low < 0 else high} ps is no time in a run")
        if (last := rows.limits("access")[1]) > len(tables["accesses"]):
            raise ValueError(f"rows.access: {last} is beyond the {len(tables['accesses'])} accesses")


def _check_range(tables: Mapping[str, Columns], table: Columns, column: schema.Column) -> None:
    if column.choices:
        end, meaning = len(column.choices), f"has the choices {', '.join(column.choices)}"
    elif column.to:
        end, meaning = len(tables[column.to]), f"numbers the rows of {column.to}"
    else:
        return
    low, high = table.limits(column.name)
    if low < (-1 if column.optional else 0) or high >= end:
        bad = high if high >= end else low
        raise ValueError(f"{table.spec.name}.{column.name}: {bad}; it {meaning}, of which there are {end}")


def check_order(tables: Mapping[str, Columns]) -> None:
    """ValueError where a table in memory is not in the order, or a row not in the form, that the schema promises."""
    rows, edges, patterns, iterations = (tables[name] for name in ("rows", "edges", "patterns", "iterations"))
    start, after = whole(rows["start"]), whole(rows["after"])
    if len(rows) and int(rows["access"][0]):
        raise ValueError(f"rows.access: the first row's first access is {int(rows['access'][0])}, expected 0")
    if not len(tables["stalls"]):
        raise ValueError("stalls: the first is no wait at all, and is missing")
    ends = whole(patterns["dim"]).astype(np.int64) + whole(patterns["rank"])
    for fault, wrong in {
        "rows.ready is before start": whole(rows["ready"]) < start,
        "rows.setup without a setup_stall": (whole(rows["setup"]) > 0) & (whole(rows["setup_stall"]) == 0),
        "rows.after is the row itself": after == np.arange(len(rows)),
        "rows.after starts later than the row": (after >= 0) & (start[after] > start),
        "edges: a row waits for itself": whole(edges["row"]) == whole(edges["before"]),
        "patterns: dimensions beyond those of dims": ends > len(tables["dims"]),
        "iterations: an iteration within a later one": whole(iterations["parent"]) >= np.arange(len(iterations)),
    }.items():
        if wrong.any():
            raise ValueError(f"{fault}: row {int(np.argmax(wrong))}")
    ordered = {"rows": "access", "edges": "row", "lifetimes": "start", "usage": "time"}
    for name, column in ordered.items():
        array = whole(tables[name][column]) if name in tables else np.zeros(0)
        if len(falls := np.flatnonzero(array[1:] < array[:-1])):
            raise ValueError(f"{name}.{column} is not in order at {int(falls[0]) + 1}")


def check_lanes(rows: Columns, lane_rows: Array, gaps: Array) -> None:
    """ValueError where two rows of a lane overlap, or a setup reaches into the row before."""
    for low, high in pieces(len(gaps)):
        row = lane_rows[low:high]
        missing = rows["setup"][row] - gaps[low:high]
        if missing.size and int(missing.max()) > 0:
            place = int(missing.argmax())
            raise ValueError(
                f"row {int(row[place])} begins {int(missing[place])} ps too early: with its setup of"
                f" {int(rows['setup'][row[place]])} ps it overlaps the row before it on its lane"
            )
