"""The time of a run in few numbers: by lane, by line of source, and along the critical path.

Everything is worked out from the tables of a recording, so that a run, an opened folder and an imported profile are
summarised the same way. Times are integer picoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.kernel_runtime.recording import schema
from nki_lab.kernel_runtime.recording.columns import Array, Columns, pieces
from nki_lab.kernel_runtime.recording.columns import whole as _whole
from nki_lab.kernel_runtime.recording.recording import Recording
from nki_lab.kernel_runtime.vocabulary import DATA_FROM, STALL_OF

LAUNCH: Final = "launch"
"""The reason to wait before a kernel's first instruction and after its last."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """The critical path, a column each, in order of time: the row, when it takes over, its work, and its waits.

    A row waits `rest` for `stall`, then `setup` for `setup_stall`, and while it works `throttled` for
    `throttle_reason`. Over all rows, works and waits add up to the time from `launch` to the last result.
    """

    row: Array
    lane: Array
    begin: Array
    work: Array
    rest: Array
    setup: Array
    throttled: Array
    stall: Array
    setup_stall: Array
    throttle_reason: Array

    @property
    def time(self) -> Array:
        """Work and waits of each row."""
        total: Array = self.work + self.rest + self.setup + self.throttled
        return total

    @property
    def waits(self) -> tuple[tuple[Array, Array], ...]:
        """The three kinds of waits: reason and time of each row."""
        return (self.stall, self.rest), (self.setup_stall, self.setup), (self.throttle_reason, self.throttled)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTime:
    """The time of a lane: `busy` + all `waits` + `empty` is the makespan.

    `rows` is how many it executes, `busy` the time in which it does. `slowed`, by reason, is the part of that by which
    rows take longer than their own work, and `critical` the part that is on the critical path.
    """

    number: int
    name: str
    kind: str
    core: int
    rows: int
    busy: int
    critical: int
    slowed: Mapping[str, int]
    waits: Mapping[str, int]
    empty: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTime:
    """The cost of a line of source: how many `rows` are executed, the time in which they are (`busy`), and what the
    critical path spends on them: their own `work`, and waits."""

    file: str
    line: int
    function: str
    text: str
    rows: int
    busy: int
    work: int
    waits: Mapping[str, int]

    @property
    def critical(self) -> int:
        """Work and waits on the critical path."""
        return self.work + sum(self.waits.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A run in few numbers.

    `dma` is, by core, the time in which any DMA queue executes, and `dma_waiting` the time in which none does before
    one will. `work` by kind of lane and `waits` by reason are those
    of the critical path and add up to the makespan; `lines` begin with the one that costs most of it.
    """

    makespan: int
    path: Path
    lanes: tuple[LaneTime, ...]
    dma: Mapping[int, int]
    dma_waiting: Mapping[int, int]
    lines: tuple[LineTime, ...]
    work: Mapping[str, int]
    waits: Mapping[str, int]


_known: WeakKeyDictionary[Recording, Digest] = WeakKeyDictionary()
"""A message, a card and a report of one run need the same digest."""


def digest(recording: Recording) -> Digest:
    """The digest of a recording; it is worked out once."""
    recording.require_checked()
    source = recording.as_read
    if source not in _known:
        _known[source] = _digest(source)
    return _known[source]


def _digest(recording: Recording) -> Digest:
    launch = round(float(recording.summary.get("launch_ns", 0)) * 1000)
    path = path_of(recording, launch)
    busy, by_site, slowed = _rows(recording)
    total = np.zeros(len(recording.stalls), np.int64)
    for reason, time in path.waits:
        np.add.at(total, reason, time)
    waits = _named(recording.stalls, total)
    rest = recording.makespan - int(path.work.sum()) - sum(waits.values())
    if rest > 0:  # before the first row and after the last result
        waits[LAUNCH] = waits.get(LAUNCH, 0) + rest
    work: dict[str, int] = {}
    lanes = _sums(path.lane, path.work, len(recording.lanes)).tolist()
    for lane, spent in zip(recording.lanes, lanes, strict=True):
        if spent:
            group = "dma" if lane.kind == "dma" else lane.name
            work[group] = work.get(group, 0) + spent
    dma, dma_waiting = _dma(recording)
    return Digest(
        makespan=recording.makespan,
        path=path,
        lanes=_lanes(recording, path, busy, slowed, launch),
        dma=dma,
        dma_waiting=dma_waiting,
        lines=_lines(recording, path, by_site),
        work=_sorted(work),
        waits=_sorted(waits),
    )


def path_of(recording: Recording, launch: int = 0) -> Path:
    """The critical path with its times, in a run that begins with `launch` picoseconds."""
    row = _whole(recording.critical_path).astype(np.int64)
    column = _gathered(recording.rows, row, _OF_PATH)
    start, duration = column["start"], column["duration"]
    names = recording.stalls
    result = np.array([is_by_result(name) for name in names])[column["stall"]]
    end = start + duration
    # A row takes over when the one before it lets it go, and lets the next one go when that takes over.
    begin = np.minimum(
        np.concatenate(([launch], np.where(result[1:], column["ready"][:-1], end[:-1])))[: len(row)], start
    )
    begin = np.maximum.accumulate(begin)
    until = np.maximum(np.append(begin[1:], column["ready"][-1:]), begin)
    start = np.clip(start, begin, until)
    throttled = np.minimum(duration - own_work(duration, column["pace"]), until - start)
    setup = np.minimum(column["setup"], start - begin)
    return Path(
        row=row,
        lane=column["lane"],
        begin=begin,
        work=until - start - throttled,
        rest=start - begin - setup,
        setup=setup,
        throttled=throttled,
        stall=column["stall"],
        setup_stall=column["setup_stall"],
        throttle_reason=column["held"],
    )


_OF_PATH: Final = ("lane", "start", "duration", "ready", "setup", "pace", "stall", "setup_stall", "held")


def _gathered(rows: Columns, row: Array, names: Sequence[str]) -> dict[str, Array]:
    """Return columns of some rows, in whole numbers; those of a file are read piece by piece."""
    out = {name: np.zeros(len(row), np.int64) for name in names}
    order = np.argsort(row, kind="stable")
    ordered = row[order]
    for low, high in pieces(len(rows)):
        first, end = np.searchsorted(ordered, (low, high)).tolist()
        if first < end:
            rows.prefetch(names, low, high)
            for name in names:
                out[name][order[first:end]] = rows[name][ordered[first:end]]
    return out


def is_by_result(stall: str) -> bool:
    """Check whether a wait ends with another row's result. Profiles may have data from engines of their own."""
    return STALL_OF[stall].by_result if stall in STALL_OF else stall.startswith(DATA_FROM)


def own_work(duration: Array, pace: Array) -> Array:
    """The part of rows' durations that is their own work."""
    work: Array = -(-duration * pace.astype(np.int64) // schema.FULL_EFFICIENCY)
    return work


def _rows(recording: Recording) -> tuple[Array, Array, Array]:
    """Busy time by lane; rows, busy time and executed rows by site, at the end of rows without one; slowed time by lane
    and reason."""
    rows, lanes, stalls = recording.rows, len(recording.lanes), len(recording.stalls)
    executed = recording.executed
    sites = len(recording.table("sites"))
    busy = np.zeros(lanes, np.int64)
    slowed = np.zeros(lanes * stalls, np.int64)
    by_site = np.zeros((3, sites + 1), np.int64)
    for low, high in pieces(len(rows)):
        rows.prefetch(("lane", "duration", "site", "pace", "held"), low, high)
        lane, duration, site = (rows[name][low:high].astype(np.int64) for name in ("lane", "duration", "site"))
        work = own_work(duration, rows["pace"][low:high])
        busy += _sums(lane, duration, lanes)
        slowed += _sums(lane * stalls + rows["held"][low:high], duration - work, lanes * stalls)
        site = np.where(site < 0, sites, site)
        by_site[0] += np.bincount(site, minlength=sites + 1)
        by_site[1] += _sums(site, duration, sites + 1)
        by_site[2] += np.bincount(site[executed[low:high]], minlength=sites + 1)
    return busy, by_site, slowed.reshape(lanes, stalls)


def _queues(recording: Recording) -> dict[int, list[int]]:
    """The DMA queues of each core."""
    queues: dict[int, list[int]] = {}
    for lane in recording.lanes:
        if lane.kind == "dma":
            queues.setdefault(lane.core, []).append(lane.number)
    return queues


def _dma(recording: Recording) -> tuple[dict[int, int], dict[int, int]]:
    """By core, the time in which any DMA queue executes, and that in which none does before one will."""
    busy, waiting = dict[int, int](), dict[int, int]()
    for core, lanes in _queues(recording).items():
        begin, end = executing(recording, lanes)
        busy[core] = int((end - begin).sum())
        waiting[core] = int(end[-1]) - busy[core] if len(end) else 0
    return busy, waiting


def executing(recording: Recording, lanes: Sequence[int]) -> tuple[Array, Array]:
    """Begins and ends of the disjoint stretches, in order, in which any of several lanes executes."""
    rows = np.flatnonzero(np.isin(_whole(recording.rows["lane"]), lanes))
    start = _whole(recording.rows["start"])[rows].astype(np.int64)
    end = start + _whole(recording.rows["duration"])[rows].astype(np.int64)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(start > np.concatenate(([-1], end[:-1])))[: len(start)]
    return start[first], end[np.append(first[1:], len(start)) - 1] if len(start) else end


def _sums(group: Array, values: Array, count: int) -> Array:
    """Sums of values by group, in whole numbers."""
    out = np.zeros(count, np.int64)
    np.add.at(out, group, values)
    return out


def _named(names: tuple[str, ...], times: Array) -> dict[str, int]:
    """Times by name, those that are not zero, the longest first."""
    return _sorted({name: time for name, time in zip(names, times.tolist(), strict=True) if time})


def _sorted(times: Mapping[str, int]) -> dict[str, int]:
    """The longest first, equal ones by name."""
    return dict(sorted(times.items(), key=lambda item: (-item[1], item[0])))


def _lanes(recording: Recording, path: Path, busy: Array, slowed: Array, launch: int) -> tuple[LaneTime, ...]:
    names = recording.stalls
    waits = recording.lane_times.copy()
    waits[:, 0] = 0
    critical = _sums(path.lane, path.work + path.throttled, len(busy))
    drawn = recording.table("lane_rows")
    left_out = np.bincount(_whole(recording.rows["lane"])[~recording.executed], minlength=len(busy)).tolist()
    out = []
    for lane in recording.lanes:
        reasons = dict(zip(names, waits[lane.number].tolist(), strict=True))
        first, end = recording.lane_span(lane.number)
        if launch and end > first:
            # The gap before a lane's first row begins with the launch.
            stall = names[int(drawn["stall"][first])]
            reasons[stall] = max(0, reasons[stall] - launch) if int(drawn["stall"][first]) else 0
            reasons[LAUNCH] = reasons.get(LAUNCH, 0) + launch
        mine = int(busy[lane.number])
        reasons = {name: time for name, time in _sorted(reasons).items() if time}
        out.append(
            LaneTime(
                number=lane.number,
                name=lane.name,
                kind=lane.kind,
                core=lane.core,
                rows=end - first - left_out[lane.number],
                busy=mine,
                critical=min(mine, int(critical[lane.number])),
                slowed=_named(names, slowed[lane.number]),
                waits=reasons,
                empty=recording.makespan - mine - sum(reasons.values()),
            )
        )
    return tuple(out)


def _lines(recording: Recording, path: Path, by_site: Array) -> tuple[LineTime, ...]:
    sites = recording.table("sites")
    functions = recording.texts("sites", "function")
    paths, texts = recording.texts("sources", "path"), recording.texts("sources", "text")
    listings = [text.splitlines() for text in texts]
    source, line = (_whole(sites[name]).tolist() for name in ("source", "line"))
    site = recording.rows["site"][path.row] if len(path.row) else np.zeros(0, np.int64)
    places: dict[tuple[int, int], list[int]] = {}
    for number in np.flatnonzero(by_site[0, :-1]).tolist():
        places.setdefault((source[number], line[number]), []).append(number)
    group = np.full(len(sites) + 1, len(places))  # the last group is that of rows without a site
    for number, members in enumerate(places.values()):
        group[members] = number
    mine, names = group[site], recording.stalls
    work = _sums(mine, path.work, len(places) + 1)
    waits = np.zeros((len(places) + 1, len(names)), np.int64)
    for reason, time in path.waits:
        np.add.at(waits, (mine, reason), time)
    out = [
        LineTime(
            file=paths[file],
            line=place,
            function=functions[members[0]],
            text=listings[file][place - 1].strip() if 0 < place <= len(listings[file]) else "",
            rows=int(by_site[2, members].sum()),
            busy=int(by_site[1, members].sum()),
            work=int(work[number]),
            waits=_named(names, waits[number]),
        )
        for number, ((file, place), members) in enumerate(places.items())
    ]
    return tuple(sorted(out, key=lambda item: (-item.critical, -item.busy, item.file, item.line)))
