"""The formats of reports: times with their intervals, and sentences about the bottlenecks of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PureWindowsPath
from typing import Any, Final

from nki_lab import quantities
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.bottlenecks import Part, bottlenecks
from nki_lab.kernel_runtime.recording.figures import interval
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES, STALL_OF

UNSURE: Final = 0.25
"""If more of the critical path than this is inferred or guessed, a time without an interval is called "about"."""

UNSURE_KINDS: Final = ("inferred", "guess")
ABOUT: Final = "about "


def short_reason(name: str) -> str:
    """The cause of a wait in one or two words: "Vector", "DMA start"."""
    return STALL_OF[name].short if name in STALL_OF else name


def file_name(file: str) -> str:
    """Return the short form of a source file: its name, or "a cell" for one of a notebook, whose file has a number."""
    path = PureWindowsPath(file)  # which takes slashes too: recordings come from other systems
    return "a cell" if path.parent.name.startswith("ipykernel_") else path.name


def held_back(recording: Recording) -> list[str]:
    """Return the bottlenecks of a run as sentences, the most important first."""
    return ["".join(map(_text, sentence)) for sentence in bottlenecks(recording)]


def _text(part: Part) -> str:
    if part.share is not None:
        return quantities.share(part.share)
    return f"{part.text} of {file_name(part.file)}" if part.file else part.text


def confidence(summary: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Return the sources of costs on the critical path: kinds with shares above zero, the surest first."""
    found = summary.get("confidence")
    parts = found if isinstance(found, dict) else {}
    return tuple((name, float(parts[name])) for name in CONFIDENCES if parts.get(name, 0) > 0)


def within(summary: Mapping[str, Any], picoseconds: int) -> str:
    """The interval behind a makespan, in its unit: ", 118 to 171"; nothing of a summary without one."""
    return quantities.bounds(interval(summary), picoseconds)


def other_time(summary: Mapping[str, Any], picoseconds: int) -> str:
    """Another predicted time of the same run, with bounds as far from it as those of the makespan are from that."""
    found, makespan = interval(summary), summary.get("makespan_ns")
    if found is None or not makespan:
        return quantities.duration(picoseconds)
    low, high = (picoseconds * bound / (1000 * makespan) for bound in found)
    return quantities.duration(picoseconds) + quantities.bounds((low, high), picoseconds)


def latency(row: Mapping[str, Any]) -> str:
    """The latency of a row of a sweep with its interval: "13.13 µs, 10.6 to 15.8"."""
    return quantities.duration(round(row["latency_ns"] * 1000)) + latency_bounds(row)


def latency_bounds(row: Mapping[str, Any]) -> str:
    """The interval behind the latency of a row of a sweep, in its unit: ", 10.6 to 15.8"; nothing where it has none."""
    low, high = row["latency_low_ns"], row["latency_high_ns"]
    found = None if low is None or high is None else (1000 * low, 1000 * high)
    return quantities.bounds(found, round(row["latency_ns"] * 1000))


def makespan(summary: Mapping[str, Any], picoseconds: int) -> str:
    """A makespan with its interval: "140.00 µs, 118 to 171"."""
    return f"{about(summary)}{quantities.duration(picoseconds)}{within(summary, picoseconds)}"


def interval_text(summary: Mapping[str, Any]) -> str:
    """Return what the interval is, where it is from, and what widens it; nothing of a summary without one."""
    if interval(summary) is None:
        return ""
    said = interval_basis(summary)
    return f"80 % interval: {said}" if said else "80 % interval"


def interval_basis(summary: Mapping[str, Any]) -> str:
    """Return where the interval is from, and what widens it."""
    basis, notes = summary.get("makespan_interval_basis"), summary.get("makespan_interval_notes")
    said = [str(basis)] if basis else []
    said += [f"wider, as {note}" for note in notes if isinstance(note, str)] if isinstance(notes, list | tuple) else []
    return "; ".join(said)


def about(summary: Mapping[str, Any]) -> str:
    """The word before a makespan without an interval, of which too much is inferred or guessed; else nothing."""
    if interval(summary) is not None:
        return ""
    unsure = sum(part for name, part in confidence(summary) if name in UNSURE_KINDS) > UNSURE
    return ABOUT if unsure else ""


def confidence_text(summary: Mapping[str, Any]) -> str:
    """ "58 % documented · 33 measured · 9.0 inferred"."""
    first, *others = confidence(summary) or (("", 0.0),)
    texts = [
        f"{quantities.share(first[1])} {first[0]}",
        *(f"{quantities.percent(part)} {name}" for name, part in others),
    ]
    return " · ".join(texts) if first[0] else ""
