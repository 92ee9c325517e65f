"""Stretches of a program that repeat: the same instructions with the same needs, every so many ops.

Loops of a kernel are unrolled into ops, whatever they were written as, so that a stretch is found in the columns of a
machine. From one repetition to the next, an op may change its DMA queue, its locks and its streams for others, as
transfers that are dealt to queues in turn do, as long as each has one successor for all of the stretch. What an op
waits for is as far before it as in the repetition before, or the same op before the stretch, as a constant that is
loaded once.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.timing.columns import Lanes, Machine, Ops

_FEWEST: Final = 6  # repetitions of a stretch
_SAMPLES: Final = 12  # places of a program at which a stretch is looked for
_WINDOWS: Final = (16, 128, 1024)  # ops that are to come again: those of an inner loop, and of loops around it
_POPULAR: Final = 8  # ops that so many wait for may be constants


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
    if count < least or not any(_places(ops.variant, at, window) for at, window in _looks(count)):
        return []
    if not _in_program_order(ops, machine.lanes):
        return []  # places in a lane tell no order of ops: none of our schedules but one that a user has reordered
    searched = _Search(machine, least)
    found: list[Repeat] = []
    for at in sorted({at for at, _ in _looks(count)}):
        if not any(repeat.begin <= at < repeat.end for repeat in found):
            free = max((repeat.end for repeat in found), default=0)
            best = searched.best(at, free)
            if best is not None:
                found.append(best)
    return found


def _looks(count: int) -> list[tuple[int, int]]:
    """Return (place, ops that are to come again there) where a stretch of a program is looked for."""
    places = [count * (2 * number + 1) // (2 * _SAMPLES) for number in range(_SAMPLES)]
    return [(at, window) for at in places for window in _WINDOWS if window <= count // _FEWEST]


def _places(column: Column, at: int, window: int) -> int:
    """Return after how many ops a window of a column comes again, 0 if it does not come soon."""
    pattern = column[at : at + window]
    last = min(len(column) - window, at + len(column) // _FEWEST)
    places = np.flatnonzero(column[at + 1 : last + 1] == pattern[0]) + at + 1 if len(pattern) == window else _NONE
    step = 1
    while len(places) and step < window:  # few are left after some of the window
        places = places[column[places + step] == pattern[step]]
        step += 1 + step // 4
    for place in places[:4].tolist():
        if np.array_equal(column[place : place + window], pattern):
            return int(place) - at
    return 0


_NONE: Final[Column] = np.zeros(0, np.int64)


def _in_program_order(ops: Ops, lanes: Lanes) -> bool:
    """Return whether each lane takes its ops, which are all there are, in their order in the program."""
    later = np.diff(ops.order) > 0
    later[[end - 1 for end in lanes.end if 0 < end < len(ops.order)]] = True
    return len(ops.order) == len(ops.variant) and bool(later.all())


class _Search:
    """A machine whose stretches are looked for, with what more than one look needs."""

    def __init__(self, machine: Machine, least: int) -> None:
        self._machine, self._ops, self._fewest = machine, machine.ops, least
        self._edges = np.diff(machine.ops.edge_start)
        self._locks, self._streams = np.diff(machine.ops.lock_start), np.diff(machine.ops.stream_start)
        self._signature = self._signatures()

    def best(self, at: int, free: int) -> Repeat | None:
        """Return the stretch round a place, not before op `free`, that leaves the fewest ops to be walked."""
        found: Repeat | None = None
        most, tried = 0, set()
        for window in _WINDOWS:
            period = _places(self._signature, at, window)
            if period and period not in tried:
                tried.add(period)
                repeat = self._around(at, period, free)
                if repeat is not None and (gain := repeat.end - repeat.begin - _FEWEST * period) > most:
                    found, most = repeat, gain
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

    def _around(self, at: int, period: int, free: int) -> Repeat | None:
        """Return the longest stretch round a place whose ops repeat after `period`."""
        pairs = _Pairs(at, free, len(self._ops.variant) - period, period)
        ops = self._ops
        for column in (ops.variant, self._edges, self._locks, self._streams, ops.reused):
            pairs.keep(column)
        if self._machine.constants.has_loops:
            pairs.keep(ops.loops)
        if pairs.count < self._least(period):
            return None
        self._edges_repeat(pairs)
        lanes = pairs.followed(ops.lane, len(self._machine.lanes.core))
        locks = self._members(pairs, ops.lock_start, ops.lock, len(self._machine.shared.lock_free))
        streams = self._members(pairs, ops.stream_start, ops.stream, len(self._machine.shared.stream_next))
        if pairs.count < self._least(period) or any(found is None for found in (lanes, locks, streams)):
            return None
        if not self._alike(lanes or []):
            return None
        begin, end = pairs.begin, pairs.end + period
        reach, constants = self._waits(begin, end, period)
        if any((rows >= begin).any() for rows in constants.values()):
            return None
        return Repeat(begin, end, period, lanes or [], locks or [], streams or [], reach, constants)

    def _least(self, period: int) -> int:
        """Return the pairs of ops that a stretch has at least."""
        return max(self._fewest, (_FEWEST - 1) * period)

    def _edges_repeat(self, pairs: _Pairs) -> None:
        """Leave out pairs of ops which wait for others than those at the same distance, or the same ones as before."""
        ops, period = self._ops, pairs.period
        first, last = int(ops.edge_start[pairs.begin]), int(ops.edge_start[pairs.end])
        step = int(ops.edge_start[pairs.begin + period]) - first
        apart = ops.pred[first + step : last + step] - ops.pred[first:last]
        bad = (apart != period) & (apart != 0)
        bad |= ops.kind[first + step : last + step] != ops.kind[first:last]
        bad[step:] |= apart[step:] != apart[: len(apart) - step]
        rows = np.searchsorted(ops.edge_start, first + np.flatnonzero(bad), "right") - 1
        flow = ops.lane_flow[pairs.begin : pairs.end]
        after = ops.lane_flow[pairs.begin + period : pairs.end + period]
        far = after - flow
        wrong = ((far != period) & (far != 0)) | ((flow < 0) != (after < 0))
        wrong[period:] |= far[period:] != far[:-period]
        pairs.drop(np.concatenate((rows, pairs.begin + np.flatnonzero(wrong))))

    def _members(self, pairs: _Pairs, start: Column, member: Column, count: int) -> list[int] | None:
        """Return what follows on each of the members that ops have, which is one each for all of the stretch."""
        if pairs.begin >= pairs.end:
            return None
        first, last = int(start[pairs.begin]), int(start[pairs.end])
        step = int(start[pairs.begin + pairs.period]) - first
        found, wrong = _followers(member[first:last], member[first + step : last + step], count)
        if found is not None and len(wrong):
            pairs.drop(np.searchsorted(start, first + wrong, "right") - 1)
        return found

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

    def _waits(self, begin: int, end: int, period: int) -> tuple[int, dict[int, Column]]:
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
        # A lane may change from repetition to repetition: all of those that follow on it have its constants.
        lane = ops.lane[row[same]]
        for number in np.unique(lane).tolist():
            constants[number] = np.unique(pred[same][lane == number])
        return int((row - pred)[moving].max(initial=0)), constants


def _followers(member: Column, after: Column, count: int) -> tuple[list[int] | None, NDArray[np.int64]]:
    """Return what comes after each member (-1: not used), and the places that differ.

    None if they do not follow each other round and round, as fresh tensors of each iteration do not.
    """
    table = np.full(count, -1, np.int64)
    table[member] = after
    wrong = np.flatnonzero(table[member] != after)
    return (table.tolist() if np.array_equal(np.sort(table[table >= 0]), np.flatnonzero(table >= 0)) else None), wrong


class _Pairs:
    """The ops from `begin` to before `end` of which each is like the one `period` later, as far as was looked."""

    def __init__(self, at: int, begin: int, end: int, period: int) -> None:
        self.begin, self.end, self.period = begin, end, period
        self._at = at

    @property
    def count(self) -> int:
        """The number of pairs."""
        return self.end - self.begin

    def drop(self, rows: Any) -> None:
        """Leave out rows, and what is beyond them."""
        if not len(rows):
            return
        before, behind = rows[rows < self._at], rows[rows >= self._at]
        self.begin = max(self.begin, int(before.max(initial=-1)) + 1)
        self.end = min(self.end, int(behind.min(initial=self.end)))

    def keep(self, column: Column) -> None:
        """Leave out ops with another number in a column than `period` later."""
        if self.begin < self.end:
            same = column[self.begin : self.end] == column[self.begin + self.period : self.end + self.period]
            if not same.all():
                self.drop(self.begin + np.flatnonzero(~same))

    def followed(self, column: Column, count: int) -> list[int] | None:
        """Return what follows on each number of a column, which is one each for all of the stretch."""
        if self.begin >= self.end:
            return None
        found, wrong = _followers(
            column[self.begin : self.end], column[self.begin + self.period : self.end + self.period], count
        )
        self.drop(self.begin + wrong)
        return found
