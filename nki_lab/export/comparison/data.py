"""A comparison as plain data: what JSON says of it, and the columns of its tables."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nki_lab.comparison.amounts import Amount
from nki_lab.comparison.compared import Compared, LineDifference, Side, durations
from nki_lab.comparison.places import Place
from nki_lab.export.comparison.sentence import headline, notes
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole

TABLES: Final = ("lines", "engines", "stalls", "memory", "edits", "instructions")
"""The tables that have columns."""

_PICOSECONDS: Final = 1000  # in a nanosecond

Data = dict[str, Any]


def as_data(found: Compared) -> Data:
    """Return the comparison as JSON can say it; times in nanoseconds."""
    return {
        "sentence": headline(found),
        "notes": notes(found),
        "same_kernel": found.same_kernel,
        "before": _side(found.before),
        "after": _side(found.after),
        "latency": _amount(found.latency),
        "instructions": {
            "paired": len(found.rows.before),
            "only_before": len(found.rows.only_before),
            "only_after": len(found.rows.only_after),
        },
        "engines": [
            {
                "engine": item.kind,
                "busy": _amount(item.busy),
                "waiting": _amount(item.waiting),
                "utilisation": _amount(item.utilisation),
            }
            for item in found.engines
        ],
        "critical_path": {
            "work": [{"engine": item.name, **_amount(item)} for item in found.work],
            "waits": [{"reason": item.name, **_amount(item.critical)} for item in found.stalls],
        },
        "stalls": [{"reason": item.name, **_amount(item.lanes)} for item in found.stalls],
        "lines": [_line(item) for item in found.lines],
        "memory": [{"name": item.name, **_amount(item)} for item in found.memory],
        "edits": [_place(item) for item in found.edits],
    }


def _side(side: Side) -> Data:
    return {
        "kernel": side.kernel,
        "target": side.target,
        "ranks": side.ranks,
        "cores": side.cores,
        "instructions": side.instructions,
        "makespan_ns": side.time / _PICOSECONDS,
        "makespan_interval_ns": None if side.interval is None else [bound / _PICOSECONDS for bound in side.interval],
        "measured": side.measured,
        "stopped": side.stopped,
        "options": dict(side.options),
    }


def _amount(amount: Amount) -> Data:
    values = [amount.before, amount.after, amount.change]
    if amount.unit == "ps":
        values = [None if value is None else value / _PICOSECONDS for value in values]
    unit = "ns" if amount.unit == "ps" else amount.unit
    known = {"unit": unit, **dict(zip(("before", "after", "change"), values, strict=True))}
    return known if amount.within_error is None else {**known, "within_error": amount.within_error}


def _place(place: Place | None) -> Data:
    if place is None:
        return {"state": "no line"}
    return {
        "state": place.state,
        "file_before": place.file,
        "line_before": place.line or None,
        "text_before": place.text,
        "file_after": place.other_file,
        "line_after": place.other_line or None,
        "text_after": place.other_text,
    }


def _line(item: LineDifference) -> Data:
    return {
        **_place(item.place),
        "rows": _amount(item.rows),
        "busy": _amount(item.busy),
        "critical": _amount(item.critical),
        "share": _amount(item.share),
        "work_change_ns": item.work / _PICOSECONDS,
        "waits_change_ns": {name: change / _PICOSECONDS for name, change in item.waits.items()},
    }


def columns(found: Compared, name: str, before: Recording, after: Recording) -> dict[str, Any]:
    """Return a table of `TABLES` as columns; times in nanoseconds."""
    match name:
        case "lines":
            rows = [
                {
                    **_place(item.place),
                    **_flat("rows", item.rows),
                    **_flat("busy_ns", item.busy),
                    **_flat("critical_ns", item.critical),
                    **_flat("share", item.share),
                    "within_error": item.critical.within_error,
                }
                for item in found.lines
            ]
        case "engines":
            rows = [
                {
                    "engine": item.kind,
                    **_flat("busy_ns", item.busy),
                    **_flat("waiting_ns", item.waiting),
                    **_flat("utilisation", item.utilisation),
                    "within_error": item.busy.within_error,
                }
                for item in found.engines
            ]
        case "stalls":
            rows = [
                {
                    "reason": item.name,
                    **_flat("critical_ns", item.critical),
                    **_flat("lanes_ns", item.lanes),
                    "within_error": item.critical.within_error,
                }
                for item in found.stalls
            ]
        case "memory":
            rows = [{"name": item.name, "unit": item.unit, **_flat("", item)} for item in found.memory]
        case "edits":
            rows = [_place(item) for item in found.edits]
        case _:
            return _instructions(found, before, after)
    return {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}


def _flat(name: str, amount: Amount) -> Data:
    divided = _PICOSECONDS if amount.unit == "ps" else 1
    values = {"before": amount.before, "after": amount.after, "change": amount.change}
    return {
        f"{name}_{key}" if name else key: None if value is None else value / divided for key, value in values.items()
    }


def _instructions(found: Compared, before: Recording, after: Recording) -> dict[str, Any]:
    """Return the pairs of instructions: rows, names, begins and durations of both."""
    pairs = found.rows
    spent, later_spent = durations(before, after, pairs)
    names = [
        np.array(run.texts("ops", "name"), object)[whole(run.rows["op"])[rows]]
        for run, rows in ((before, pairs.before), (after, pairs.after))
    ]
    begins = [whole(run.rows["start"])[rows] for run, rows in ((before, pairs.before), (after, pairs.after))]
    return {
        "row_before": pairs.before,
        "row_after": pairs.after,
        "instruction_before": names[0],
        "instruction_after": names[1],
        "start_ns_before": begins[0] / _PICOSECONDS,
        "start_ns_after": begins[1] / _PICOSECONDS,
        "duration_ns_before": spent / _PICOSECONDS,
        "duration_ns_after": later_spent / _PICOSECONDS,
        "duration_ns_change": (later_spent.astype(np.int64) - spent.astype(np.int64)) / _PICOSECONDS,
    }
