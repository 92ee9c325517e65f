"""The state of a machine at a moment, for a comparison with what it is later.

What is long past cannot be told apart. The events of a machine come in order of time, and whatever becomes known at an
event is not before it. So times before the `horizon`, the earliest of what is to come, never win a comparison again: a
lock that was free then is free, an op that was ready then is ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.timing.columns import Lanes, Machine, Shared, Times
from nki_lab.kernel_runtime.timing.dma import NEVER
from nki_lab.kernel_runtime.timing.repeats import Repeat

_DATA: Final = 2

Event = tuple[int, int, int, int]  # time, kind, op, lane


class Subject(NamedTuple):
    """A machine that is looked at while it runs. `times` and the `lane` of each op are arrays."""

    machine: Machine
    times: Times
    lane: Column


class Moment:
    """The state of a machine at which a lane halted, as far as states repeat."""

    def __init__(self, subject: Subject, repeat: Repeat, before: Sequence[int]) -> None:
        """Put down heads and events; `before` are the places of lanes some time ago."""
        self.subject, self.repeat = subject, repeat
        self.machine, self.columns = subject.machine, subject.times
        machine = self.machine
        lanes, shared, order = machine.lanes, machine.shared, machine.ops.order
        bit, count = machine.constants.kind_bit, machine.shared.clock[4]
        self.places, self.free = _list(lanes.place), _list(lanes.free)
        self.heads = [int(order[at]) if at < end else -1 for at, end in zip(self.places, lanes.end, strict=True)]
        self.events: list[Event] = sorted(
            (time, code >> bit, code & (1 << bit) - 1, int(subject.lane[code & (1 << bit) - 1]))
            for time, code in zip(_list(shared.event_time[:count]), _list(shared.event_code[:count]), strict=True)
        )
        self.moving = [
            other >= 0 and repeat.begin <= head < repeat.end and (other != lane or place != former)
            for lane, (other, head, place, former) in enumerate(
                zip(repeat.lanes, self.heads, self.places, before, strict=True)
            )
        ]
        self.moving_heads = sorted(head for head, moving in zip(self.heads, self.moving, strict=True) if moving)

    def complete(self) -> None:
        """Put down the rest, of the machine as it still is."""
        machine = self.machine
        self.lanes = Lanes(*map(_list, machine.lanes))
        self.shared = Shared(*map(_list, machine.shared))
        lanes, clock, order = self.lanes, self.shared.clock, machine.ops.order
        self.active, self.woken = lanes.active[: clock[3]], lanes.woken[: clock[5]]
        self.data = [
            int(order[at]) if queue and at < place else -1
            for at, place, queue in zip(lanes.data_place, lanes.place, lanes.is_queue, strict=True)
        ]
        start = machine.ops.edge_start
        self.cursors = [
            at - int(start[head]) if head >= 0 else 0 for at, head in zip(lanes.cursor, self.heads, strict=True)
        ]
        self.pending = {lane: kind for _, kind, _, lane in self.events if kind < _DATA}
        self.horizon = self._horizon()
        self.waits = [self._wait(lane) for lane in range(len(lanes.place))]
        self.queued = self._queued()
        self._bounds()
        self.parts = [column[self.low : self.high + 1].copy() for column in self.columns]

    def _horizon(self) -> int:
        """Return the earliest time that may become known from now on."""
        found = [NEVER, *(event[0] for event in self.events[:1]), self.shared.clock[1]]
        lanes, ops, ready = self.lanes, self.machine.ops, self.columns[2]
        for lane in self.woken:
            bound = max(lanes.asked[lane] if lanes.is_queue[lane] else lanes.free[lane], lanes.avail[lane])
            head = self.heads[lane]
            if head >= 0:
                # A lane is looked at since one of those has just become known that its head waits for.
                bound = max([bound, *(int(ready[other]) for other in self._needs(ops, head) if ready[other] >= 0)])
            found.append(bound)
        return min(found)

    @staticmethod
    def _needs(ops: Any, op: int) -> list[int]:
        flow = int(ops.lane_flow[op])
        needs = [int(other) for other in ops.pred[ops.edge_start[op] : ops.edge_start[op + 1]]]
        return [flow, *needs] if flow >= 0 else needs

    def _wait(self, lane: int) -> tuple[int, int]:
        """Return the op that a lane waits for, and the lane that does before it; -1 for none."""
        head, lanes, ops = self.heads[lane], self.lanes, self.machine.ops
        if head < 0 or lane in self.pending or lane in self.woken:
            return -1, -1
        for other in self._needs(ops, head):
            waiter = int(ops.first_waiter[other]) if self.columns[2][other] < 0 else -1
            while waiter >= 0:
                if waiter == lane:
                    return other, lanes.next_waiter[lane]
                waiter = lanes.next_waiter[waiter]
        return -1, -1

    def _queued(self) -> list[list[int]]:
        """Return the lanes that wait for each stream."""
        found = []
        for head in self.shared.stream_head:
            mine, lane = [], head
            while lane >= 0:
                mine.append(lane)
                lane = self.lanes.next_for_stream[lane]
            found.append(mine)
        return found

    def _bounds(self) -> None:
        """Find the first and the last op of moving lanes that are neither over nor untouched."""
        shared, lanes = self.shared, self.lanes
        mine = [lane for lane, moving in enumerate(self.moving) if moving]
        ops = [self.heads[lane] for lane in mine]
        self.high = max(ops, default=-1)
        ops += [op for lane in mine for op in (self.data[lane], lanes.busy_with[lane]) if op >= 0]
        ops += [
            shared.tile_state[lanes.tiles_at[lane] + 1]
            for lane in mine
            if lanes.tiles_at[lane] >= 0 and shared.tile_state[lanes.tiles_at[lane] + 1] >= 0
        ]
        self.low = min(ops, default=0)


def _list(column: Any) -> list[int]:
    found: list[int] = column.tolist() if isinstance(column, np.ndarray) else list(column)
    return found
