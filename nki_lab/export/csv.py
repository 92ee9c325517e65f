"""Write a recording as tables for a spreadsheet: instructions in order of time, lanes, and lines of source."""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from nki_lab.export.files import replacing_folder
from nki_lab.export.findings import source_lines
from nki_lab.file_system import whole_file
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import pieces, whole
from nki_lab.kernel_runtime.recording.digest import LaneTime, digest
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES, ORIGINS
from nki_lab.wire.rows import Steps

INSTRUCTIONS: Final = (
    "step", "row", "rank", "core", "lane", "instruction", "detail", "start_ns", "duration_ns", "ready_ns", "wait_ns",
    "waited_for", "setup_ns", "setup_for", "work", "bytes", "confidence", "critical", "file", "line", "iteration",
    "origin",
)  # fmt: skip
LANES: Final = ("rank", "core", "lane", "rows", "busy_ns", "slowed_ns", "critical_ns", "empty_ns")
LINES: Final = ("file", "line", "function", "rows", "busy_ns", "critical_ns", "work_ns")
"""The columns. Cores are counted over all ranks. Times are nanoseconds, exact to the picosecond. `critical` is 1 on the
critical path, `critical_ns` the time on it. `origin` is what the compiler model did with an instruction: one that is
`left out` is not executed, and is none of the `rows` of lanes and lines. Tables of lanes and of lines have a column
more for each reason to wait: of a line, on the critical path."""

_COLUMNS: Final = (
    "lane", "op", "start", "duration", "ready", "setup", "stall", "setup_stall", "work", "bytes", "confidence", "site",
    "iteration",
)  # fmt: skip
_AT_ONCE: Final = 8192


def write(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write `instructions.csv`, `lanes.csv` and `lines.csv`, in UTF-8, into the folder `path`.

    They replace earlier ones. Raises NKI021 if they cannot be written, as into a folder that holds other files.
    """
    found = digest(recording)
    ranks = [lane.rank for lane in recording.lanes]
    lanes = (
        ((ranks[lane.number], lane.core, lane.name, lane.rows, *_lane_times(lane)), lane.waits) for lane in found.lanes
    )
    lines = (
        (
            (line.file, line.line, line.function, line.rows, _ns(line.busy), _ns(line.critical), _ns(line.work)),
            line.waits,
        )
        for line in found.lines
    )
    tables = {
        "instructions": (INSTRUCTIONS, _instructions(recording)),
        "lanes": _with_waits(LANES, lanes),
        "lines": _with_waits(LINES, lines),
    }
    with replacing_folder(path, [f"{name}.csv" for name in tables]) as folder:
        for name, (header, rows) in tables.items():
            with whole_file(folder / f"{name}.csv") as stream:
                out = csv.writer(codecs.getwriter("utf-8")(stream))
                out.writerow(header)
                out.writerows(rows)


def _with_waits(
    header: Sequence[str], rows: Iterable[tuple[tuple[object, ...], Mapping[str, int]]]
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Add a column for each reason to wait that occurs."""
    known = list(rows)
    reasons = sorted({reason for _, waits in known for reason in waits})
    table = [(*fields, *(_ns(waits.get(reason, 0)) for reason in reasons)) for fields, waits in known]
    return (*header, *(f"{reason}_ns" for reason in reasons)), table


def _lane_times(lane: LaneTime) -> Iterator[str]:
    return map(_ns, (lane.busy, sum(lane.slowed.values()), lane.critical, lane.empty))


def _instructions(recording: Recording) -> Iterator[tuple[object, ...]]:
    """Give the lines of the table of instructions, in the order of `INSTRUCTIONS`."""
    rows, steps = recording.rows, Steps(recording)
    names, details = recording.texts("ops", "name"), recording.texts("ops", "detail")
    places = [*source_lines(recording), ("", "")]  # the last one is that of the site -1
    changes, origins = recording.table("changes"), np.zeros(len(recording), np.uint8)
    origins[whole(changes["row"])] = whole(changes["origin"])
    for low, high in pieces(len(recording), _AT_ONCE):
        order = recording.order[low:high]
        columns = [rows[name][order].tolist() for name in _COLUMNS]
        more = (range(low, high), order.tolist(), steps.waits[order].tolist(), steps.critical[order].tolist())
        for step, row, wait, marked, *fields in zip(*more, *columns, strict=True):
            lane, op, start, duration, ready, setup, stall, prepared, work, moved, sure, site, loop = fields
            iteration = ", ".join(f"{name}={value}" for name, value in recording.iteration(row)) if loop >= 0 else ""
            where = recording.lanes[lane]
            yield (
                step,
                row,
                where.rank,
                where.core,
                where.name,
                names[op],
                details[op],
                _ns(start),
                _ns(duration),
                _ns(ready),
                _ns(wait),
                recording.stalls[stall],
                _ns(setup),
                recording.stalls[prepared],
                work,
                moved,
                CONFIDENCES[sure],
                marked,
                *places[site],
                iteration,
                ORIGINS[origins[row]],
            )


def _ns(picoseconds: int) -> str:
    return f"{picoseconds // 1000}.{picoseconds % 1000:03}"
