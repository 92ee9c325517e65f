"""How reports say things: times, sizes and shares with their units, and in sentences what holds a run back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final

from nki_lab.kernel_runtime.recording.digest import Digest, LaneTime
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES, KINDS, STALL_OF

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
"""If more of the critical path than this is inferred or guessed, the time is called "about"."""

UNSURE_KINDS: Final = ("inferred", "guess")
ABOUT: Final = "about "
SENTENCES: Final = MappingProxyType(
    {
        "empty": "No instruction was recorded.",
        "instant": "No instruction takes any time.",
        "nothing": "Nothing is on the critical path.",
        "works": "{what} is on the critical path {share} of the time.",
        "path_waits": "The critical path waits {share} of the time for {what}.",
        "lane_waits": "{lane} waits {share} of the time for {what}.",
        "waits_for": "{lane} waits for {what}.",
        "line": "{line} costs most: {share}.",
    }
)
"""What holds a run back, with places for names and shares."""


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
    return f"{value:.0f} {SIZES[power]}" if value == int(value) else f"{_significant(value)} {SIZES[power]}"


def _significant(value: float) -> str:
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


def lane_name(lane: LaneTime, cores: int = 1) -> str:
    """An engine or a queue by name, with its core where there are several."""
    first, space, rest = lane.name.partition(" ")
    name = f"{KINDS.get(first, first)}{space}{rest}"
    return f"{name}, core {lane.core}" if cores > 1 else name


def reason(name: str) -> str:
    """What is waited for: "data from Vector", "DMA transfers to start"."""
    return STALL_OF[name].label if name in STALL_OF else name


def file_name(file: str) -> str:
    """How a source file is called: by its name, but for a cell of a notebook, whose file has a number for a name."""
    path = PurePath(file)
    return "a cell" if path.parent.name.startswith("ipykernel_") else path.name


def held_back(told: Digest) -> list[str]:
    """What holds the run back, as sentences, the most important first."""
    if not told.makespan:
        return [SENTENCES["instant"]]
    out = [_largest(told)]
    if told.lines and told.lines[0].critical:
        line = told.lines[0]
        where = f"Line {line.line} of {file_name(line.file)}"
        out.append(SENTENCES["line"].format(line=where, share=share(ratio(line.critical, told.makespan))))
    engines = [lane for lane in told.lanes if lane.kind == "engine" and lane.busy and lane.waits]
    if engines:
        lane = max(engines, key=lambda item: next(iter(item.waits.values())))
        name, time = next(iter(lane.waits.items()))
        part = share(ratio(time, told.makespan))
        out.append(SENTENCES["lane_waits"].format(lane=lane_name(lane), share=part, what=reason(name)))
    return out


def _largest(told: Digest) -> str:
    """The largest part of the critical path."""
    work = next(iter(told.work.items()), ("", 0))
    wait = next(iter(told.waits.items()), ("", 0))
    part = share(ratio(max(work[1], wait[1]), told.makespan))
    if work[1] >= wait[1]:
        return SENTENCES["works"].format(what=KINDS.get(work[0], work[0]), share=part)
    return SENTENCES["path_waits"].format(what=reason(wait[0]), share=part)


def confidence(summary: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """How sure the critical path is: kinds of knowledge with their shares, those above zero, the surest first."""
    found = summary.get("confidence")
    parts = found if isinstance(found, dict) else {}
    return tuple((name, float(parts[name])) for name in CONFIDENCES if parts.get(name, 0) > 0)


def about(summary: Mapping[str, Any]) -> str:
    """The word before a makespan of which so much is inferred or guessed that it is not exact; else nothing."""
    unsure = sum(part for name, part in confidence(summary) if name in UNSURE_KINDS) > UNSURE
    return ABOUT if unsure else ""


def confidence_text(summary: Mapping[str, Any]) -> str:
    """ "58 % documented · 33 measured · 9.0 inferred"."""
    first, *others = confidence(summary) or (("", 0.0),)
    texts = [f"{share(first[1])} {first[0]}", *(f"{_percent(part)} {name}" for name, part in others)]
    return " · ".join(texts) if first[0] else ""
