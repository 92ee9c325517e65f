"""The difference of two recordings in figures: in all, by engine, line, reason to wait, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_lab.comparison.amounts import Amount, Error, error_of, is_measured, is_profile, time
from nki_lab.comparison.figures import EngineDifference, StallDifference, cores_of, engines, memory, stalls, work
from nki_lab.comparison.instructions import RowPairs, rows_of
from nki_lab.comparison.places import NO_LINE, Place, Places, places_of
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.recording.digest import Digest, LineTime, digest

_SAME_KERNEL: Final = 0.5
"""Kernels of two names are versions of one if this share of the smaller one's instructions has unchanged lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two runs. `interval` is the 80 % interval of its time; None for measured times, or where unknown.
    `cores` are those of all ranks.
    """

    kernel: str
    target: str
    ranks: int
    cores: int
    instructions: int
    time: int
    interval: tuple[float, float] | None
    measured: bool
    stopped: bool
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineDifference:
    """A line of source in both runs: its rows, their time (`busy`), and its time on the critical path.

    `work` and `waits` by reason are changes; they add up to that of `critical`. `share` is `critical` as a share of the
    run. The place of rows without a line is None.
    """

    place: Place | None
    rows: Amount
    busy: Amount
    critical: Amount
    share: Amount
    work: int
    waits: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compared:
    """The difference of two runs; see `compare`.

    The changes of `critical` of all `lines` add up to that of `latency`, and so do those of `work` with the `critical`
    ones of `stalls`. Without `same_kernel` there are no `lines`, `edits` and `rows`. `rows` are the pairs of
    instructions, `by_number` says that lines were paired by their numbers. `placeless` says that transfers have no
    lines, since one of the runs is a profile that does not tell those of its transfers.
    """

    before: Side
    after: Side
    same_kernel: bool
    latency: Amount
    engines: tuple[EngineDifference, ...]
    work: tuple[Amount, ...]
    stalls: tuple[StallDifference, ...]
    lines: tuple[LineDifference, ...]
    memory: tuple[Amount, ...]
    edits: tuple[Place, ...]
    rows: RowPairs
    by_number: bool
    placeless: bool = False

    @property
    def is_equal(self) -> bool:
        """Whether nothing that is compared differs."""
        amounts = [
            self.latency,
            *self.work,
            *self.memory,
            *(amount for item in self.engines for amount in (item.busy, item.waiting)),
            *(amount for item in self.stalls for amount in (item.critical, item.lanes)),
            *(amount for item in self.lines for amount in (item.rows, item.busy, item.critical)),
        ]
        unpaired = len(self.rows.only_before) + len(self.rows.only_after)
        return self.same_kernel and not unpaired and all(item.before == item.after for item in amounts)


def compare(before: Recording, after: Recording) -> Compared:
    """Compare two recordings: what changes from the one to the other.

    Lines are paired through the difference of the sources, instructions by line, iteration, operands and order.
    """
    given = before, after
    before, after = _with_equal_places(before, after)
    digests = digest(before), digest(after)
    errors = error_of(before), error_of(after)
    places = places_of(before, after)
    same = _is_same_kernel(before, after, places)
    none = np.zeros(0, np.int64)
    pairs = RowPairs(before=none, after=none, only_before=np.arange(len(before)), only_after=np.arange(len(after)))
    return Compared(
        before=_side(before, errors[0]),
        after=_side(after, errors[1]),
        same_kernel=same,
        latency=time("latency", digests[0].makespan, digests[1].makespan, errors),
        engines=tuple(engines(before, after, digests, errors)),
        work=tuple(work(digests, errors)),
        stalls=tuple(stalls(digests, errors)),
        lines=_lines(digests, places, errors) if same else (),
        memory=tuple(memory(before, after)),
        edits=places.edits if same else (),
        rows=rows_of(before, after, places) if same else pairs,
        by_number=places.by_number,
        placeless=(before, after) != given,
    )


def _with_equal_places(before: Recording, after: Recording) -> tuple[Recording, Recording]:
    """Return the recordings with lines for transfers in both of them, or in none.

    Where a profile has none, all time of transfers would be new in it, and gone from the other's lines.
    """
    if is_profile(before) == is_profile(after):
        return before, after
    transfers = [
        np.array([lane.kind == "dma" for lane in recording.lanes], bool)[whole(recording.rows["lane"])]
        if len(recording)
        else np.zeros(0, bool)
        for recording in (before, after)
    ]
    placed = [
        bool((whole(recording.rows["site"])[rows] >= 0).any())
        for recording, rows in zip((before, after), transfers, strict=True)
    ]
    if placed[0] == placed[1] or not all(rows.any() for rows in transfers):
        return before, after
    if placed[0]:
        return before.without_places(transfers[0]), after
    return before, after.without_places(transfers[1])


def _side(recording: Recording, error: Error | None) -> Side:
    summary, measured = recording.summary, is_measured(recording)
    end, options = recording.makespan, summary.get("options")
    return Side(
        kernel=str(summary.get("kernel") or ""),
        target=str(summary.get("target") or ""),
        ranks=recording.ranks,
        cores=cores_of(recording),
        instructions=recording.instructions,
        time=end,
        interval=None if error is None or measured else (end * error.low, end * error.high),
        measured=measured,
        stopped="fault" in summary,
        options=options if isinstance(options, dict) else {},
    )


def _is_same_kernel(before: Recording, after: Recording, places: Places) -> bool:
    """Whether two recordings are of versions of one kernel: of one name, or with many lines in common.

    A profile of a device does not tell the kernel's name. Lines are in common where both runs have instructions of
    them: kernels of one file share its text.
    """
    names = [str(recording.summary.get("kernel") or "") for recording in (before, after)]
    if names[0] == names[1] or not all(names):
        return True
    equal = [NO_LINE + 1 + number for number, place in enumerate(places.places) if place.state == "same"]
    mine, other = (
        numbers[whole(recording.rows["site"])]
        for recording, numbers in ((before, places.before), (after, places.after))
    )
    common = np.intersect1d(np.intersect1d(mine, other), equal)
    counts = [int(np.isin(lines, common).sum()) for lines in (mine, other)]
    return 0 < min(counts) >= _SAME_KERNEL * min(len(before), len(after))


def _lines(
    digests: tuple[Digest, Digest], places: Places, errors: tuple[Error | None, Error | None]
) -> tuple[LineDifference, ...]:
    """Return the lines, those whose time on the critical path differs most first, and what no line accounts for."""
    found = [{(line.file, line.line): line for line in item.lines} for item in digests]
    spans = digests[0].makespan, digests[1].makespan
    out = []
    for place in places.places:
        lines = found[0].get((place.file, place.line)), found[1].get((place.other_file, place.other_line))
        out.append(_line(place, lines, spans, errors))
    rest = _without_line(digests[0]), _without_line(digests[1])
    if any(item.rows or item.critical or item.busy for item in rest):
        out.append(_line(None, rest, spans, errors))

    def order(item: LineDifference) -> tuple[float, float, int, int]:
        place = item.place
        at = (0, 0) if place is None else (place.other_line, place.line)
        return -abs(item.critical.change or 0), -abs(item.busy.change or 0), *at

    return tuple(sorted(out, key=order))


def _line(
    place: Place | None,
    lines: tuple[LineTime | None, LineTime | None],
    spans: tuple[int, int],
    errors: tuple[Error | None, Error | None],
) -> LineDifference:
    one, other = ({} if line is None else dict(line.waits) for line in lines)
    rows, busy, critical, works = (
        [0 if line is None else int(getattr(line, name)) for line in lines]
        for name in ("rows", "busy", "critical", "work")
    )
    waits = {name: other.get(name, 0) - one.get(name, 0) for name in sorted({*one, *other})}
    shares = [part / span if span else 0.0 for part, span in zip(critical, spans, strict=True)]
    return LineDifference(
        place=place,
        rows=Amount(name="rows", unit="count", before=rows[0], after=rows[1]),
        busy=time("busy", busy[0], busy[1], errors),
        critical=time("critical", critical[0], critical[1], errors),
        share=Amount(name="share", unit="share", before=shares[0], after=shares[1]),
        work=works[1] - works[0],
        waits={name: change for name, change in waits.items() if change},
    )


def _without_line(found: Digest) -> LineTime:
    """Return what no line of source accounts for: rows without a place, the launch, the wait for the last result."""
    waits = dict(found.waits)
    for line in found.lines:
        for name, spent in line.waits.items():
            waits[name] -= spent
    return LineTime(
        file="",
        line=0,
        function="",
        text="",
        rows=sum(lane.rows for lane in found.lanes) - sum(line.rows for line in found.lines),
        busy=sum(lane.busy for lane in found.lanes) - sum(line.busy for line in found.lines),
        work=sum(found.work.values()) - sum(line.work for line in found.lines),
        waits={name: spent for name, spent in waits.items() if spent},
    )


def durations(before: Recording, after: Recording, pairs: RowPairs) -> tuple[Array, Array]:
    """Return the durations of paired rows in picoseconds."""
    return whole(before.rows["duration"])[pairs.before], whole(after.rows["duration"])[pairs.after]
