"""Columns of one length, stretches of time to sum over, and the facts that all charts need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import coded_error
from nki_lab.export.findings import source_lines
from nki_lab.isa.arch import TARGETS, Arch
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.kernel_runtime.vocabulary import KINDS, kind_of_lane, lane_label

Frame = dict[str, Array]
"""Columns by name, all of one length."""

BINS: Final = 200
MOST_BINS: Final = 1_000_000
_PICOSECONDS: Final = 1000  # in a nanosecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The lanes that a chart shows as one: an engine, or all DMA queues of a core."""

    label: str
    name: str
    kind: str
    core: int
    lanes: tuple[int, ...]


def nanoseconds(picoseconds: Array) -> Array:
    """Return times in nanoseconds."""
    return np.asarray(picoseconds, np.int64) / _PICOSECONDS


def of_records(names: Sequence[str], records: Sequence[tuple[Any, ...]], texts: Sequence[str] = ()) -> Frame:
    """Return records as columns; those of `texts` hold texts also where there is no record."""
    columns = list(zip(*records, strict=True)) if records else [()] * len(names)
    return {
        name: np.array(values, dtype=str if name in texts else None if values else float)
        for name, values in zip(names, columns, strict=True)
    }


def groups(recording: Recording) -> list[Group]:
    """Return the lanes with rows as charts group them: by core, engines in drawing order, then DMA."""
    found: dict[tuple[int, str], tuple[str, list[int]]] = {}
    for lane in recording.lanes:
        kind = kind_of_lane(lane.name, lane.kind)
        first, end = recording.lane_span(lane.number)
        if end > first:
            name = lane.name if lane.kind == "engine" else kind
            found.setdefault((lane.core, name), (kind, []))[1].append(lane.number)
    out = [
        Group(
            label=", ".join(filter(None, (lane_label(name), recording.core_names[core]))),
            name=name,
            kind=kind,
            core=core,
            lanes=tuple(lanes),
        )
        for (core, name), (kind, lanes) in found.items()
    ]
    order = list(KINDS)
    return sorted(out, key=lambda group: (group.core, order.index(group.kind), group.lanes))


def edges(recording: Recording, bins: Any, bin_ns: float | None) -> Array:
    """Return the bounds of bins in picoseconds: `bins` equal ones, or as many of `bin_ns` as the run takes.

    The last one of a given width may reach beyond the run. There are none of a run that takes no time.
    """
    end = recording.makespan
    if bin_ns is None:
        if not isinstance(bins, int | np.integer) or not 1 <= bins <= MOST_BINS:
            raise coded_error("NKI012", f"bins is {bins!r}", operand="bins", limit=f"1 <= bins <= {MOST_BINS:,}")
        count = min(int(bins), max(end, 1))
        return np.arange(count + 1, dtype=np.int64) * end // count if end else np.zeros(1, np.int64)
    width = round(float(bin_ns) * _PICOSECONDS) if np.isfinite(bin_ns) else 0
    if width < 1 or end > width * MOST_BINS:
        least = max(1, -(-end // MOST_BINS)) / _PICOSECONDS
        raise coded_error(
            "NKI012",
            f"bin_ns is {bin_ns!r}",
            operand="bin_ns",
            limit=f"bin_ns >= {least:g}: at most {MOST_BINS:,} bins of at least a picosecond",
        )
    return np.arange(-(-end // width) + 1, dtype=np.int64) * width


def arch_of_run(recording: Recording) -> Arch | None:
    """Return the facts of a run's target; None of a target that nobody knows."""
    return TARGETS.get(str(recording.summary.get("target", "")))


def cores_of(recording: Recording) -> int:
    """Return the number of cores of a run."""
    return max(1, len({lane.core for lane in recording.lanes}))


def places(recording: Recording) -> tuple[Array, list[tuple[str, int, str]]]:
    """Return the number of the line of each site, with that of no line at the end, and file, line and text of each."""
    numbers: dict[tuple[str, int], int] = {}
    site = [numbers.setdefault(place, len(numbers)) for place in [*source_lines(recording), ("", 0)]]
    texts = {(line.file, line.line): line.text for line in digest(recording).lines}
    return np.array(site, np.int64), [(*place, texts.get(place, "")) for place in numbers]


def sums(group: Array, values: Array, count: int) -> Array:
    """Return the sums of values by group, in whole numbers."""
    out = np.zeros(count, np.int64)
    np.add.at(out, group, values)
    return out
