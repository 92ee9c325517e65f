"""How reports say things: times, sizes and shares with their units, and in sentences what holds a run back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from nki_lab.kernel_runtime.recording.digest import Digest, LaneTime
from nki_lab.kernel_runtime.recording.schema import CONFIDENCES

ENGINES: Final = {
    "tensor": "Tensor", "vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd", "sync": "Sync", "dma": "DMA",
}  # fmt: skip
"""Names of engines as reports write them; DMA stands for all of its queues."""

_REASONS: Final = {
    "none": "a reason that was not recorded",
    "anti-dependency": "earlier reads of the same bytes",
    "output order": "earlier writes of the same bytes",
    "memory reuse": "memory that another tensor still uses",
    "user order": "the order that the schedule asks for",
    "semaphore": "semaphores",
    "table load": "loads of activation tables",
    "stationary load": "loads of stationary tiles",
    "dma trigger": "DMA descriptors to be made",
    "dma start": "DMA transfers to start",
    "queue interval": "the interval between two DMA transfers",
    "bandwidth": "DMA bandwidth that others use",
    "port conflict": "a memory port that another engine has",
    "psum bank": "a PSUM bank that another engine has",
    "power ramp": "the Tensor Engine's clock to rise",
    "launch": "the kernel to be launched and ended",
    "other core": "the other core",
}
_THIN: Final = "\u202f"  # a narrow space that does not break
_UNSURE: Final = 0.25
_TIMES: Final = ((1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "µs"))


def duration(picoseconds: int) -> str:
    """A time: whole nanoseconds below one microsecond, else two decimals of the largest unit that fits."""
    for unit_size, unit in _TIMES:
        if round(picoseconds, -3) >= unit_size:
            return f"{picoseconds / unit_size:,.2f} {unit}".replace(",", _THIN)
    return f"{picoseconds / 1000:.0f} ns"


def size(count: float) -> str:
    """Bytes: exact where whole, else three significant digits."""
    unit, value = "bytes", float(count)
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        unit, value = larger, value / 1024
    return f"{value:.0f} {unit}" if value == int(value) else f"{value:.{3 if value < 10 else 4}g} {unit}"


def share(part: float) -> str:
    """A share of 1 in percent: whole from 10 on, below with one decimal."""
    percent = 100 * part
    if percent >= 9.95:
        return f"{percent:.0f} %"
    if 0 < percent < 0.05:
        return "< 0.1 %"
    return f"{percent:.1f} %" if percent else "0 %"


def number(value: int) -> str:
    """A count, with thin spaces between thousands."""
    return f"{value:,}".replace(",", _THIN)


def ratio(part: float, whole: float) -> float:
    """`part` of `whole`; 0 of nothing."""
    return part / whole if whole else 0.0


def lane_name(lane: LaneTime, cores: int = 1) -> str:
    """An engine or a queue by name, with its core where there are several."""
    first, space, rest = lane.name.partition(" ")
    name = f"{ENGINES.get(first, first)}{space}{rest}"
    return f"{name}, core {lane.core}" if cores > 1 else name


def reason(name: str) -> str:
    """What is waited for: "data from Vector", "DMA transfers to start"."""
    if name.startswith("data from "):
        source = name.removeprefix("data from ")
        return f"data from {ENGINES.get(source, source)}"
    return _REASONS.get(name, name)


def file_name(file: str) -> str:
    """How a source file is called: by its name, but for a cell of a notebook, whose file has a number for a name."""
    path = PurePath(file)
    return "a cell" if path.parent.name.startswith("ipykernel_") else path.name


def held_back(told: Digest) -> list[str]:
    """What holds the run back, as sentences, the most important first."""
    if not told.makespan:
        return ["No instruction takes any time."]
    out = [_largest(told)]
    if told.lines and told.lines[0].critical:
        line = told.lines[0]
        part = share(ratio(line.critical, told.makespan))
        out.append(f"Line {line.line} of {file_name(line.file)} costs most: {part}.")
    engines = [lane for lane in told.lanes if lane.kind == "engine" and lane.busy and lane.waits]
    if engines:
        lane = max(engines, key=lambda item: next(iter(item.waits.values())))
        name, time = next(iter(lane.waits.items()))
        part = share(ratio(time, told.makespan))
        out.append(f"{lane_name(lane)} waits {part} of the time for {reason(name)}.")
    return out


def _largest(told: Digest) -> str:
    """The largest part of the critical path."""
    work = next(iter(told.work.items()), ("", 0))
    wait = next(iter(told.waits.items()), ("", 0))
    if work[1] >= wait[1]:
        part = share(ratio(work[1], told.makespan))
        return f"{ENGINES.get(work[0], work[0])} works on the critical path {part} of the time."
    return f"The critical path waits {share(ratio(wait[1], told.makespan))} of the time for {reason(wait[0])}."


def confidence(summary: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """How sure the critical path is: kinds of knowledge with their shares, those above zero, the surest first."""
    found = summary.get("confidence")
    parts = found if isinstance(found, dict) else {}
    return tuple((name, float(parts[name])) for name in CONFIDENCES if parts.get(name, 0) > 0)


def is_unsure(summary: Mapping[str, Any]) -> bool:
    """Whether so much is inferred or guessed that the makespan is to be called "about"."""
    return sum(part for name, part in confidence(summary) if name in ("inferred", "guess")) > _UNSURE


def confidence_text(summary: Mapping[str, Any]) -> str:
    """ "58 % documented · 33 % measured · 9.0 % inferred"."""
    return " · ".join(f"{share(part)} {name}" for name, part in confidence(summary))
