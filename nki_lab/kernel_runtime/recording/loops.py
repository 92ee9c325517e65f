"""The loops of a run with their iterations: intervals, warm-up, steady state, and the iteration that stands for all.

Iterations overlap: the loads of one run beside the work of the one before. What an iteration adds to the time of its
loop is therefore counted from end to end; these intervals of one execution of the loop add up to its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.kernel_runtime.number_sets import distinct, equal_columns
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.recording.figures import REGULAR
from nki_lab.kernel_runtime.recording.recording import Recording
from nki_lab.kernel_runtime.vocabulary import ITERATION_STATES, LOOP_KINDS

UNSETTLED, WARM_UP, STEADY, OUTLIER = range(len(ITERATION_STATES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop of the source on one core, with its figures; times in picoseconds.

    `variable` is the loop's own, `kind` "python" or "device", `parent` the loop around it among the same loops (-1:
    none) and `depth` how many are around it. `file` is empty and `line` 0 where they are unknown. It was executed
    `executions` times, with `iterations` that have an instruction, from `begin` to `end`. `warm_up` and `outliers`
    count iterations; `steady` tells whether it ever reached its steady state. `interval` is the initiation interval,
    `mean` and `spread` are of the same intervals: those after the warm-up, or all where there is no steady state.
    `representative` is the row of the table `iterations` that is nearest to the initiation interval.
    """

    number: int
    variable: str
    kind: str
    parent: int
    depth: int
    core: int
    file: str
    line: int
    executions: int
    iterations: int
    begin: int
    end: int
    warm_up: int
    outliers: int
    steady: bool
    interval: int
    mean: float
    spread: float
    representative: int


class Iterations(NamedTuple):
    """Columns by row of the table `iterations`; an iteration without an instruction is in no loop: `loop` is -1.

    `begin` and `end` are from the start of its first row to the end of its last, in picoseconds, `rows` how many it
    has, those of loops within it included. `execution` numbers the executions of all loops. `interval` is what it adds
    to the time of its execution, `state` a number of `ITERATION_STATES`.
    """

    loop: Array
    execution: Array
    begin: Array
    end: Array
    rows: Array
    interval: Array
    state: Array


class Loops(NamedTuple):
    """The loops of a recording, outer ones before inner ones, and its iterations."""

    loops: tuple[Loop, ...]
    iterations: Iterations


_known: WeakKeyDictionary[Recording, Loops] = WeakKeyDictionary()


def loops(recording: Recording) -> Loops:
    """Return the loops of a recording; they are worked out once."""
    if recording not in _known:
        _known[recording] = _loops(recording)
    return _known[recording]


def _loops(recording: Recording) -> Loops:
    table = recording.table("iterations")
    parent = whole(table["parent"]).astype(np.int64)
    depth = _depths(parent)
    begin, end, rows, first = _extents(recording, parent, depth)
    core_of_lane = np.array([lane.core for lane in recording.lanes] or [0], np.int64)
    core = core_of_lane[whole(recording.rows["lane"])[first]] if len(recording) else np.zeros(len(parent), np.int64)
    place = _places(recording, parent, depth, core, rows > 0)
    execution, order = _executions(parent, place, whole(table["value"]))
    interval = _intervals(execution[order], begin[order], end[order])
    state = np.zeros(len(parent), np.uint8)
    intervals = np.zeros(len(parent), np.int64)
    intervals[order] = interval
    for number in range(int(place.max(initial=-1)) + 1):
        mine = order[place[order] == number]
        state[mine] = _states(execution[mine], intervals[mine])
    columns = Iterations(place, execution, begin, end, rows, intervals, state)
    return Loops(_figures(recording, columns, order, parent, depth, core), columns)


def _depths(parent: Array) -> Array:
    """Return how many iterations are around each."""
    out, around = np.zeros(len(parent), np.int64), parent.copy()
    while (inside := around >= 0).any():
        out += inside
        around[inside] = parent[around[inside]]
    return out


def _extents(recording: Recording, parent: Array, depth: Array) -> tuple[Array, Array, Array, Array]:
    """Return begin, end, number of rows and first row of each iteration, with those of the loops within it."""
    count = len(parent)
    innermost = whole(recording.rows["iteration"])
    chosen = np.flatnonzero((innermost >= 0) & recording.executed)
    at = innermost[chosen]
    starts = whole(recording.rows["start"])[chosen]
    begin, end = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    first = np.full(count, len(recording), np.int64)
    np.minimum.at(begin, at, starts)
    np.maximum.at(end, at, starts + whole(recording.rows["duration"])[chosen])
    np.minimum.at(first, at, chosen)
    rows = np.bincount(at, minlength=count).astype(np.int64)
    for level in range(int(depth.max(initial=0)), 0, -1):
        inner = np.flatnonzero((depth == level) & (rows > 0))
        outer = parent[inner]
        np.minimum.at(begin, outer, begin[inner])
        np.maximum.at(end, outer, end[inner])
        np.minimum.at(first, outer, first[inner])
        np.add.at(rows, outer, rows[inner])
    empty = rows == 0
    begin[empty], end[empty], first[empty] = 0, 0, 0
    return begin, end, rows, first


def _places(recording: Recording, parent: Array, depth: Array, core: Array, used: Array) -> Array:
    """Return the number of each iteration's loop: variable, place in the source and core, in the loop around it."""
    table = recording.table("iterations")
    out, known = np.full(len(parent), -1, np.int64), 0
    keys = np.stack((whole(table["loop"]).astype(np.int64), whole(table["site"]).astype(np.int64), core))
    for level in range(int(depth.max(initial=-1)) + 1):
        mine = np.flatnonzero((depth == level) & used)
        if not len(mine):
            continue
        around = np.where(parent[mine] >= 0, out[parent[mine]], -1)
        first, group = equal_columns(np.concatenate((around[None], keys[:, mine])))
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))  # in the order of the program
        out[mine] = known + rank[group]
        known += len(first)
    return out


def _executions(parent: Array, place: Array, value: Array) -> tuple[Array, Array]:
    """Return the execution of each iteration, -1 of those in no loop, and the others in order of their executions.

    A loop is executed once in each iteration around it, and again where it begins with its first value again.
    """
    used = np.flatnonzero(place >= 0)
    order = used[np.lexsort((used, parent[used], place[used]))]
    mine, around, values = place[order], parent[order], value[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (mine[1:] != mine[:-1]) | (around[1:] != around[:-1])
    group = np.cumsum(begins) - 1
    begins |= values == values[begins][group] if len(order) else begins
    execution = np.full(len(place), -1, np.int64)
    execution[order] = np.cumsum(begins) - 1
    return execution, order


def _intervals(execution: Array, begin: Array, end: Array) -> Array:
    """Return what each iteration adds to the time of its execution; executions follow each other."""
    count = len(execution)
    if not count:
        return np.zeros(0, np.int64)
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(count, np.int64)
    rank[by_end] = np.arange(count)
    base = execution * count
    latest = end[by_end[np.maximum.accumulate(base + rank) - base]]
    firsts = np.flatnonzero(np.diff(execution, prepend=-1))
    before = np.concatenate(([0], latest[:-1]))
    before[firsts] = np.minimum.reduceat(begin, firsts)
    out: Array = latest - before
    return out


def _states(execution: Array, interval: Array) -> Array:
    """Return the state of the iterations of one loop, whose executions follow each other."""
    middle = float(np.median(interval))
    regular = np.abs(interval - middle) <= REGULAR * middle
    same = execution[1:] == execution[:-1]
    settles = np.append(regular[1:] & regular[:-1] & same, False)
    firsts = np.flatnonzero(np.diff(execution, prepend=-1))
    lengths = np.diff(np.append(firsts, len(execution)))
    places = np.where(settles, np.arange(len(execution)), len(execution))
    settled = np.repeat(np.minimum.reduceat(places, firsts), lengths)
    out = np.where(regular, STEADY, OUTLIER).astype(np.uint8)
    out[np.arange(len(execution)) < settled] = WARM_UP
    out[settled == len(execution)] = UNSETTLED
    return out


def _figures(
    recording: Recording, columns: Iterations, order: Array, parent: Array, depth: Array, core: Array
) -> tuple[Loop, ...]:
    table, sites = recording.table("iterations"), recording.table("sites")
    paths = recording.texts("sources", "path")
    out = []
    for number in range(int(columns.loop.max(initial=-1)) + 1):
        mine = order[columns.loop[order] == number]
        state, one = columns.state[mine], int(mine[0])
        steady = bool((state == STEADY).any())
        counted = mine[state >= STEADY] if steady else mine
        intervals = columns.interval[counted]
        middle = float(np.median(intervals))
        site = int(table["site"][one])
        out.append(
            Loop(
                number=number,
                variable=recording.names[int(table["loop"][one])],
                kind=LOOP_KINDS[int(table["kind"][one])],
                parent=int(columns.loop[parent[one]]) if parent[one] >= 0 else -1,
                depth=int(depth[one]),
                core=int(core[one]),
                file=paths[int(sites["source"][site])] if site >= 0 else "",
                line=int(sites["line"][site]) if site >= 0 else 0,
                executions=len(distinct(columns.execution[mine])),
                iterations=len(mine),
                begin=int(columns.begin[mine].min()),
                end=int(columns.end[mine].max()),
                warm_up=int((state == WARM_UP).sum()),
                outliers=int((state == OUTLIER).sum()),
                steady=steady,
                interval=round(middle),
                mean=float(intervals.mean()),
                spread=float(intervals.std()),
                representative=int(counted[np.abs(intervals - middle).argmin()]),
            )
        )
    return tuple(out)
