"""A recording as a page of text: where the time went, by lane, by reason, by instruction and by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, pieces

Numbering = Callable[[Array, Array], Array]
"""Gives a number to each row, from its op and its site."""

LINES: Final = 10
"""Stalls, instructions and lines that are listed, those with most time first."""


def report(recording: Recording, *, lines: int = LINES) -> str:
    """The recording's report.

    The critical path counts the time from each of its rows' release to its end; shares of it add up to the makespan.
    """
    critical = _critical(recording)
    parts = [_head(recording), _lanes(recording), _stalls(recording, lines)]
    parts += [_instructions(recording, critical, lines), _source(recording, critical, lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def time_text(picoseconds: int) -> str:
    """A time with its unit: three digits, or whole nanoseconds."""
    ns = picoseconds / 1000
    for limit, size, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if ns < limit:
            return f"{ns / size:.0f} {unit}" if unit == "ns" else f"{ns / size:.2f} {unit}"
    return f"{ns / 1e9:.2f} s"


def share_text(part: float, whole: float) -> str:
    """A percentage: whole ones from 10 on, one decimal below."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.0f} %" if percent >= 9.95 or percent == 0 else f"{percent:.1f} %"


def _head(recording: Recording) -> str:
    summary = recording.summary
    name, target = summary.get("kernel", "kernel"), summary.get("target")
    title = f"{name} on {target}" if target else str(name)
    out = [f"{title}: {time_text(recording.makespan)}, {len(recording)} instructions"]
    usage = recording.table("usage")
    if len(usage):
        peak = " and ".join(f"{usage.limits(column)[1]} in {column.upper()}" for column in ("sbuf", "psum"))
        out.append(f"most bytes per partition: {peak}")
    if isinstance(sure := summary.get("confidence"), dict) and sure:
        shares = (f"{share_text(share, 1)} {kind}" for kind, share in sure.items() if share)
        out.append(f"critical path by confidence of its costs: {', '.join(shares)}")
    return "\n".join(out)


def _lanes(recording: Recording) -> str:
    times, end = recording.lane_times, recording.makespan
    counts = recording.table("lane_spans")["rows"][:].tolist()
    cores = len({lane.core for lane in recording.lanes}) > 1
    lines = []
    for lane in recording.lanes:
        work, waiting = int(times[lane.number, 0]), times[lane.number].copy()
        waiting[0] = 0
        waited, most = int(waiting.sum()), int(waiting.argmax())
        idle = end - work - waited
        lines.append(
            (
                f"core {lane.core} {lane.name}" if cores else lane.name,
                str(counts[lane.number]),
                *(f"{time_text(t)}  {share_text(t, end):>6}" for t in (work, waited, idle)),
                recording.stalls[most] if waited else "",
            )
        )
    return table(("lane", "rows", "busy", "waiting", "nothing to do", "waits most for"), lines, left=(0, 5))


def _stalls(recording: Recording, limit: int) -> str:
    totals = recording.lane_times.sum(axis=0)
    totals[:1] = 0
    order = [number for number in np.argsort(-totals, kind="stable").tolist() if totals[number]][:limit]
    whole = int(totals.sum())
    lines = [(recording.stalls[n], time_text(int(totals[n])), share_text(int(totals[n]), whole)) for n in order]
    return table(("waiting, all lanes", "time", "share"), lines, left=(0,)) if lines else ""


def _instructions(recording: Recording, critical: Array, limit: int) -> str:
    names = recording.texts("ops", "name")
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    of_op = np.array([numbers[name] for name in names], np.int64)
    busy, on_path, counts = _sums(recording, critical, len(numbers), lambda op, site: of_op[op])
    known = list(numbers)
    order = [number for number in np.lexsort((-busy, -on_path)).tolist() if counts[number]][:limit]
    lines = [
        (known[n], str(counts[n]), time_text(int(busy[n])), share_text(int(on_path[n]), recording.makespan))
        for n in order
    ]
    return table(("instruction", "rows", "busy", "of the critical path"), lines, left=(0,)) if lines else ""


def _source(recording: Recording, critical: Array, limit: int) -> str:
    sites, sources = recording.table("sites"), recording.table("sources")
    places = list(zip(sites["source"][:].tolist(), sites["line"][:].tolist(), strict=True))
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
    if not numbers:
        return ""
    of_site = np.array([*(numbers[place] for place in places), len(numbers)], np.int64)  # the last: no site
    busy, on_path, counts = _sums(recording, critical, len(numbers) + 1, lambda op, site: of_site[site])
    paths, texts = sources.texts("path"), sources.texts("text")
    known = list(numbers)
    lines: list[tuple[str, ...]] = []
    for number in np.lexsort((-busy, -on_path)).tolist():
        if number == len(numbers) or not counts[number] or len(lines) == limit:
            continue
        source, line = known[number]
        code = texts[source].splitlines()[line - 1 : line] if line > 0 else []
        lines.append(
            (
                f"{PurePath(paths[source]).name}:{line}",
                share_text(int(on_path[number]), recording.makespan),
                time_text(int(busy[number])),
                " ".join(code).strip()[:80],
            )
        )
    return table(("line", "of the critical path", "busy", ""), lines, left=(0, 3)) if lines else ""


def _critical(recording: Recording) -> Array:
    """Picoseconds of the makespan that each row of the critical path stands for, by row; 0 elsewhere."""
    out = np.zeros(len(recording), np.int64)
    path = np.asarray(recording.critical_path[:])
    if len(path):
        ends = recording.rows["start"][path] + recording.rows["duration"][path]
        out[path] = np.diff(np.concatenate(([0], np.maximum.accumulate(ends))))
    return out


def _sums(recording: Recording, critical: Array, size: int, number: Numbering) -> tuple[Array, Array, Array]:
    """Busy time, critical time and rows of each number that `number(op, site)` gives to the rows."""
    busy, on_path, counts = (np.zeros(size, np.int64) for _ in range(3))
    for low, high in pieces(len(recording)):
        recording.rows.prefetch(("op", "site", "duration"), low, high)
        which = number(recording.rows["op"][low:high], recording.rows["site"][low:high])
        np.add.at(busy, which, recording.rows["duration"][low:high])
        np.add.at(on_path, which, critical[low:high])
        counts += np.bincount(which, minlength=size)
    return busy, on_path, counts


def table(header: Sequence[str], lines: Iterable[Sequence[str]], *, left: Sequence[int] = ()) -> str:
    """Columns of text under a header, numbers to the right, the columns `left` to the left."""
    cells = [tuple(header), *lines]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    out = []
    for line in cells:
        padded = (
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        out.append("  ".join(padded).rstrip())
    return "\n".join(out)
