"""The event walk: every instruction of a scheduled program gets a start, an end and a reason for its wait.

Lanes take their ops in order. An op starts when its lane is free, what it depends on is finished, and nothing else has
the memory that it needs; its lane is free again after its issue interval, and its result is visible after its latency,
to other lanes one semaphore later. Compute lanes are worked off as far as what is known allows; where lanes meet (DMA
engines and descriptor generators, locked memories) events are taken in order of time, equal ones in program order.
The cores of a launch run side by side, each with lanes, engines and memories of its own; they share the rate of HBM.
All times are whole picoseconds, so that equal input gives equal columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Final

from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program, access_columns
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.progress import current_monitor
from nki_lab.kernel_runtime.schedule import EDGE_KINDS, Schedule
from nki_lab.kernel_runtime.timing.account import Timing, timing_of
from nki_lab.kernel_runtime.timing.collectives import delays
from nki_lab.kernel_runtime.timing.costs import VariantCost, costs_of, picoseconds
from nki_lab.kernel_runtime.timing.dma import (
    NEVER,
    DmaEngines,
    Queue,
    Stream,
    Streams,
    Transfer,
    Trigger,
    Waiting,
    hbm_limit,
)
from nki_lab.kernel_runtime.timing.locks import Locks, PowerRamp, reused_tiles
from nki_lab.kernel_runtime.timing.loops import loop_times
from nki_lab.kernel_runtime.timing.path import Columns
from nki_lab.kernel_runtime.timing.reasons import (
    BANDWIDTH,
    LOOP,
    NONE,
    OF_EDGE,
    OTHER_RANK,
    QUEUE,
    RAMP,
    SEMAPHORE,
    STATIONARY,
    TABLE,
    TRIGGER,
    data_from,
)
from nki_lab.kernel_runtime.timing.tiles import ArrayTiles

# Kinds of events. At one time triggers come before instructions, and these before data.
_ASK: Final = 0
_START: Final = 1
_DATA: Final = 2

_REPORTED: Final = 512  # events between two reports of progress

_CORE: Final = EDGE_KINDS.index("core")


def walk(
    program: Program,
    schedule: Schedule,
    options: Options | None = None,
    allocation: Allocation | None = None,
    costs: Sequence[VariantCost] | None = None,
    arrivals: Mapping[int, int] = MappingProxyType({}),
) -> Timing:
    """Times of a scheduled program, with reasons and the critical path.

    `options` are the program's own unless given, and `costs` what its variants declare: others tell what would be. The
    allocation tells which PSUM bank a tensor is in; without it, tensors that the user did not place are taken to be in
    banks of their own. `arrivals` are the picoseconds at which the data of ops has come from other ranks, of those that
    come later than this one. NKI010 for an instruction without cost.
    """
    chosen = program.options if options is None else options
    state = _Walk(program, schedule, chosen, allocation, costs_of(program) if costs is None else list(costs), arrivals)
    state.run()
    return timing_of(program, schedule, state.columns, state.costs, state.launch, state.teardown)


@dataclass(slots=True, eq=False)
class _LaneState:
    """A lane and its head: the next op that it will take, and how far its dependences are known."""

    index: int
    core: int
    locks: Locks
    order: memoryview[int]
    free: int
    data_reason: int
    count: int = field(init=False)
    asked: int = field(init=False)
    place: int = -1
    last: int = -1
    table: str | None = None
    ramp: PowerRamp | None = None
    reused: list[bool] | None = None
    tiles: ArrayTiles | None = None
    loops: list[int] | None = None  # picoseconds of each op's sequencer before it, for loops
    queue: Queue | None = None
    cursor: int = 0
    avail: int = 0
    kind: int = 0
    stall: int = 0
    setup: int = 0
    setup_reason: int = 0
    cause: int = -1
    critical_pred: int = -1

    def __post_init__(self) -> None:
        self.count = len(self.order)
        self.asked = self.free


class _Walk:
    def __init__(
        self,
        program: Program,
        schedule: Schedule,
        options: Options,
        allocation: Allocation | None,
        costs: list[VariantCost],
        arrivals: Mapping[int, int],
    ) -> None:
        arch = program.arch
        self.costs = costs
        self.columns = Columns(len(program))
        self.launch = picoseconds(arch.before_ns(program.cores)) if options.launch_overhead else 0
        self.teardown = picoseconds(arch.teardown_ns) if options.launch_overhead else 0
        self._hop = picoseconds(arch.semaphore_ns)
        self._table_load = picoseconds(arch.activation_table_load_ns) if options.table_loads else 0
        self._tile_load = picoseconds(arch.load_stationary_ns)
        self._completion = max(0, picoseconds(arch.dma_completion_ns) - self._hop)
        self._variant = program.op_variant
        # Views of single numbers: a third of the time of indexing an array.
        self._edges = schedule.start.data
        self._before = schedule.pred.data
        self._kinds = schedule.kind.data
        self._lane_of = schedule.lane.data
        self._lane_flow = schedule.lane_flow.data
        self._waiters: dict[int, list[_LaneState]] = {}
        self._woken: list[_LaneState] = []
        self._heap: list[tuple[int, int, int, int]] = []  # (time, kind, op, lane)
        self._dma = DmaEngines(options.bandwidth_sharing, hbm_limit(arch, program.cores))
        self._engines_of_core = arch.dma_engines
        self._sharing = options.bandwidth_sharing
        self._delays = delays(program, costs)
        self._arrivals = arrivals
        self._streams = Streams(program, options.bandwidth_sharing)
        self._triggers: dict[tuple[str, int], Trigger] = {}
        locks = [Locks(program, schedule, self.costs, options, allocation, core) for core in range(program.cores)]
        self._lanes = [
            _LaneState(
                number,
                lane.core,
                locks[lane.core],
                schedule.order[number].data,
                self.launch,
                data_from(lane.name, lane.kind),
            )
            for number, lane in enumerate(schedule.lanes)
        ]
        self._equip(program, schedule, options)

    def _equip(self, program: Program, schedule: Schedule, options: Options) -> None:
        arch = program.arch
        accesses = None
        for state, lane in zip(self._lanes, schedule.lanes, strict=True):
            if lane.kind == "dma":
                state.queue = Queue(arch, self.launch)
                continue
            if program.begins:
                state.loops = loop_times(program, lane.core, schedule.order[state.index])
            if lane.name == "tensor":
                if options.power_ramp and arch.power_ramp_ns:
                    state.ramp = PowerRamp(arch)
                if options.array_tiles and any(cost.blocks for cost in self.costs):
                    state.tiles = ArrayTiles()
                if options.stationary_reuse:
                    accesses = accesses or access_columns(program)
                    state.reused = reused_tiles(program, self.costs, accesses, schedule.order[state.index])

    def run(self) -> None:
        """Simulate all lanes to completion."""
        heap, dma, woken = self._heap, self._dma, self._woken
        for lane in self._lanes:
            self._next(lane)
        woken.extend(reversed(self._lanes))
        monitor = current_monitor()
        monitor.begin("timing", len(self.columns.start))
        for turn in itertools.count(1):
            if not turn % _REPORTED:
                monitor.advance(sum(lane.place for lane in self._lanes))
            while woken:
                self._pump(woken.pop())
            if dma.ends != NEVER and (not heap or dma.ends <= heap[0][0]):
                self._finish()
            elif heap:
                time, kind, _, number = heappop(heap)
                lane = self._lanes[number]
                if kind == _START:
                    self._try_start(lane, time)
                elif kind == _ASK:
                    self._ask(lane, time)
                else:
                    self._start_data(lane, time)
            else:
                break
        stuck = [lane.order[lane.place] for lane in self._lanes if lane.place < lane.count]
        stuck += [lane.queue.waiting[0].op for lane in self._lanes if lane.queue is not None and lane.queue.waiting]
        if stuck:
            raise AssertionError(f"scheduled: ops {stuck} wait for each other")

    # -- the head of a lane ------------------------------------------------------------------------------------------

    def _next(self, lane: _LaneState) -> None:
        lane.place += 1
        if lane.place < lane.count:
            lane.cursor = self._edges[lane.order[lane.place]]
            lane.avail = 0
            lane.cause = -1

    def _resolved(self, lane: _LaneState) -> bool:
        """Whether all that the head waits for has a known end; `lane.avail` is the latest so far. Each edge once."""
        op = lane.order[lane.place]
        stop = self._edges[op + 1]
        at = lane.cursor
        ready, before = self.columns.ready, self._before
        other = self._lane_flow[op]
        if other >= 0:
            time = ready[other]
            if time < 0:
                self._waiters.setdefault(other, []).append(lane)
                return False
            if time + self._hop > lane.avail:
                lane.avail, lane.cause, lane.kind = time + self._hop, other, 0
        while at < stop:
            other = before[at]
            time = ready[other]
            if time < 0:
                lane.cursor = at
                self._waiters.setdefault(other, []).append(lane)
                return False
            time += self._hop
            if time > lane.avail:
                lane.avail = time
                lane.cause = other
                lane.kind = self._kinds[at]
            elif time == lane.avail and lane.kind == _CORE:
                lane.cause, lane.kind = other, self._kinds[at]  # rather for what its own core has been at as long
            at += 1
        lane.cursor = at
        return True

    def _reason(self, lane: _LaneState) -> int:
        """Return the reason of the head's last edge to resolve."""
        if lane.cause < 0:
            return OTHER_RANK if lane.avail else NONE
        return OF_EDGE[lane.kind] if lane.kind else self._lanes[self._lane_of[lane.cause]].data_reason

    def _pump(self, lane: _LaneState) -> None:
        """Take ops as long as it is known when they start, and nothing can come in between."""
        while lane.place < lane.count and self._resolved(lane):
            op = lane.order[lane.place]
            if lane.queue is not None:
                if (come := self._arrivals.get(op, 0)) > lane.avail:
                    lane.avail, lane.cause = come, -1
                heappush(self._heap, (max(lane.avail, lane.asked), _ASK, op, lane.index))
                return
            cost = self.costs[self._variant[op]]
            time = self._earliest(lane, op, cost)
            if lane.locks.guards(op, cost, lane.index):
                heappush(self._heap, (time, _START, op, lane.index))
                return
            self._commit(lane, op, cost, time)

    # -- engines -----------------------------------------------------------------------------------------------------

    def _earliest(self, lane: _LaneState, op: int, cost: VariantCost) -> int:
        """When the head can start, locks apart; with why."""
        free, avail = lane.free, lane.avail
        if lane.tiles is not None:
            free = lane.tiles.free(cost.blocks, free)
        setup = 0
        if avail > free:
            time, lane.critical_pred = avail, lane.cause
            lane.stall = self._reason(lane) if self.columns.ready[lane.cause] > free else SEMAPHORE
        else:
            time, lane.critical_pred, lane.stall = free, lane.last, NONE
        if lane.loops is not None and free + lane.loops[lane.place] > time:
            # The sequencer counts and branches after the op before, beside the wait for what this one needs.
            setup, lane.setup_reason = free + lane.loops[lane.place] - time, LOOP
        if cost.table is not None and cost.table != lane.table and self._table_load:
            lane.table = cost.table
            setup, lane.setup_reason = setup + self._table_load, TABLE
        elif cost.stationary >= 0 and not (lane.reused is not None and lane.reused[lane.place]):
            # The load runs beside the matmul before, from when its tile is there.
            exposed = max(avail, self.launch) + self._tile_load - time
            if exposed > setup:
                setup, lane.setup_reason = exposed, STATIONARY
                lane.critical_pred, lane.stall = lane.cause, self._reason(lane)
        lane.setup = setup
        return time + setup

    def _try_start(self, lane: _LaneState, time: int) -> None:
        op = lane.order[lane.place]
        cost = self.costs[self._variant[op]]
        later, holder, reason = lane.locks.blocked(op, cost, lane.index, time)
        if later > time:
            lane.critical_pred, lane.stall = holder, reason
            heappush(self._heap, (later, _START, op, lane.index))
            return
        self._commit(lane, op, cost, time)
        lane.locks.take(op, cost, lane.index, max(time, lane.free - cost.apart))
        self._pump(lane)

    def _commit(self, lane: _LaneState, op: int, cost: VariantCost, time: int) -> None:
        columns = self.columns
        duration = cost.interval
        if lane.ramp is not None:
            duration = lane.ramp.stretched(time, duration)
            columns.throttle_reason[op] = RAMP
        columns.start[op] = time
        columns.duration[op] = duration
        columns.busy[op] = cost.interval
        columns.critical_pred[op] = lane.critical_pred
        columns.stall[op] = lane.stall
        if lane.setup:
            columns.setup[op] = lane.setup
            columns.setup_reason[op] = lane.setup_reason
        lane.free = time + duration
        lane.last = op
        if lane.tiles is not None:
            self._share_array(lane, lane.tiles, op, cost)
        self._visible(op, time + duration + cost.latency - cost.interval)
        self._next(lane)

    def _share_array(self, lane: _LaneState, tiles: ArrayTiles, op: int, cost: VariantCost) -> None:
        """The next op may start beside one that uses a part of the array."""
        columns = self.columns
        start, duration = columns.start[op], columns.duration[op]
        tiles.cut(columns, start - lane.setup)
        tiles.take(op, cost.blocks, start, start + duration)
        columns.duration[op] = tiles.until - start
        columns.busy[op] += tiles.until - start - duration
        if cost.blocks:
            lane.free = start + cost.issue * duration // max(cost.interval, 1)

    def _visible(self, op: int, time: int) -> None:
        self.columns.ready[op] = time
        waiters = self._waiters.pop(op, None)
        if waiters:
            self._woken.extend(waiters)

    # -- transfers ---------------------------------------------------------------------------------------------------

    def _ask(self, lane: _LaneState, time: int) -> None:
        """The head of a queue asks for its descriptors."""
        queue = lane.queue
        assert queue is not None  # only queues ask
        op = lane.order[lane.place]
        cost = self.costs[self._variant[op]]
        served, cause, waited = self._trigger(cost, lane).serve(time, lane.avail, lane.cause, cost.generation)
        self.columns.served[op] = served
        reason = TRIGGER if waited else self._reason(lane)
        streams = self._streams.of(op, lane.index, lane.core)
        latency = cost.start_latency + self._delays.get(op, 0)
        queue.waiting.append(Waiting(op, streams, served + latency, latency, cause, reason))
        lane.asked = served + cost.generation
        if not queue.busy and len(queue.waiting) == 1:
            heappush(self._heap, (queue.start_of_next(), _DATA, op, lane.index))
        self._next(lane)
        self._pump(lane)

    def _trigger(self, cost: VariantCost, lane: _LaneState) -> Trigger:
        """The generator of a transfer's descriptors: one for all queues of a core, or without sharing one for each."""
        key = (cost.generator, -1 - lane.core if self._sharing else lane.index)
        if key not in self._triggers:
            self._triggers[key] = lane.locks.trigger(cost) if self._sharing else Trigger()
        return self._triggers[key]

    def _start_data(self, lane: _LaneState, time: int) -> None:
        """The queue is ready for its next transfer; it moves data as soon as its tensors' other transfers let it."""
        queue = lane.queue
        assert queue is not None  # only queues have data
        columns = self.columns
        waiting = queue.waiting[0]
        op = waiting.op
        cost = self.costs[self._variant[op]]
        if not waiting.placed:
            start, before = self._streams.place(waiting.streams, op, lane.index, time, cost.spaced)
            stream, waiting.woken_by = waiting.woken_by, None
            if stream is not None and stream.waiting and not stream.busy:
                self._wake(stream, time)
            if start == NEVER:
                return
            waiting.placed = True
            if start > time:
                columns.critical_pred[op], columns.stall[op] = before, QUEUE
                heappush(self._heap, (start, _DATA, op, lane.index))
                return
            columns.critical_pred[op], columns.stall[op], columns.setup[op], columns.setup_reason[op] = queue.explain(
                waiting, time
            )
        queue.waiting.popleft()
        columns.start[op] = time
        queue.busy = True
        engines = cost.engines << lane.core * self._engines_of_core
        self._dma.add(Transfer(op, lane.index, waiting.streams, engines, cost.interval, cost.hbm_bytes), time)

    def _wake(self, stream: Stream, time: int) -> None:
        """Let the first transfer that waits for a free stream try again."""
        op, number = heappop(stream.waiting)
        queue = self._lanes[number].queue
        assert queue is not None  # only queues have data
        queue.waiting[0].woken_by = stream
        heappush(self._heap, (time, _DATA, op, number))

    def _finish(self) -> None:
        transfer, time = self._dma.finish()
        columns, op = self.columns, transfer.op
        lane = self._lanes[transfer.lane]
        queue = lane.queue
        assert queue is not None  # only queues transfer
        columns.duration[op] = time - columns.start[op]
        cost = self.costs[self._variant[op]]
        columns.busy[op] = cost.interval
        columns.throttle_reason[op] = BANDWIDTH
        queue.busy = False
        queue.ended = time
        queue.last = lane.last = op
        for stream in self._streams.leave(transfer.streams, time):
            self._wake(stream, time)
        if queue.waiting:
            heappush(self._heap, (queue.start_of_next(), _DATA, queue.waiting[0].op, lane.index))
        self._visible(op, time + cost.stagger + self._completion)
