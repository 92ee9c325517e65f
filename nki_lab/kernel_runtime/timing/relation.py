"""Whether two moments of a machine are the same, one of them later.

Two moments are the same where nothing that comes can tell them apart but by the clock and the numbers of ops: all times
that still matter are later by one shift, all ops by one step, and lanes, locks and streams are those that follow on
each other in a stretch that repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.timing.dma import NEVER
from nki_lab.kernel_runtime.timing.locks import RAMP_FIELDS
from nki_lab.kernel_runtime.timing.moments import Moment
from nki_lab.kernel_runtime.timing.repeats import Repeat

_START: Final = 1  # the kind of the event of a head that starts

_KEPT: Final = (
    "place", "free", "last", "cursor", "avail", "cause", "edge_kind", "table", "asked", "pred", "stall", "setup",
    "setup_reason", "data_place", "placed", "woken_by", "busy_with", "ended",
)  # fmt: skip
"""What is as it was of a lane that did nothing."""


class Relation:
    """One moment seen from an earlier one, `count` repetitions before it."""

    def __init__(self, repeat: Repeat, count: int, before: Moment, after: Moment, watched: int) -> None:
        self.repeat, self.before, self.after, self._count = repeat, before, after, count
        self.step = count * repeat.period
        self.shift = after.free[watched] - before.free[watched]
        self.lanes: list[int] = []
        self.locks: list[int] = []
        self.streams: list[int] = []
        self.fixed = [-1]  # what ops may have waited for in all repetitions

    @property
    def is_near(self) -> bool:
        """Whether heads and events of the later moment are those of the earlier one."""
        before, after = self.before, self.after
        if len(before.events) != len(after.events) or any(not before.moving[event[3]] for event in before.events):
            return False
        if [op + self.step for op in before.moving_heads] != after.moving_heads:
            return False  # most often
        lanes, self.locks, self.streams = (
            powered(table, self._count) for table in (self.repeat.lanes, self.repeat.locks, self.repeat.streams)
        )
        lanes = [lane if moving else at for at, (lane, moving) in enumerate(zip(lanes, before.moving, strict=True))]
        self.lanes = lanes
        for lane, other in enumerate(lanes):
            moved = self.step if before.moving[lane] else 0
            if before.moving[lane] != after.moving[other] or before.heads[lane] + moved != after.heads[other]:
                return False
        shift, step = self.shift, self.step
        later = sorted((time + shift, kind, op + step, lanes[lane]) for time, kind, op, lane in before.events)
        return sorted(lanes) == list(range(len(lanes))) and later == after.events

    @property
    def is_same(self) -> bool:
        """Whether nothing that comes can tell the two moments apart."""
        before, after = self.before, self.after
        return (
            before.low + self.step == after.low
            and all(
                self._lane_follows(lane, other) if before.moving[lane] else self._lane_stays(lane)
                for lane, other in enumerate(self.lanes)
            )
            and self._clock_follows()
            and self._triggers_follow()
            and self._locks_follow()
            and self._streams_follow()
            and self._known_follow()
            and self._parts_follow()
        )

    def _later(self, before: int, after: int) -> bool:
        return after - before == self.shift

    def _next(self, before: int, after: int) -> bool:
        return after - before == self.step if before >= 0 else after == before

    def _past(self, before: int, after: int, margin: int = 0) -> bool:
        """Return whether two times are over, and never looked at again."""
        return before + margin < self.before.horizon and after + margin < self.after.horizon

    def _wait_follows(self, lane: int, other: int) -> bool:
        (op, ahead), (later, later_ahead) = self.before.waits[lane], self.after.waits[other]
        step = self.step if self.before.moving[lane] and op >= 0 else 0
        return op + step == later and (self.lanes[ahead] if ahead >= 0 else -1) == later_ahead

    def _lane_stays(self, lane: int) -> bool:
        before, after = self.before.lanes, self.after.lanes
        same = all(getattr(before, name)[lane] == getattr(after, name)[lane] for name in _KEPT)
        return same and before.busy_with[lane] < 0 and self._wait_follows(lane, lane) and self._array_stays(lane)

    def _lane_follows(self, lane: int, other: int) -> bool:
        before, after, first, second = self.before.lanes, self.after.lanes, self.before, self.after
        queue = before.is_queue[lane]
        same = (
            self._next(before.last[lane], after.last[other])
            and first.cursors[lane] == second.cursors[other]
            and before.table[lane] == after.table[other]
            and self._wait_follows(lane, other)
            and (queue or self._later(before.free[lane], after.free[other]))
        )
        if not same or not (self.avail_is_past(lane, other) or self._avail_follows(lane, other)):
            return False
        if first.pending.get(lane) == _START and not self._start_follows(lane, other):
            return False
        return self._queue_follows(lane, other) if queue else self._array_follows(lane)

    def _avail_follows(self, lane: int, other: int) -> bool:
        before, after = self.before.lanes, self.after.lanes
        return (
            self._later(before.avail[lane], after.avail[other])
            and self._next(before.cause[lane], after.cause[other])
            and before.edge_kind[lane] == after.edge_kind[other]
        )

    def _start_follows(self, lane: int, other: int) -> bool:
        """Return whether two heads whose start is an event have the same reasons for it."""
        before, after = self.before.lanes, self.after.lanes
        reasons = ("stall", "setup", "setup_reason")
        return self._next(before.pred[lane], after.pred[other]) and all(
            getattr(before, name)[lane] == getattr(after, name)[other] for name in reasons
        )

    def avail_is_past(self, lane: int, other: int) -> bool:
        """Return whether what two heads wait for, as far as known, was there before all that is to come of them."""
        load = self.before.machine.constants.tile_load  # which begins when the tile is there, beside the op before
        for moment, at in ((self.before, lane), (self.after, other)):
            own = 0 if moment.lanes.is_queue[at] else moment.lanes.free[at] - load
            if moment.lanes.avail[at] >= max(moment.horizon, own):
                return False
        return True

    def _queue_follows(self, lane: int, other: int) -> bool:
        before, after = self.before.lanes, self.after.lanes
        costs, gap = self.before.machine.variants, self.before.machine.constants.gap
        slack = -max(int(max(costs.start_latency, default=0)), gap) - 1
        moves, later = before.busy_with[lane], after.busy_with[other]
        stream = before.woken_by[lane]
        return (
            (before.place[lane] - before.data_place[lane] == after.place[other] - after.data_place[other])
            and (
                self._later(before.asked[lane], after.asked[other])
                or self._past(before.asked[lane], after.asked[other])
            )
            and before.placed[lane] == after.placed[other]
            and (self.streams[stream] if stream >= 0 else -1) == after.woken_by[other]
            and (
                self._later(before.ended[lane], after.ended[other])
                or self._past(before.ended[lane], after.ended[other], -slack)
            )
            and self._next(moves, later)
            and (
                moves < 0
                or all(
                    getattr(before, name)[lane] == getattr(after, name)[other]
                    for name in ("left", "share", "mask", "rate")
                )
            )
        )

    def _array_stays(self, lane: int) -> bool:
        before, after, ramp = self.before.shared, self.after.shared, self.before.lanes.ramp_at[lane]
        tiles = self.before.lanes.tiles_at[lane]
        return (ramp < 0 or before.ramps[ramp : ramp + RAMP_FIELDS] == after.ramps[ramp : ramp + RAMP_FIELDS]) and (
            tiles < 0 or before.tile_state[tiles : tiles + 3] == after.tile_state[tiles : tiles + 3]
        )

    def _array_follows(self, lane: int) -> bool:
        before, after = self.before.shared, self.after.shared
        ramp, tiles = self.before.lanes.ramp_at[lane], self.before.lanes.tiles_at[lane]
        if ramp >= 0:
            idle = ramp + RAMP_FIELDS - 1
            if before.ramps[ramp:idle] != after.ramps[ramp:idle] or not self._later(
                before.ramps[idle], after.ramps[idle]
            ):
                return False
        if tiles < 0:
            return True
        count = before.tile_state[tiles]
        return (
            count == after.tile_state[tiles]
            and self._next(before.tile_state[tiles + 1], after.tile_state[tiles + 1])
            and self._later(before.tile_state[tiles + 2], after.tile_state[tiles + 2])
            and before.tile_blocks[tiles : tiles + count] == after.tile_blocks[tiles : tiles + count]
            and all(self._later(before.tile_ends[at], after.tile_ends[at]) for at in range(tiles, tiles + count))
        )

    def _clock_follows(self) -> bool:
        before, after, lanes = self.before, self.after, self.lanes
        first, second = before.shared.clock, after.shared.clock
        if [lanes[lane] for lane in before.woken] != after.woken:
            return False
        if [lanes[lane] for lane in before.active] != after.active:
            return False
        if first[1] == NEVER:
            return second[1] == NEVER
        return self._later(first[0], second[0]) and self._later(first[1], second[1]) and lanes[first[2]] == second[2]

    def trigger(self, number: int) -> int:
        """Return the descriptor generator that follows on one: without sharing each lane has its own."""
        constants = self.before.machine.constants
        if constants.sharing:
            return number
        lane = number % constants.width
        return number - lane + self.lanes[lane] if lane < len(self.lanes) else number

    def _triggers_follow(self) -> bool:
        before, after, ready = self.before.shared, self.after.shared, self.before.columns[2]
        latest = self.before.horizon - self.before.machine.constants.hop
        for number, free in enumerate(before.trigger_free):
            other = self.trigger(number)
            later = after.trigger_free[other]
            anchor, later_anchor = before.trigger_anchor[number], after.trigger_anchor[other]
            if later_anchor - anchor not in (0, self.step) or (free > 0) != (later > 0):
                return False
            if anchor == later_anchor and anchor >= 0:
                # It may be the same for as long as its trigger is never idle. One of long ago was not entered now.
                if not 0 <= ready[anchor] < latest:
                    return False
                self.fixed.append(anchor)
            if free and not (self._later(free, later) or self._past(free, later)):
                return False
        return True

    def lock_is_past(self, lock: int, other: int) -> bool:
        """Return whether nobody waits for a lock any more."""
        return self._past(self.before.shared.lock_free[lock], self.after.shared.lock_free[other])

    def _locks_follow(self) -> bool:
        before, after = self.before.shared, self.after.shared
        for lock, other in enumerate(self.locks):
            if other < 0:
                same = before.lock_free[lock] == after.lock_free[lock]
            elif before.lock_reason[lock] != after.lock_reason[other]:
                same = False
            else:
                same = self.lock_is_past(lock, other) or (
                    self._later(before.lock_free[lock], after.lock_free[other])
                    and self._next(before.lock_holder[lock], after.lock_holder[other])
                    and before.lock_lane[lock] >= 0
                    and self.lanes[before.lock_lane[lock]] == after.lock_lane[other]
                )
            if not same:
                return False
        return True

    def stream_is_past(self, stream: int, other: int) -> bool:
        """Return whether nothing that comes to a stream waits for it."""
        before, after = self.before.shared, self.after.shared
        return not before.stream_busy[stream] and self._past(before.stream_next[stream], after.stream_next[other])

    def _streams_follow(self) -> bool:
        before, after = self.before.shared, self.after.shared
        for stream, follower in enumerate(self.streams):
            other = follower if follower >= 0 else stream
            shift, step = (self.shift, self.step) if follower >= 0 else (0, 0)
            if (
                before.stream_busy[stream] != after.stream_busy[other]
                or [self.lanes[lane] for lane in self.before.queued[stream]] != self.after.queued[other]
                or (follower < 0 and self.before.queued[stream])
            ):
                return False
            if self.stream_is_past(stream, other):
                continue
            last, later = before.stream_last[stream], after.stream_last[other]
            time, then = before.stream_next[stream], after.stream_next[other]
            if later - last != step or not (then - time == shift or self._past(time, then)):
                return False
        return True

    def _known_follow(self) -> bool:
        """Return whether what is known of ops that others wait for is the same, or is past."""
        before, repeat, ready = self.before, self.repeat, self.before.columns[2]
        constants = before.machine.constants
        margin = constants.hop + constants.tile_load
        horizon, later_horizon = before.horizon - margin, self.after.horizon - margin
        first = max(0, before.low - repeat.reach)
        then = np.concatenate((ready[first : before.low], before.parts[2]))
        now = ready[first + self.step : before.high + 1 + self.step]
        past = (then >= 0) & (then < horizon) & (now >= 0) & (now < later_horizon)
        same = ((then >= 0) & (now - then == self.shift)) | ((then < 0) & (now < 0))
        rows = np.arange(first, before.high + 1)
        lane = before.subject.lane
        mine = np.array(before.moving)[lane[first : before.high + 1]]
        if not (past | (same & (rows >= repeat.begin)) | ~mine).all():
            return False
        rest = ready[first : repeat.end][~np.array(before.moving)[lane[first : repeat.end]]]
        if len(rest) and not ((rest >= 0) & (rest < horizon)).all() and (rest >= 0).any():
            return False
        for number, needed in repeat.constants.items():
            known = ready[needed]
            # Queues that take turns have the same constants.
            queue = before.lanes.is_queue[number] and repeat.lanes[number] != number
            own = 0 if before.lanes.is_queue[number] else before.lanes.free[number] - margin
            latest = max(horizon, own)
            if (queue or before.moving[number]) and not ((known >= 0) & (known < latest)).all():
                return False
        return True

    def _parts_follow(self) -> bool:
        """Return whether the times of ops that are under way are the same, as far as they are there."""
        now = [column[self.after.low : self.after.high + 1] for column in self.before.columns]
        return self._columns_follow(self.before.parts, now, self.moves(self.before.low, self.before.high + 1))

    def moves(self, first: int, end: int) -> Mask:
        """Return which of some ops are those of lanes that move."""
        found: Mask = np.array(self.before.moving)[self.before.subject.lane[first:end]]
        return found

    def _columns_follow(self, before: Sequence[Column], after: Sequence[Column], mine: Mask) -> bool:
        start, _, ready, pred, _, served, *_ = (
            np.subtract(b, a, dtype=np.int64) for a, b in zip(before, after, strict=True)
        )
        unknown = (before[2] < 0) & (after[2] < 0)
        past = (before[2] >= 0) & (after[2] >= 0)
        ok = (start == self.shift) | ((before[0] == 0) & (after[0] == 0))
        ok &= (past & (ready == self.shift)) | unknown
        ok &= (pred == self.step) | ((pred == 0) & np.isin(before[3], self.fixed))
        ok &= (served == self.shift) | ((before[5] == 0) & (after[5] == 0))
        for at in (1, 4, 6, 7, 8, 9):
            ok &= before[at] == after[at]
        return bool(ok[mine].all())

    def columns_follow(self, columns: Sequence[Column]) -> bool:
        """Return whether all ops that ended in the stretch before the later moment did so in the one before that."""
        end, step = self.after.low, self.step
        before = [column[end - 2 * step : end - step] for column in columns]
        after = [column[end - step : end] for column in columns]
        return end - 2 * step >= self.repeat.begin and self._columns_follow(before, after, self.moves(end - step, end))


def powered(table: Sequence[int], count: int) -> list[int]:
    """Return what follows after `count` repetitions, -1 where nothing does."""
    found, square = list(range(len(table))), list(table)
    while count:
        if count & 1:
            found = [square[at] if at >= 0 else -1 for at in found]
        square = [square[at] if at >= 0 else -1 for at in square]
        count >>= 1
    return found
