"""Loops that repeat exactly: a few repetitions are walked, and the others are filled in.

`repeats` finds where ops repeat. There, an engine halts after every so many repetitions, and the machine is looked at:
if it is what it was at an earlier halt but for the time and the numbers of ops (`moments`), what follows is what
followed then. The walk of one more round proves it, and all whole rounds that are left are filled in at once. Then the
walk goes on with the machine as it will be. All columns are those of a walk that takes every op, to the picosecond.

What does not come to repeat is walked: transfers that run further and further ahead, shares of HBM or of the Tensor
Engine's power that drift, a loop whose locks or tensors change each time. Looks become rarer, the longer that goes on.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.timing.columns import Machine, Ops, Times
from nki_lab.kernel_runtime.timing.dma import NEVER
from nki_lab.kernel_runtime.timing.locks import RAMP_FIELDS
from nki_lab.kernel_runtime.timing.moments import Moment, Subject
from nki_lab.kernel_runtime.timing.relation import Relation, powered
from nki_lab.kernel_runtime.timing.repeats import Repeat, repeats_of

_LOOKS: Final = 4  # at machines that are compared with one: then with a later one, twice as far apart
_ROOM: Final = 4  # looks that there are to be room for


def extrapolation_of(laid_out: Machine, machine: Machine, spacing: int, least: int) -> Extrapolation | None:
    """Return what looks at a machine while it runs; None where no loop repeats, or it does not pay.

    `laid_out` is the machine before its first event, with its columns of ops as arrays; `machine` is the one that runs.
    The first looks are `spacing` ops apart, of which one may cost half the time; stretches have `least` ops or more.
    """
    if laid_out.constants.has_arrivals:
        return None  # what comes from other ranks comes at times of its own
    repeats = repeats_of(laid_out, least)
    return Extrapolation(laid_out.ops, machine, repeats, spacing) if repeats else None


class Extrapolation:
    """The looks at a machine. `filled` counts ops whose times were filled in rather than walked."""

    def __init__(self, ops: Ops, machine: Machine, repeats: list[Repeat], spacing: int) -> None:
        times = Times(
            *(np.frombuffer(column, np.uint8 if column.itemsize == 1 else np.int64) for column in machine.times)
        )
        self.filled = 0
        self._subject, self._order, self._spacing = Subject(machine, times, ops.lane), ops.order, spacing
        self._begins = [0, *machine.lanes.end][: len(machine.lanes.end)]
        self._repeats = repeats[::-1]
        self._watched = -1
        self._before = [int(place) for place in machine.lanes.place]
        self._first: Moment | None = None  # with which others are compared, in part
        self._second: Moment | None = None  # with which the next one is compared in full
        self._first_at = 0
        self._bounds: dict[int, tuple[int, int, int]] = {}
        self._next_stretch()

    # -- halts -----------------------------------------------------------------------------------------------------
    def _next_stretch(self) -> None:
        """Let the engines of the next stretch halt in it; whichever does so first is watched."""
        engines = self._subject.machine.lanes.is_queue
        while self._repeats:
            self._repeat, self._bounds = self._repeats.pop(), {}
            self._left = [lane for lane, other in enumerate(self._repeat.lanes) if other >= 0 and not engines[lane]]
            if self._halt_any():
                return

    def _halt_any(self) -> bool:
        """Let those engines halt that have not been watched in this stretch; return whether any will."""
        self._watched, self._first, self._second = -1, None, None
        self._spread, self._looks, self._most = _round(-(-self._spacing // self._repeat.period)), 0, 1
        halts = [self._halt(lane, 1, _ROOM * self._spread) for lane in self._left]
        return any(halts)

    def _release(self) -> None:
        lanes = self._subject.machine.lanes
        for lane, end in enumerate(lanes.end):
            lanes.halt[lane] = end

    def _bounds_of(self, lane: int) -> tuple[int, int, int]:
        """Return the places of a lane's first op in the stretch and behind its last one, and its ops in a period."""
        if lane in self._bounds:
            return self._bounds[lane]
        repeat, begin = self._repeat, self._begins[lane]
        mine = self._order[begin : int(self._subject.machine.lanes.end[lane])]
        ops = (repeat.begin, repeat.begin + repeat.period, repeat.end)
        first, after, end = (begin + np.searchsorted(mine, ops)).tolist()
        self._bounds[lane] = first, end, after - first
        return self._bounds[lane]

    def _halt(self, lane: int, periods: int, room: int = 0) -> bool:
        """Let an engine halt so many periods from here; return whether `room` periods are left there."""
        lanes = self._subject.machine.lanes
        first, end, step = self._bounds_of(lane)
        halt = first + (max(0, int(lanes.place[lane]) - first) // step + periods) * step
        if halt + room * step >= end:
            return False
        lanes.halt[lane] = halt
        return True

    def look(self) -> None:
        """Look at the machine, if it has halted, and see to it that it halts again."""
        machine = self._subject.machine
        lanes, woken = machine.lanes, int(machine.shared.clock[5])
        lane = int(lanes.woken[woken - 1]) if woken else -1
        if lane < 0 or not lanes.place[lane] == lanes.halt[lane] < lanes.end[lane]:
            return
        if self._watched < 0:
            self._watched = lane
            self._left.remove(lane)
            self._release()
        moment = Moment(self._subject, self._repeat, self._before)
        self._before = moment.places
        first, _, step = self._bounds_of(lane)
        periods = self._compare(moment, (int(lanes.place[lane]) - first) // step)
        if not periods or not self._halt(lane, periods):
            # Another engine of the stretch may be worth a look, or the next stretch.
            self._release()
            if not self._halt_any():
                self._next_stretch()

    def _compare(self, moment: Moment, at: int) -> int:
        """Compare the machine with what it was, `at` periods after the begin; return in how many to look again, if so.

        The first machine of a few is compared with those after it, in heads and events only. Where these are the same,
        the later one is compared in full with what it is as many periods later.
        """
        if self._first is not None:
            relation = Relation(self._repeat, at - self._first_at, self._first, moment, self._watched)
            near = relation.is_near
            if near and self._second is None:
                moment.complete()
                self._second, self._first, self._first_at = moment, moment, at
                return relation.step // self._repeat.period
            if self._second is not None:
                if near and self._filled(relation):
                    return 0
                self._second = None
            elif self._looks < self._most:
                self._looks += 1
                return self._spread
            elif self._most < _LOOKS:
                self._most *= 2
            else:
                self._spread *= 2
        self._first, self._first_at, self._looks = moment, at, 1
        return self._spread

    # -- what is filled in -----------------------------------------------------------------------------------------
    def _filled(self, relation: Relation) -> bool:
        """Fill in all whole rounds that are left of the stretch, if the machine is what it was a round before."""
        after, step = relation.after, relation.step
        after.complete()
        if not relation.is_same or not relation.columns_follow(self._subject.times):
            return False
        rounds = (self._repeat.end - 1 - after.high) // step
        for lane, (op, _) in enumerate(after.waits):
            if op >= 0 and not after.moving[lane] and after.moving[int(self._subject.lane[op])]:
                rounds = min(rounds, (op - 1 - after.high) // step)  # a lane that is to be woken
        if rounds > 0:
            _Leap(relation, rounds, self._order, self._begins).take()
            self.filled += rounds * int(relation.moves(after.low - step, after.low).sum())
            self._before = [int(place) for place in self._subject.machine.lanes.place]
        return True


def _round(periods: int) -> int:
    """Return a number of periods, at least so many, that loops within loops are likely to divide."""
    scale = 1
    while True:
        for number in (1, 2, 3, 4, 6, 12, 24):
            if number * scale >= periods:
                return number * scale
        scale *= 60


def _put(block: Column, values: Column, mine: Mask) -> None:
    """Write the columns `mine` of a block."""
    if mine.all():
        block[:] = values
    else:
        block[:, mine] = values[:, mine]


class _Leap:
    """A machine that is moved forward by some rounds, each as the one that `relation` is of."""

    def __init__(self, relation: Relation, rounds: int, order: Column, begins: list[int]) -> None:
        self._relation, self._after, self._rounds = relation, relation.after, rounds
        self._order, self._begins = order, begins
        self._shift, self._step = rounds * relation.shift, rounds * relation.step
        self._lane = powered(relation.lanes, rounds)
        self._lock = powered(relation.locks, rounds)
        self._stream = powered(relation.streams, rounds)
        self._machine = relation.after.machine

    def take(self) -> None:
        """Fill in the times first, since a view reads as far as lanes tell."""
        self._fill()
        self._move_events()
        self._move_triggers()
        self._move_locks()
        self._move_streams()
        self._move_lanes()

    def _fill(self) -> None:
        relation, first, end = self._relation, self._after.low, self._after.high + 1
        step, rounds = relation.step, self._rounds
        mine, under_way = relation.moves(first - step, first), relation.moves(first, end)
        numbers = np.arange(1, rounds + 1)[:, None]
        for column, former in zip(self._after.columns, relation.before.parts, strict=True):
            part = column[first:end].copy()
            final = column[first - step : first]
            block = column[first : first + rounds * step].reshape(rounds, step)
            moved, later = part, final
            if column.itemsize > 1:
                moved = part + rounds * (part - former)
                later = final - column[first - 2 * step : first - step]
            if column.itemsize == 1 or not later.any():
                _put(block, np.broadcast_to(final, block.shape), mine)
            elif mine.all():
                np.multiply(numbers, later, out=block)
                block += final
            else:
                _put(block, numbers * later + final, mine)
            column[first + self._step : end + self._step][under_way] = moved[under_way]

    def _move_events(self) -> None:
        shared, after = self._machine.shared, self._after
        for at, (time, kind, op, _) in enumerate(after.events):
            shared.event_time[at] = time + self._shift
            shared.event_code[at] = (kind << self._machine.constants.kind_bit) + op + self._step
        clock = shared.clock
        clock[0] += self._shift
        if clock[1] != NEVER:
            clock[1] += self._shift
            clock[2] = self._lane[int(clock[2])]
        for column, lanes in ((self._machine.lanes.active, after.active), (self._machine.lanes.woken, after.woken)):
            for at, lane in enumerate(lanes):
                column[at] = self._lane[lane]

    def _move_triggers(self) -> None:
        shared, after, relation = self._machine.shared, self._after, self._relation
        table = [relation.trigger(number) for number in range(len(after.shared.trigger_free))]
        far = powered(table, self._rounds)
        for number, anchor in enumerate(relation.before.shared.trigger_anchor):
            now = table[number]
            moves = after.shared.trigger_anchor[now] != anchor
            free = after.shared.trigger_free[now]
            later = free - relation.before.shared.trigger_free[number] == relation.shift
            shared.trigger_free[far[now]] = free + (self._shift if free and later else 0)
            shared.trigger_anchor[far[now]] = after.shared.trigger_anchor[now] + (self._step if moves else 0)

    def _move_locks(self) -> None:
        shared, after, relation = self._machine.shared, self._after.shared, self._relation
        for before, lock in enumerate(relation.locks):
            if lock < 0:
                continue
            other = self._lock[lock]
            if relation.lock_is_past(before, lock):
                shared.lock_free[other], shared.lock_holder[other] = after.lock_free[lock], after.lock_holder[lock]
                shared.lock_lane[other] = after.lock_lane[lock]
            else:
                shared.lock_free[other] = after.lock_free[lock] + self._shift
                shared.lock_holder[other] = after.lock_holder[lock] + self._step
                shared.lock_lane[other] = self._lane[after.lock_lane[lock]]

    def _move_streams(self) -> None:
        shared, after, relation = self._machine.shared, self._after.shared, self._relation
        lanes = self._machine.lanes
        for before, stream in enumerate(relation.streams):
            if stream < 0:
                continue
            other, past = self._stream[stream], relation.stream_is_past(before, stream)
            shared.stream_next[other] = after.stream_next[stream] + (0 if past else self._shift)
            shared.stream_last[other] = after.stream_last[stream] + (0 if past else self._step)
            shared.stream_busy[other] = after.stream_busy[stream]
            queued = [self._lane[lane] for lane in self._after.queued[stream]]
            shared.stream_head[other] = queued[0] if queued else -1
            for lane, behind in zip(queued, [*queued[1:], -1], strict=False):
                lanes.next_for_stream[lane] = behind

    def _move_lanes(self) -> None:
        after, lanes = self._after, self._machine.lanes
        for before, lane in enumerate(self._relation.lanes):
            if after.moving[lane]:
                self._move_lane(before, lane, self._lane[lane])
                op, ahead = after.waits[lane]
                if op >= 0:
                    lanes.next_waiter[self._lane[lane]] = self._lane[ahead] if ahead >= 0 else -1
        waiting = self._machine.ops.first_waiter
        firsts = {op: int(waiting[op]) for lane, (op, _) in enumerate(after.waits) if op >= 0 and after.moving[lane]}
        for op in firsts:
            waiting[op] = -1
        for op, lane in firsts.items():
            waiting[op + self._step] = self._lane[lane]

    def _move_lane(self, before: int, lane: int, to: int) -> None:
        """Let lane `to` be what `lane` is, later."""
        after, lanes, shared, ops = self._after, self._machine.lanes, self._machine.shared, self._machine.ops
        mine, shift, step = after.lanes, self._shift, self._step
        head = after.heads[lane] + step
        place = self._begins[to] + int(np.searchsorted(self._order[self._begins[to] : int(lanes.end[to])], head))
        lanes.place[to], lanes.cursor[to] = place, int(ops.edge_start[head]) + after.cursors[lane]
        lanes.data_place[to] = place - (mine.place[lane] - mine.data_place[lane])
        lanes.due[to] = mine.due[lane] + shift
        past = self._relation.avail_is_past(before, lane)
        lanes.avail[to] = mine.avail[lane] + (0 if past else shift)
        lanes.cause[to] = mine.cause[lane] + (0 if past or mine.cause[lane] < 0 else step)
        for name in ("last", "busy_with", "pred"):
            value = getattr(mine, name)[lane]
            getattr(lanes, name)[to] = value + step if value >= 0 else value
        for name in ("asked", "ended"):  # what is past stays so
            later = getattr(mine, name)[lane] - getattr(self._relation.before.lanes, name)[before]
            getattr(lanes, name)[to] = getattr(mine, name)[lane] + (shift if later == self._relation.shift else 0)
        for name in ("edge_kind", "table", "stall", "setup", "setup_reason", "placed", "left", "share", "mask", "rate"):
            getattr(lanes, name)[to] = getattr(mine, name)[lane]
        stream = mine.woken_by[lane]
        lanes.woken_by[to] = self._stream[stream] if stream >= 0 else -1
        if lanes.is_queue[lane]:
            return
        lanes.free[to] = mine.free[lane] + shift
        ramp, tiles = mine.ramp_at[lane], mine.tiles_at[lane]
        if ramp >= 0:
            shared.ramps[ramp + RAMP_FIELDS - 1] += shift
        if tiles >= 0:
            for at in range(tiles, tiles + after.shared.tile_state[tiles]):
                shared.tile_ends[at] += shift
            if shared.tile_state[tiles + 1] >= 0:
                shared.tile_state[tiles + 1] += step
            shared.tile_state[tiles + 2] += shift
