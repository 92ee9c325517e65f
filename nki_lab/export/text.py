"""A recording as a page of text: what it took, what held it back, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from nki_lab import quantities
from nki_lab.diagnostic import render
from nki_lab.export import formatting
from nki_lab.export.findings import capacities, findings, numbered
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import pieces
from nki_lab.kernel_runtime.recording.digest import Digest, digest
from nki_lab.kernel_runtime.vocabulary import KINDS, lane_label, reason
from nki_lab.quantities import duration, ratio, share

LINES: Final = 10
"""The number of causes, of instructions and of lines in their lists, the longest times first."""

_CODE: Final = 80  # characters of a source line
_FINDINGS: Final = 20
_BRIEF: Final = 5
_PICOSECONDS: Final = 1000  # in a nanosecond

Item = TypeVar("Item")


def report(recording: Recording) -> str:
    """Return the recording's report. Shares of the critical path, work and waits, add up to the makespan."""
    times = digest(recording)
    parts = ["\n".join(_head(recording, times)), "\n".join(_numbers(recording.summary)), _lanes(recording, times)]
    parts += [_causes(times), _instructions(recording, times), _source(times), _findings(recording)]
    return "\n\n".join(part for part in parts if part) + "\n"


def brief(recording: Recording) -> str:
    """Return the report's beginning, and one line each for engines and for the critical path."""
    times = digest(recording)
    cores = len({lane.core for lane in times.lanes})
    busy: dict[str, int] = {}
    for lane in times.lanes:
        if lane.kind != "dma" and lane.rows:
            name = KINDS.get(lane.name, lane.name)
            busy[name] = busy.get(name, 0) + lane.busy // cores
    if times.dma:
        busy[KINDS["dma"]] = sum(times.dma.values()) // cores
    lines = [*_head(recording, times), *_numbers(recording.summary)]
    waits = [(formatting.short_reason(name), time) for name, time in times.waits.items()]
    for label, parts in (("busy ", list(busy.items())), ("waits for", waits[:_BRIEF])):
        found = ", ".join(f"{name} {share(ratio(time, times.makespan))}" for name, time in parts if time)
        lines += [f"{label} {found}"] if found else []
    return "\n".join(lines)


def _head(recording: Recording, times: Digest) -> Iterator[str]:
    summary, count = recording.summary, recording.instructions
    name, target = summary.get("kernel", "kernel"), summary.get("target")
    title = f"{name} on {target}" if target else str(name)
    yield f"{title}: {formatting.makespan(summary, times.makespan)}, {count:,} instruction{'s' * (count != 1)}"
    if "fault" in summary:
        yield "up to the fault"
    if "cancelled" in summary:
        executed, steps = int(summary["cancelled"]), len(recording)
        of = "" if executed >= steps else f" of {steps:,}"
        yield f"cancelled after {executed:,}{of} instruction{'s' * (steps != 1)}"
    if isinstance(options := summary.get("options"), dict) and options:
        yield f"with {', '.join(f'{option}={value!r}' for option, value in options.items())}"
    if sure := formatting.confidence_text(summary):
        yield f"sources of costs: {sure}"
    if known := formatting.interval_text(summary):
        yield known
    if isinstance(notes := summary.get("compiler_model"), dict) and notes:
        done = ", ".join(f"{what} ({number:,})" for what, number in notes.items())
        without = summary.get("makespan_without_compiler_model_ns")
        suffix = (
            "" if without is None else f"; without it {formatting.other_time(summary, round(without * _PICOSECONDS))}"
        )
        yield f"compiler model: {done}{suffix}"
    yield from formatting.held_back(recording)


def _numbers(summary: Mapping[str, Any]) -> Iterator[str]:
    for space, peak, capacity in capacities(summary):
        of = f" of {quantities.size(capacity)}" if capacity else ""
        yield f"{space}  {quantities.size(peak)}{of} in the fullest partition"
    moved = [
        f"{quantities.size(summary[name])} {verb}"
        for name, verb in (("hbm_read_bytes", "read"), ("hbm_write_bytes", "written"))
        if name in summary
    ]
    if moved:
        uses = [f"{name.upper()} {share(summary[name])}" for name in ("mfu", "hfu", "mbu") if name in summary]
        yield f"HBM   {', '.join(moved)}{'; ' if uses else ''}{', '.join(uses)}"


def _lanes(recording: Recording, times: Digest) -> str:
    lines = [
        (
            ", ".join(filter(None, (lane_label(lane.name), recording.core_names[lane.core]))),
            f"{lane.rows:,}",
            *(
                f"{duration(time)}  {share(ratio(time, times.makespan)):>6}"
                for time in (lane.busy, sum(lane.slowed.values()), sum(lane.waits.values()), lane.empty)
            ),
            next(map(reason, lane.waits), ""),
        )
        for lane in times.lanes
        if lane.rows or recording.ranks == 1
    ]
    header = ("lane", "instructions", "busy", "of it slowed", "waiting", "nothing to do", "waits most for")
    return table(header, lines, left=(0, 6))


def _causes(times: Digest) -> str:
    found = [(f"{KINDS.get(name, name)} works", time) for name, time in times.work.items()]
    found += [(f"waits for {reason(name)}", time) for name, time in times.waits.items()]
    found.sort(key=lambda item: -item[1])
    shown, others = _longest(found)
    if others:
        shown.append((f"{len(others)} other causes", sum(time for _, time in others)))
    lines = [(what, duration(time), share(ratio(time, times.makespan))) for what, time in shown]
    return table(("critical path", "time", "share"), lines, left=(0,))


def _instructions(recording: Recording, times: Digest) -> str:
    known, of_op = numbered(recording.texts("ops", "name"))
    busy, counts, critical = (np.zeros(len(known), np.int64) for _ in range(3))
    for low, high in pieces(len(recording)):
        executed = recording.executed[low:high]
        which = of_op[recording.rows["op"][low:high][executed]]
        np.add.at(busy, which, recording.rows["duration"][low:high][executed].astype(np.int64))
        counts += np.bincount(which, minlength=len(known))
    if len(times.path.row):
        np.add.at(critical, of_op[recording.rows["op"][times.path.row]], times.path.time)
    order = [number for number in np.lexsort((-busy, -critical)).tolist() if counts[number]]
    shown, others = _longest([(known[n], int(counts[n]), int(busy[n]), int(critical[n])) for n in order])
    if others:
        counted, spent, on_path = (sum(column) for column in list(zip(*others, strict=True))[1:])
        shown.append((f"{len(others)} others", counted, spent, on_path))
    lines = [
        (name, f"{count:,}", duration(spent), share(ratio(on_path, times.makespan)))
        for name, count, spent, on_path in shown
    ]
    return table(("instruction", "times", "busy", "critical path"), lines, left=(0,))


def _source(times: Digest) -> str:
    found = [
        (f"{formatting.file_name(line.file)}:{line.line}", line.busy, line.critical, line.text[:_CODE])
        for line in times.lines
    ]
    shown, others = _longest(found)
    if others:
        busy, critical = (sum(column) for column in list(zip(*others, strict=True))[1:3])
        shown.append((f"{len(others)} other lines", busy, critical, ""))
    lines = [
        (place, duration(busy), share(ratio(critical, times.makespan)), text) for place, busy, critical, text in shown
    ]
    return table(("line", "busy", "critical path", ""), lines, left=(0, 3))


def _longest(found: Sequence[Item]) -> tuple[list[Item], Sequence[Item]]:
    """Return the first `LINES` of a list, and the others, of which there are none or several."""
    count = len(found) if len(found) <= LINES + 1 else LINES
    return list(found[:count]), found[count:]


def _findings(recording: Recording) -> str:
    found = findings(recording)
    texts = dict(zip(recording.texts("sources", "path"), recording.texts("sources", "text"), strict=True))

    def source_line(file: str, line: int) -> str:
        listing = texts.get(file, "").splitlines()
        return listing[line - 1] if 0 < line <= len(listing) else ""

    parts = [f"{item.severity}: {render(item, source_line=source_line)}" for item in found[:_FINDINGS]]
    more = [f"and {len(found) - _FINDINGS} more findings"] if len(found) > _FINDINGS else []
    return "\n\n".join([*parts, *more])


def table(header: Sequence[str], lines: Sequence[Sequence[str]], *, left: Sequence[int] = ()) -> str:
    """Return columns of text under a header, the columns `left` to the left, numbers to the right; "" for no lines."""
    cells = [header, *lines] if lines else []
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{'<' if n in left else '>'}{widths[n]}}" for n, cell in enumerate(line)).rstrip()
        for line in cells
    )
