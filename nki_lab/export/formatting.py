"""The formats of reports: times, sizes and shares with their units, and sentences about the bottlenecks of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PureWindowsPath
from typing import Any, Final

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.bottlenecks import Part, bottlenecks
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES

THIN: Final = "\u202f"
"""Stands between thousands: a narrow space that does not break."""

TIMES: Final = ((1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "µs"))
"""Units of time in picoseconds, the largest first. Shorter times are whole nanoseconds."""

SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
DIGITS: Final = 3
"""Significant digits of sizes and rates."""

WHOLE_PERCENT: Final = 9.95
"""From here on shares are whole percent, below they have one decimal."""

LEAST_PERCENT: Final = 0.05
"""Below it, a share that is not zero is "< 0.1"."""

UNSURE: Final = 0.25
"""If more of the critical path than this is inferred or guessed, a time without an interval is called "about"."""

UNSURE_KINDS: Final = ("inferred", "guess")
ABOUT: Final = "about "


def duration(picoseconds: int) -> str:
    """A time: whole nanoseconds below one microsecond, else two decimals of the largest unit that fits."""
    for unit_size, unit in TIMES:
        if round(picoseconds, -3) >= unit_size:
            return f"{picoseconds / unit_size:,.2f} {unit}".replace(",", THIN)
    return f"{picoseconds / 1000:.0f} ns"


def size(count: float) -> str:
    """Bytes: exact where whole, else three significant digits."""
    power, value = 0, float(count)
    while value >= 1024 and power + 1 < len(SIZES):
        power, value = power + 1, value / 1024
    return f"{value:.0f} {SIZES[power]}" if value == int(value) else f"{significant(value)} {SIZES[power]}"


def significant(value: float) -> str:
    """Three significant digits, or whole with thin spaces: "0.0213", "4.53", "1 230"."""
    return f"{value:.{DIGITS}g}" if value < 10**DIGITS - 0.5 else number(round(value))


def share(part: float) -> str:
    """A share of 1 in percent: whole from 10 on, below with one decimal."""
    return f"{_percent(part)} %"


def _percent(part: float) -> str:
    percent = 100 * part
    if percent >= WHOLE_PERCENT:
        return str(math.floor(percent + 0.5))
    if 0 < percent < LEAST_PERCENT:
        return "< 0.1"
    return f"{percent:.1f}" if percent else "0"


def number(value: int) -> str:
    """A count, with thin spaces between thousands."""
    return f"{value:,}".replace(",", THIN)


def ratio(part: float, whole: float) -> float:
    """`part` of `whole`; 0 of nothing."""
    return part / whole if whole else 0.0


def file_name(file: str) -> str:
    """Return the short form of a source file: its name, or "a cell" for one of a notebook, whose file has a number."""
    path = PureWindowsPath(file)  # which takes slashes too: recordings come from other systems
    return "a cell" if path.parent.name.startswith("ipykernel_") else path.name


def held_back(recording: Recording) -> list[str]:
    """Return the bottlenecks of a run as sentences, the most important first."""
    return ["".join(map(_text, sentence)) for sentence in bottlenecks(recording)]


def _text(part: Part) -> str:
    if part.share is not None:
        return share(part.share)
    return f"{part.text} of {file_name(part.file)}" if part.file else part.text


def confidence(summary: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Return the sources of costs on the critical path: kinds with shares above zero, the surest first."""
    found = summary.get("confidence")
    parts = found if isinstance(found, dict) else {}
    return tuple((name, float(parts[name])) for name in CONFIDENCES if parts.get(name, 0) > 0)


def interval(summary: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the 80 % interval of the makespan in picoseconds; None of a summary without one."""
    found = summary.get("makespan_interval_ns")
    if not isinstance(found, list | tuple) or len(found) != 2:
        return None
    low, high = found
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in (low, high)):
        return None
    return round(low * 1000), round(high * 1000)


def within(summary: Mapping[str, Any], picoseconds: int) -> str:
    """The interval behind a makespan, in its unit: ", 118 to 171"; nothing of a summary without one."""
    return bounds(interval(summary), picoseconds)


def bounds(found: tuple[float, float] | None, picoseconds: int) -> str:
    """Two times as they stand behind another one, in its unit: ", 118 to 171"; nothing where there are none."""
    if found is None:
        return ""
    unit = next((size for size, _ in TIMES if round(picoseconds, -3) >= size), 1000)
    low, high = (significant(value / unit) for value in found)
    return f", {low} to {high}"


def makespan(summary: Mapping[str, Any], picoseconds: int) -> str:
    """A makespan with its interval: "140.00 µs, 118 to 171"."""
    return f"{about(summary)}{duration(picoseconds)}{within(summary, picoseconds)}"


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
    texts = [f"{share(first[1])} {first[0]}", *(f"{_percent(part)} {name}" for name, part in others)]
    return " · ".join(texts) if first[0] else ""
