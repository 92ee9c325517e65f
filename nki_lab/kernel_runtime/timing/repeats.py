"""Stretches of a program that repeat: the same instructions with the same needs, every so many ops.

Loops of a kernel are unrolled into ops, whatever they were written as, so that a stretch is found in the columns of a
machine. From one repetition to the next, an op may change its DMA queue, its locks and its streams for others, as
transfers that are dealt to queues in turn do, as long as each has one successor for all of the stretch. What an op
waits for is as far before it as in the repetition before, or the same op before the stretch, as a constant that is
loaded once.
"""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.footprint import Column, distinct
from nki_lab.kernel_runtime.timing.columns import Lanes, Machine, Ops
from nki_lab.kernel_runtime.timing.streams import listed

_FEWEST: Final = 6  # repetitions of a stretch
_SAMPLES, _FEWEST_SAMPLES = 12, 3  # places of a program at which a stretch is looked for
_WINDOWS: Final = (16, 128, 1024)  # ops that are to come again: those of an inner loop, and of loops around it
_POPULAR: Final = 8  # ops that so many wait for may be constants
_MOST: Final = 8  # periods that are tried
_WORTH: Final = 4  # the part of all ops that is worth another look


class Repeat(NamedTuple):
    """The ops from `begin` to before `end`, `period` after `period`.

    `lanes`, `locks`, `streams` are what follows on each in the next repetition, -1 where the stretch does not use it.
    Ops wait for others at most `reach` before them, but for the ops `constants` of each lane, from before the stretch.
    """

    begin: int
    end: int
    period: int
    lanes: list[int]
    locks: list[int]
    streams: list[int]
    reach: int
    constants: dict[int, Column]


def repeats_of(machine: Machine, least: int) -> list[Repeat]:
    """Return stretches of at least so many ops that repeat, in order. `machine` has its columns of ops as arrays."""
    ops, count = machine.ops, len(machine.ops.variant)
    if count < least:
        return []
    search = None
    samples = max(_FEWEST_SAMPLES, min(_SAMPLES, count // least))
    for at in (count * (2 * number + 1) // (2 * samples) for number in range(samples)):
        if search is not None and (search.has(at) or search.left <= count // _WORTH):
            continue
        periods = [_comes_again(ops.variant, at, window) for window in _WINDOWS if window <= count // _FEWEST]
        if not any(periods):
            continue
        if search is None:
            if not _in_program_order(ops, machine.lanes):
                return []  # places in a lane tell no order of ops: a user or the compiler has ordered them anew
            search = _Search(machine, least)
        search.look(at, periods)
    return [] if search is None else sorted(search.found, key=attrgetter("begin"))


def _comes_again(column: Column, at: int, window: int) -> int:
    """Return after how many ops a window of a column comes again, 0 if it does not come soon."""
    pattern = column[at : at + window]
    if len(pattern) < window:
        return 0
    last = min(len(column) - window, at + len(column) // _FEWEST)
    places = np.flatnonzero(column[at + 1 : last + 1] == pattern[0]) + at + 1
    step = 1
    while len(places) and step < window:  # few are left after some of the window
        places = places[column[places + step] == pattern[step]]
        step += 1 + step // 4
    for place in places[:4].tolist():
        if np.array_equal(column[place : place + window], pattern):
            return int(place) - at
    return 0


def _in_program_order(ops: Ops, lanes: Lanes) -> bool:
    """Return whether each lane takes its ops, which are all there are, in their order in the program."""
    later = np.diff(ops.order) > 0
    later[[end - 1 for end in lanes.end if 0 < end < len(ops.order)]] = True
    return len(ops.order) == len(ops.variant) and bool(later.all())


class _Search:
    """A machine whose stretches are looked for, with what was `found`: stretches that do not overlap."""

    def __init__(self, machine: Machine, least: int) -> None:
        self.found: list[Repeat] = []
        self._machine, self._ops, self._fewest = machine, machine.ops, least
        self._edges = np.diff(machine.ops.edge_start)
        self._streams = listed(machine.ops.stream, machine.ops.more_at, machine.ops.more_streams)
        counts = [np.diff(start) for start in (machine.ops.lock_start, self._streams[0])]
        columns = [self._edges, *counts, machine.ops.reused]
        if machine.constants.has_loops:
            columns.append(machine.ops.loops)
        self._columns = [column for column in columns if column.any()]
        self._tried: set[int] = set()
        self._every = np.arange(len(machine.ops.variant) + 1)

    def has(self, at: int) -> bool:
        """Return whether an op is in a stretch that was found."""
        return any(repeat.begin <= at < repeat.end for repeat in self.found)

    @property
    def left(self) -> int:
        """How many ops are in no stretch."""
        return len(self._ops.variant) - sum(repeat.end - repeat.begin for repeat in self.found)

    def look(self, at: int, periods: list[int]) -> None:
        """Look for stretches with the periods of the instructions of one place; keep the longest of those that overlap.

        Where instructions repeat but not what they wait for, that may repeat with another period.
        """
        if self._add(periods) and not self.has(at):
            self._add([_comes_again(self._signature, at, window) for window in _WINDOWS])

    def _add(self, periods: list[int]) -> bool:
        """Add the stretches of some periods, and return whether instructions do repeat with any."""
        found: list[Repeat] = []
        repeats = False
        for period in set(periods) - self._tried - {0}:
            if len(self._tried) < _MOST:
                self._tried.add(period)
                stretches = self._stretches(period)
                repeats |= stretches is not None
                found += stretches or []
        for repeat in sorted(found, key=lambda mine: mine.begin - mine.end + _FEWEST * mine.period):
            if all(repeat.end <= other.begin or other.end <= repeat.begin for other in self.found):
                self.found.append(repeat)
        return repeats

    @cached_property
    def _signature(self) -> Column:
        return self._signatures()

    def _stretches(self, period: int) -> list[Repeat] | None:
        """Return the stretches whose ops repeat after `period`, None where instructions alone do not."""
        least = max(self._fewest, (_FEWEST - 1) * period)
        pairs = len(self._ops.variant) - period
        if pairs < least:
            return None
        bad = self._ops.variant[:pairs] != self._ops.variant[period:]
        if not _gaps(np.flatnonzero(bad), 0, pairs, least):
            return None
        for column in self._columns:
            bad |= column[:pairs] != column[period:]
        found = []
        for begin, end in _gaps(np.flatnonzero(bad), 0, pairs, least):
            for first, last in _gaps(self._other_waits(begin, end, period), begin, end, least):
                repeat = self._repeat(first, last, period, least)
                if repeat is not None:
                    found.append(repeat)
        return found

    def _signatures(self) -> Column:
        """Return a number of each op that is the same in all repetitions: its variant, and how far back it waits."""
        ops = self._ops
        found: Column = ops.variant * 8 + self._edges % 8
        if len(ops.pred):
            popular = np.bincount(ops.pred, minlength=len(ops.variant)) > _POPULAR
            has = np.flatnonzero(self._edges)
            last = ops.pred[ops.edge_start[has + 1] - 1]
            found[has] += (np.where(popular[last], 0, has - last) + 1) << 32
        return found

    def _repeat(self, begin: int, end: int, period: int, least: int) -> Repeat | None:
        """Return the stretch of ops that are like those `period` later, as far as lanes, locks and streams follow."""
        ops, shared = self._ops, self._machine.shared
        every = self._every
        followers: list[list[int]] = []
        for start, member, count in (
            (every, ops.lane, len(self._machine.lanes.core)),
            (ops.lock_start, ops.lock, len(shared.lock_free)),
            (*self._streams, len(shared.stream_next)),
        ):
            first, last = int(start[begin]), int(start[end])
            step = int(start[begin + period]) - first
            found, wrong = _followers(member[first:last], member[first + step : last + step], count)
            if len(wrong):
                rows = np.searchsorted(start, first + wrong, "right") - 1
                begin, end = max(_gaps(rows, begin, end, 0), key=lambda gap: gap[1] - gap[0])
            if found is None or end - begin < least:
                return None
            followers.append(found)
        lanes, locks, streams = followers
        end += period
        reach, constants = self._waits(begin, period)
        if not self._alike(lanes) or any((rows >= begin).any() for rows in constants.values()):
            return None
        return Repeat(begin, end, period, lanes, locks, streams, reach, constants)

    def _other_waits(self, begin: int, end: int, period: int) -> Column:
        """Return the ops which wait for others than at the same distance `period` later, or the same ones as before.

        Which of these two it is may not change either.
        """
        ops = self._ops
        first, last = int(ops.edge_start[begin]), int(ops.edge_start[end])
        step = int(ops.edge_start[begin + period]) - first
        apart = ops.pred[first + step : last + step] - ops.pred[first:last]
        bad = ops.kind[first + step : last + step] != ops.kind[first:last]
        bad |= (apart != period) & (apart != 0)
        bad[step:] |= apart[step:] != apart[: len(apart) - step]
        rows = np.searchsorted(ops.edge_start, first + np.flatnonzero(bad), "right") - 1
        flow, after = ops.lane_flow[begin:end], ops.lane_flow[begin + period : end + period]
        far = after - flow
        wrong = ((far != period) & (far != 0)) | ((flow < 0) != (after < 0))
        wrong[period:] |= far[period:] != far[:-period]
        return distinct(np.concatenate((rows, begin + np.flatnonzero(wrong))))

    def _alike(self, lanes: list[int]) -> bool:
        """Return whether nothing but queues that are alike follow on each other."""
        mine = self._machine.lanes
        return all(
            other in (lane, -1)
            or (
                mine.is_queue[lane]
                and (mine.is_queue[other], mine.core[other], mine.data_reason[other])
                == (True, mine.core[lane], mine.data_reason[lane])
            )
            for lane, other in enumerate(lanes)
        )

    def _waits(self, begin: int, period: int) -> tuple[int, dict[int, Column]]:
        """Return how far back ops of a stretch wait, and the ops that those of each lane wait for in all repetitions.

        Two repetitions tell: the mode of an edge is the same in all.
        """
        ops = self._ops
        rows = np.arange(begin, begin + period)
        first, last = int(ops.edge_start[begin]), int(ops.edge_start[begin + period])
        after = int(ops.edge_start[begin + 2 * period])
        row = np.concatenate((np.repeat(rows, self._edges[rows]), rows))
        pred = np.concatenate((ops.pred[first:last], ops.lane_flow[rows]))
        later = np.concatenate((ops.pred[last:after], ops.lane_flow[rows + period]))
        same = (pred == later) & (pred >= 0)
        moving = (pred >= 0) & ~same
        constants: dict[int, Column] = {}
        lane = ops.lane[row[same]]
        for number in distinct(lane).tolist():
            constants[number] = distinct(pred[same][lane == number])
        return int((row - pred)[moving].max(initial=0)), constants


def _followers(member: Column, after: Column, count: int) -> tuple[list[int] | None, NDArray[np.int64]]:
    """Return what comes after each member (-1: not used), and the places that differ.

    None if they do not follow each other round and round, as fresh tensors of each iteration do not.
    """
    table = np.full(count, -1, np.int64)
    table[member] = after
    wrong = np.flatnonzero(table[member] != after)
    return (table.tolist() if np.array_equal(np.sort(table[table >= 0]), np.flatnonzero(table >= 0)) else None), wrong


def _gaps(rows: Column, begin: int, end: int, least: int) -> list[tuple[int, int]]:
    """Return the (begin, end) of stretches of at least so many ops between some rows, which are in order."""
    edges = np.concatenate(([begin - 1], rows, [end]))
    at = np.flatnonzero(np.diff(edges) > least)
    return list(zip((edges[at] + 1).tolist(), edges[at + 1].tolist(), strict=True))
