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

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.timing.columns import Machine, Ops, Times
from nki_lab.kernel_runtime.timing.dma import NEVER
from nki_lab.kernel_runtime.timing.event_loop import KIND_BIT, LANE_BITS
from nki_lab.kernel_runtime.timing.locks import RAMP_FIELDS
from nki_lab.kernel_runtime.timing.moments import Moment, Relation, Subject, powered
from nki_lab.kernel_runtime.timing.repeats import Repeat, repeats_of

_LOOKS: Final = 8  # at machines that are compared with one: then with a later one, twice as far apart


def extrapolation_of(laid_out: Machine, machine: Machine, spacing: int) -> Extrapolation | None:
    """Return what looks at a machine while it runs; None where no loop repeats, or it does not pay.

    `laid_out` is the machine before its first event, with its columns of ops as arrays; `machine` is the one that runs.
    A look costs as much as the walk of a part of `spacing` ops.
    """
    if laid_out.constants.limit or laid_out.constants.has_arrivals:
        # Cores of a launch go through their loops side by side, but their ops stand one after the other; and what comes
        # from other ranks comes at times of its own.
        return None
    repeats = repeats_of(laid_out)
    return Extrapolation(laid_out.ops, machine, repeats, spacing) if repeats else None


class Extrapolation:
    """The looks at a machine. `filled` counts ops whose times were filled in rather than walked."""

    def __init__(self, ops: Ops, machine: Machine, repeats: list[Repeat], spacing: int) -> None:
        times = Times(*(np.frombuffer(column, np.uint8 if column.itemsize == 1 else np.int64) for column in machine.times))
        self.filled = 0
        self._subject, self._order, self._spacing = Subject(machine, times, ops.lane), ops.order, spacing
        self._begins = [0, *machine.lanes.end][: len(machine.lanes.end)]
        self._repeats = repeats[::-1]
        self._watched = -1
        self._before = [int(place) for place in machine.lanes.place]
        self._first: Moment | None = None
        self._next_stretch()

    # -- halts -----------------------------------------------------------------------------------------------------
    def _next_stretch(self) -> None:
        """Let the engines of the next stretch halt in it; whichever does so first is watched."""
        self._release()
        while self._repeats:
            self._repeat = self._repeats.pop()
            self._spaced = max(1, -(-self._spacing // self._repeat.period))
            engines = self._subject.machine.lanes.is_queue
            self._left = [lane for lane, other in enumerate(self._repeat.lanes) if other >= 0 and not engines[lane]]
            if self._halt_any():
                return

    def _halt_any(self) -> bool:
        """Let those engines halt that have not been watched in this stretch; return whether any will."""
        self._watched, self._first, self._second = -1, None, None
        self._spread, self._looks = self._spaced, 0
        return any([self._halt(lane, 1) for lane in self._left])

    def _release(self) -> None:
        lanes = self._subject.machine.lanes
        for lane, end in enumerate(lanes.end):
            lanes.halt[lane] = end

    def _halt(self, lane: int, periods: int) -> bool:
        """Let an engine halt so many periods from here; return whether that is before the end of the stretch."""
        lanes, repeat = self._subject.machine.lanes, self._repeat
        mine = self._order[self._begins[lane] : int(lanes.end[lane])]
        first, after, end = np.searchsorted(
            mine, (repeat.begin, repeat.begin + repeat.period, repeat.end)
        ).tolist()
        step, place = after - first, int(lanes.place[lane]) - self._begins[lane]
        passed = max(0, place - first) // step
        halt = first + (passed + periods) * step
        if not first < halt < end:
            return False
        lanes.halt[lane] = self._begins[lane] + halt
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
        self._compare(moment)

    def _compare(self, moment: Moment) -> None:
        """Compare the machine with what it was, and let it halt again."""
        lanes = self._subject.machine.lanes
        begin = self._begins[self._watched]
        mine = self._order[begin : int(lanes.end[self._watched])]
        first, after = np.searchsorted(mine, (self._repeat.begin, self._repeat.begin + self._repeat.period)).tolist()
        at = (int(lanes.place[self._watched]) - begin - first) // (after - first)
        if self._first is None:
            self._first, self._first_at, self._looks = moment, at, 0
            moment.complete()
        elif self._second is None:
            self._looks += 1
            if self._relation(self._first, moment, at - self._first_at):
                self._second, self._second_at = moment, at
                self._go_on(at - self._first_at)
                return
            if self._looks == _LOOKS:
                self._spread *= 2
                self._first, self._first_at, self._looks = moment, at, 0
                moment.complete()
        else:
            relation = self._relation(self._second, moment, at - self._second_at)
            if relation is not None and self._filled(relation):
                self._give_up()
                return
            self._first, self._first_at, self._second, self._looks = moment, at, None, 0
            moment.complete()
        self._go_on(self._spread)

    def _go_on(self, periods: int) -> None:
        if not self._halt(self._watched, periods):
            self._give_up()

    def _give_up(self) -> None:
        """Watch another engine of the stretch, or go to the next stretch."""
        self._release()
        if not self._halt_any():
            self._next_stretch()

    def _relation(self, before: Moment, after: Moment, count: int) -> Relation | None:
        """Return how a moment follows from an earlier one, None if it does not."""
        found = Relation(self._repeat, count, before, after, self._watched)
        if not found.is_near:
            return None
        after.complete()
        return found if found.is_same else None

    # -- what is filled in -----------------------------------------------------------------------------------------
    def _filled(self, relation: Relation) -> bool:
        """Fill in all whole rounds that are left of the stretch, where the last one proves that all are the same."""
        after, step = relation.after, relation.step
        assert self._first is not None and self._second is not None
        former = Relation(self._repeat, step // self._repeat.period, self._first, self._second, self._watched)
        rounds = (self._repeat.end - 1 - after.high) // step
        for lane, (op, _) in enumerate(after.waits):
            if op > after.high and not after.moving[lane]:  # a lane that is to be woken within
                rounds = min(rounds, (op - 1 - after.high) // step)
        if rounds < 1 or former.shift != relation.shift or not relation.columns_follow(self._subject.times):
            return False
        anchors = _anchored(former), _anchored(relation)
        if any(then != now for then, now in zip(*anchors, strict=True) if then is not None):
            return False
        _Leap(relation, rounds, self._order, self._begins).take()
        self.filled += rounds * int(relation.moves(after.low - step, after.low).sum())
        self._before = [int(place) for place in self._subject.machine.lanes.place]
        return True


def _anchored(relation: Relation) -> list[int]:
    """Return by how much the anchor of each descriptor generator is later."""
    before, after = relation.before.shared.trigger_anchor, relation.after.shared.trigger_anchor
    return [after[relation.trigger(number)] - anchor for number, anchor in enumerate(before)]


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
            if column.itemsize == 1:
                moved = part
                filled = np.broadcast_to(final, block.shape)
            else:
                moved = part + rounds * (part - former)
                later = final - column[first - 2 * step : first - step]
                filled = final + numbers * later if later.any() else np.broadcast_to(final, block.shape)
            block[:, mine] = filled[:, mine]
            column[first + self._step : end + self._step][under_way] = moved[under_way]

    def _move_events(self) -> None:
        shared, after = self._machine.shared, self._after
        events = sorted(
            (time + self._shift, kind << KIND_BIT | op + self._step << LANE_BITS | self._lane[lane])
            for time, kind, op, lane in after.events
        )
        for at, (time, code) in enumerate(events):
            shared.event_time[at], shared.event_code[at] = time, code
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
            shared.trigger_free[far[now]] = free + self._shift if free else 0
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
        for op in {op for lane, (op, _) in enumerate(after.waits) if op >= 0 and after.moving[lane]}:
            waiting[op + self._step] = self._lane[int(waiting[op])]

    def _move_lane(self, before: int, lane: int, to: int) -> None:
        """Let lane `to` be what `lane` is, later."""
        after, lanes, shared, ops = self._after, self._machine.lanes, self._machine.shared, self._machine.ops
        mine, shift, step = after.lanes, self._shift, self._step
        head = after.heads[lane] + step
        place = self._begins[to] + int(
            np.searchsorted(self._order[self._begins[to] : int(lanes.end[to])], head)
        )
        lanes.place[to], lanes.cursor[to] = place, int(ops.edge_start[head]) + after.cursors[lane]
        lanes.data_place[to] = place - (mine.place[lane] - mine.data_place[lane])
        past = self._relation.avail_is_past(before, lane)
        lanes.avail[to] = mine.avail[lane] + (0 if past else shift)
        lanes.cause[to] = mine.cause[lane] + (0 if past or mine.cause[lane] < 0 else step)
        for name in ("last", "busy_with", "pred"):
            value = getattr(mine, name)[lane]
            getattr(lanes, name)[to] = value + step if value >= 0 else value
        for name in ("asked", "ended"):
            getattr(lanes, name)[to] = getattr(mine, name)[lane] + shift
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
