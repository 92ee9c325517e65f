"""A comparison as a message to the views, which draw it and compare nothing themselves.

Tables: `partners` has for each step of the earlier run the step of the later one that is the same instruction, -1 for
none. `iterations` and `stretches` are stretches of both runs that belong together, in picoseconds; an iteration has the
number of its `loop` in the header's `loops`, its `value`, and the `level` of that loop; a stretch of the critical path
has the number of its `line` in the header's `lines`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from nki_lab.comparison.amounts import Amount
from nki_lab.comparison.compared import Compared, LineDifference, Side
from nki_lab.comparison.places import Place
from nki_lab.comparison.stretches import Stretches, iterations_of, lines_of
from nki_lab.export.comparison.sentence import headline, notes, side_name
from nki_lab.export.comparison.tables import MEMORY_LABELS
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.vocabulary import KINDS, reason
from nki_lab.wire.header_types import Change, ComparisonHeader, PlaceChange
from nki_lab.wire.message import Delta, message
from nki_lab.wire.rows import Steps

MOST_LINES: Final = 400
"""Lines, and edits, that a message carries: those that differ most."""


class Sides(NamedTuple):
    """The two recordings that are compared."""

    before: Recording
    after: Recording


def encode(found: Compared, sides: Sides) -> bytes:
    """Return the message of a comparison of two recordings."""
    lines = found.lines[:MOST_LINES]
    iterations = iterations_of(*sides, found.rows)
    stretches = lines_of(*sides, found.rows, tuple(item.place for item in lines))
    table = sides.before.table("iterations")
    loop = whole(table["loop"])[iterations.key]
    names, numbers = np.unique(loop, return_inverse=True)
    head: ComparisonHeader = {
        "sentence": headline(found),
        "notes": notes(found),
        "labels": labels(found),
        "sides": [side_name(found.before), side_name(found.after)],
        "same_kernel": found.same_kernel,
        "latency": _change(found.latency, "latency"),
        "work": [_change(item, KINDS.get(item.name, item.name)) for item in found.work],
        "waits": [_change(item.critical, reason(item.name), item.name) for item in found.stalls],
        "engines": [
            {"busy": _change(item.busy, KINDS[item.kind], item.kind),
             "waiting": _change(item.waiting, KINDS[item.kind], item.kind)}
            for item in found.engines
        ],
        "stalls": [_change(item.lanes, reason(item.name), item.name) for item in found.stalls],
        "memory": [_change(item, MEMORY_LABELS[item.name]) for item in found.memory],
        "lines": [_line(item) for item in lines],
        "edits": [_place(place) for place in found.edits[:MOST_LINES]],
        "paired": len(found.rows.before),
        "only_before": len(found.rows.only_before),
        "only_after": len(found.rows.only_after),
        "loops": [sides.before.names[number] for number in names],
    }  # fmt: skip
    return message(
        head,
        {
            "partners": {"after": _partners(found, sides)},
            "iterations": {
                "level": iterations.level,
                "loop": numbers.reshape(-1),
                "value": whole(table["value"])[iterations.key],
                **_times(iterations),
            },
            "stretches": {"line": stretches.key, **_times(stretches)},
        },
    )


def labels(found: Compared) -> list[str]:
    """Return what tells the two runs apart: kernel, target, ranks, cores or the device, else "before" and "after"."""
    sides = found.before, found.after
    parts: list[list[str]] = [[], []]
    for texts in (
        [side.kernel for side in sides],
        [side.target for side in sides],
        _extents(sides),
        ["measured" if side.measured else "predicted" for side in sides],
    ):
        if texts[0] != texts[1]:
            for part, text in zip(parts, texts, strict=True):
                part.extend([text] if text else [])
    return [", ".join(part) or default for part, default in zip(parts, ("before", "after"), strict=True)]


def _extents(sides: tuple[Side, Side]) -> list[str]:
    """Return of how many ranks the runs are; of how many cores where it is one each."""
    if any(side.ranks > 1 for side in sides):
        return [f"{side.ranks} rank{'s' * (side.ranks != 1)}" for side in sides]
    return [f"{side.cores} core{'s' * (side.cores != 1)}" for side in sides]


def _partners(found: Compared, sides: Sides) -> Delta:
    steps, later = (Steps(recording).step_of for recording in sides)
    out = np.full(len(sides.before), -1, np.int64)
    out[steps[found.rows.before]] = later[found.rows.after]
    return Delta(out)


def _times(stretches: Stretches) -> dict[str, Array]:
    return {
        "begin": stretches.before[0],
        "end": stretches.before[1],
        "other_begin": stretches.after[0],
        "other_end": stretches.after[1],
    }


def _change(amount: Amount, label: str, name: str = "") -> Change:
    known: Change = {
        "name": name or amount.name,
        "label": label,
        "unit": amount.unit,
        "before": amount.before,
        "after": amount.after,
    }
    return known if amount.within_error is None else {**known, "within_error": amount.within_error}


def _line(item: LineDifference) -> PlaceChange:
    return {**_place(item.place), "critical": _change(item.critical, ""), "rows": _change(item.rows, "")}


def _place(place: Place | None) -> PlaceChange:
    if place is None:
        place = Place(file="", line=0, text="", other_file="", other_line=0, other_text="", state="same")
    return {
        "file": place.file,
        "line": place.line,
        "text": place.text,
        "other_file": place.other_file,
        "other_line": place.other_line,
        "other_text": place.other_text,
        "state": place.state,
    }
