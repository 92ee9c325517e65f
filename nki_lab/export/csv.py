"""A recording as a table for a spreadsheet: one line a row, in order of time."""

from __future__ import annotations

import csv
import io
import os
from typing import Final

import numpy as np

from nki_lab.export.files import replacing
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import pieces
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES

HEADER: Final = (
    "step", "row", "core", "lane", "instruction", "detail", "start_ns", "duration_ns", "ready_ns", "wait_ns",
    "waited_for", "setup_ns", "setup_for", "work", "bytes", "confidence", "critical", "file", "line", "iteration",
)  # fmt: skip
"""The columns. Times are nanoseconds, exact to the picosecond; `critical` is 1 on the critical path."""

_COLUMNS: Final = (
    "lane", "op", "start", "duration", "ready", "setup", "stall", "setup_stall", "work", "bytes", "confidence", "site",
    "iteration",
)  # fmt: skip
_LINES: Final = 8192


def write(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write the rows as comma-separated values, in UTF-8. Raises NKI021 if the file cannot be written."""
    rows, waits = recording.rows, recording.waits()
    critical = np.zeros(len(recording), bool)
    critical[recording.critical_path[:]] = True
    names, details = recording.texts("ops", "name"), recording.texts("ops", "detail")
    places = _places(recording)
    with replacing(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8", newline="")
        out = csv.writer(text)
        out.writerow(HEADER)
        for low, high in pieces(len(recording), _LINES):
            order = recording.order[low:high]
            columns = [rows[name][order].tolist() for name in _COLUMNS]
            more = (range(low, high), order.tolist(), waits[order].tolist(), critical[order].tolist())
            for step, row, wait, marked, *fields in zip(*more, *columns, strict=True):
                lane, op, start, duration, ready, setup, stall, prepared, work, moved, sure, site, loop = fields
                passes = ", ".join(f"{name}={value}" for name, value in recording.iteration(row)) if loop >= 0 else ""
                where = recording.lanes[lane]
                line = (
                    step, row, where.core, where.name, names[op], details[op], _ns(start), _ns(duration), _ns(ready),
                    _ns(wait), recording.stalls[stall], _ns(setup), recording.stalls[prepared], work, moved,
                    CONFIDENCES[sure], int(marked), *places[site], passes,
                )  # fmt: skip
                out.writerow(line)
        text.detach()  # which writes out what is left


def _ns(picoseconds: int) -> str:
    return f"{picoseconds // 1000}.{picoseconds % 1000:03}"


def _places(recording: Recording) -> list[tuple[str, int | str]]:
    """File and line of each site, and of the site -1 at the end."""
    sites, paths = recording.table("sites"), recording.table("sources").texts("path")
    pairs = zip(sites["source"][:].tolist(), sites["line"][:].tolist(), strict=True)
    return [*((paths[source], line) for source, line in pairs), ("", "")]
