"""The machine that executes a scheduled program, as columns of numbers for the event loop.

`machine_of` lays out what ops need and what lanes and shared parts begin with; `Machine.run` lets the event loop take
its events. Columns are lists and buffers where the interpreter runs the loop, arrays where compiled code does.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.number_sets import occurring
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.timing.collectives import delays
from nki_lab.kernel_runtime.timing.columns import Constants, Lanes, Machine, Ops, Shared, Times, Variants
from nki_lab.kernel_runtime.timing.costs import VariantCost, picoseconds
from nki_lab.kernel_runtime.timing.dma import NEVER, UNITS, hbm_limit, hbm_rate
from nki_lab.kernel_runtime.timing.locks import RAMP_FIELDS, locks_of, ramp_of, reused_tiles
from nki_lab.kernel_runtime.timing.loops import loop_times
from nki_lab.kernel_runtime.timing.reasons import BANDWIDTH, DMA_START, NONE, RAMP, data_from
from nki_lab.kernel_runtime.timing.streams import streams_of

_BLOCKS: Final = 72  # room for the instructions on one array, of which each has a block of its own


def machine_of(
    program: Program,
    schedule: Schedule,
    options: Options,
    allocation: Allocation | None,
    costs: Sequence[VariantCost],
    arrivals: Mapping[int, int],
) -> Machine:
    """Return the machine before its first event: columns of ops as arrays, small tables as lists.

    `arrivals` are the picoseconds at which the data of ops has come from other ranks, of those that come later than
    this one.
    """
    arch, count = program.arch, len(program)
    width = max(len(schedule.lanes), program.cores)
    variant = program.variant_column()
    queues = np.array([lane.kind == "dma" for lane in schedule.lanes], bool)
    generators = {name: at * width for at, name in enumerate(dict.fromkeys(cost.generator for cost in costs))}
    late = delays(program, list(costs))
    masks, classes = _engine_classes(program, costs, variant, width)
    in_queue = queues[schedule.lane]
    begun = np.array([cost.start_latency for cost in costs], np.int64)[variant] + _sparse(late, count)
    setup = np.where(in_queue, begun, 0)  # as long as a transfer waits for nothing but its own begin
    transfers = np.flatnonzero(np.bincount(variant, in_queue)).tolist()
    streams = streams_of(program, schedule, options, in_queue, transfers)
    constants = Constants(
        hop=picoseconds(arch.semaphore_ns),
        launch=launch_of(program, options),
        table_load=picoseconds(arch.activation_table_load_ns),
        tile_load=picoseconds(arch.load_stationary_ns),
        gap=picoseconds(arch.dma_engine_overhead_ns),
        sharing=options.bandwidth_sharing,
        limit=hbm_limit(arch, program.cores) if options.bandwidth_sharing else 0,
        classes=classes,
        width=width,
        kind_bit=count.bit_length(),
        has_loops=bool(program.begins),
        has_arrivals=bool(late or arrivals),
    )
    locks = locks_of(program, schedule, costs, options, allocation)
    variants = _variants(program, options, costs, transfers, generators, locks.guarded, masks)
    ops = Ops(
        variant=variant,
        lane=schedule.lane.astype(np.int64),
        order=np.concatenate([*schedule.order, np.zeros(0, np.int64)]).astype(np.int64),
        edge_start=schedule.start.astype(np.int64),
        pred=schedule.pred.astype(np.int64),
        kind=schedule.kind.astype(np.int64),
        lane_flow=schedule.lane_flow.astype(np.int64),
        reused=_reused(program, schedule, options, costs),
        loops=_loops(program, schedule, queues),
        lock_start=locks.start,
        lock=locks.lock,
        stream=streams.first,
        more_at=streams.more_at,
        more_streams=streams.more,
        arrival=_sparse(arrivals, count) if constants.has_arrivals else np.zeros(1, np.int64),
        first_waiter=np.full(count, -1),
    )
    return Machine(
        constants,
        variants,
        ops,
        _lanes(program, schedule, options, costs, generators, width),
        _shared(program, len(schedule.lanes), len(generators) * width, locks.reason, streams.total),
        _times(schedule, ops.order, variant, costs, bool(options.power_ramp and arch.power_ramp_ns), setup),
    )


def launch_of(program: Program, options: Options) -> int:
    """Return the picoseconds before the first instruction of a kernel."""
    return picoseconds(program.arch.before_ns(program.cores)) if options.launch_overhead else 0


def _variants(
    program: Program,
    options: Options,
    costs: Sequence[VariantCost],
    transfers: Container[int],
    generators: Mapping[str, int],
    guarded: Sequence[bool],
    masks: list[int],
) -> Variants:
    arch = program.arch
    interval_ps = picoseconds(arch.dma_issue_interval_ns)
    completion = max(0, picoseconds(arch.dma_completion_ns) - picoseconds(arch.semaphore_ns))
    tables = {name: number for number, name in enumerate(dict.fromkeys(cost.table for cost in costs if cost.table), 1)}
    has_tables = options.table_loads and arch.activation_table_load_ns
    return Variants(
        interval=_numbers(cost.interval for cost in costs),
        tail=_numbers(
            cost.stagger + completion if number in transfers else cost.latency - cost.interval
            for number, cost in enumerate(costs)
        ),
        table=_numbers(tables.get(cost.table or "", 0) if has_tables else 0 for cost in costs),
        loads=_numbers(cost.stationary >= 0 for cost in costs),
        guarded=_numbers(guarded),
        apart=_numbers(cost.apart for cost in costs),
        blocks=_numbers(cost.blocks for cost in costs),
        issue=_numbers(cost.issue for cost in costs),
        generator=_numbers(generators[cost.generator] for cost in costs),
        generation=_numbers(cost.generation for cost in costs),
        start_latency=_numbers(cost.start_latency for cost in costs),
        spacing=_numbers(interval_ps if cost.spaced else 0 for cost in costs),
        work=_numbers(cost.interval * UNITS for cost in costs),
        rates=_numbers(hbm_rate(cost.hbm_bytes, cost.interval) for cost in costs),
        masks=masks,
    )


def _numbers(values: Iterable[int]) -> list[int]:
    return [int(value) for value in values]


def _engine_classes(
    program: Program, costs: Sequence[VariantCost], variant: Column, width: int
) -> tuple[list[int], int]:
    """Return the engines of each (variant, core) as bits, one for all engines that the same transfers use, and how many
    bits there are: 0 where all transfers use the same engines.
    """
    cores = program.core_column()
    masks = [0] * (len(costs) * width)
    bits = 0
    used: set[int] = set()
    for core in range(program.cores):
        mine = [number for number in occurring(variant[cores == core]).tolist() if costs[number].engines]
        members: dict[tuple[int, ...], int] = {}
        for engine in range(program.arch.dma_engines):
            users = tuple(number for number in mine if costs[number].engines >> engine & 1)
            if users and users not in members:
                members[users] = bits
                bits += 1
        for users, bit in members.items():
            for number in users:
                masks[number * width + core] |= 1 << bit
        used |= {masks[number * width + core] for number in mine}
    # An op without engines that waits in a queue, as data of other ranks may, shares with none but its like.
    alone = len(used) == 1 and all(costs[number].engines for number in _of_queues(program, variant))
    return masks, 0 if alone else bits


def _of_queues(program: Program, variant: Column) -> list[int]:
    """Return the variants of transfers."""
    return [
        number for number in occurring(variant).tolist() if program.variants[number].instruction.dma_route is not None
    ]


def _reused(program: Program, schedule: Schedule, options: Options, costs: Sequence[VariantCost]) -> Column:
    """Return of each op whether the array has its stationary tile already."""
    found = np.zeros(len(program), np.int64)
    if options.stationary_reuse and any(cost.stationary >= 0 for cost in costs):
        for lane, order in zip(schedule.lanes, schedule.order, strict=True):
            if lane.name == "tensor" and len(order):
                found[order] = reused_tiles(program, costs, order)
    return found


def _loops(program: Program, schedule: Schedule, queues: Mask) -> Column:
    """Return the picoseconds of each op's sequencer before it, for loops."""
    if not program.begins:
        return np.zeros(1, np.int64)
    found = np.zeros(len(program), np.int64)
    for lane, order, queue in zip(schedule.lanes, schedule.order, queues, strict=True):
        if not queue:
            found[order] = loop_times(program, lane.core, order)
    return found


def _sparse(values: Mapping[int, int], count: int) -> Column:
    found = np.zeros(count, np.int64)
    found[list(values)] = list(values.values())
    return found


def _lanes(
    program: Program,
    schedule: Schedule,
    options: Options,
    costs: Sequence[VariantCost],
    generators: Mapping[str, int],
    width: int,
) -> Lanes:
    arch, lanes = program.arch, schedule.lanes
    launch = launch_of(program, options)
    count = len(lanes)
    begin = [0, *np.cumsum([len(order) for order in schedule.order]).tolist()]
    used = occurring(program.variant_column()).tolist()
    by_software = options.bandwidth_sharing and any(costs[number].generator == "gpsimd" for number in used)
    has_tiles = options.array_tiles and any(cost.blocks for cost in costs)
    has_ramp = options.power_ramp and arch.power_ramp_ns
    on_array = [lane.name == "tensor" and lane.kind != "dma" for lane in lanes]

    def all_of(value: int) -> list[int]:
        return [value] * count

    return Lanes(
        core=[lane.core for lane in lanes],
        trigger=[lane.core if options.bandwidth_sharing else number for number, lane in enumerate(lanes)],
        is_queue=_numbers(lane.kind == "dma" for lane in lanes),
        guards_all=[
            generators["gpsimd"] + lane.core if by_software and lane.name == "gpsimd" else -1 for lane in lanes
        ],
        data_reason=[data_from(lane.name, lane.kind) for lane in lanes],
        end=begin[1:],
        halt=begin[1:],
        ramp_at=[
            lane.core * RAMP_FIELDS if mine and has_ramp else -1 for lane, mine in zip(lanes, on_array, strict=True)
        ],
        tiles_at=[
            lane.core * _BLOCKS if mine and has_tiles else -1 for lane, mine in zip(lanes, on_array, strict=True)
        ],
        place=begin[:-1],
        free=all_of(launch),
        last=all_of(-1),
        cursor=[int(schedule.start[order[0]]) if len(order) else 0 for order in schedule.order],
        avail=all_of(0),
        cause=all_of(-1),
        edge_kind=all_of(0),
        table=all_of(0),
        asked=all_of(launch),
        pred=all_of(-1),
        stall=all_of(0),
        setup=all_of(0),
        setup_reason=all_of(0),
        next_waiter=all_of(-1),
        data_place=begin[:-1],
        due=all_of(0),
        placed=all_of(0),
        woken_by=all_of(-1),
        next_for_stream=all_of(-1),
        busy_with=all_of(-1),
        ended=all_of(launch),
        left=all_of(0),
        share=all_of(UNITS),
        mask=all_of(0),
        rate=all_of(0),
        active=all_of(0),
        woken=list(range(count))[::-1],
    )


def _shared(program: Program, lanes: int, triggers: int, lock_reasons: list[int], streams: int) -> Shared:
    cores, locks = program.cores, len(lock_reasons)
    return Shared(
        trigger_free=[0] * triggers,
        trigger_anchor=[-1] * triggers,
        lock_free=[0] * locks,
        lock_holder=[-1] * locks,
        lock_lane=[-1] * locks,
        lock_reason=lock_reasons,
        stream_next=[0] * streams,
        stream_last=[-1] * streams,
        stream_busy=[0] * streams,
        stream_head=[-1] * streams,
        ramps=ramp_of(program.arch) * cores,
        tile_blocks=[0] * (_BLOCKS * cores),
        tile_ends=[0] * (_BLOCKS * cores),
        tile_state=[0, -1, *[0] * (_BLOCKS - 2)] * cores,
        clock=[0, NEVER, -1, 0, 0, lanes],
        event_time=[0] * (2 * lanes + 1),
        event_code=[0] * (2 * lanes + 1),
    )


def _times(
    schedule: Schedule,
    order: Column,
    variant: Column,
    costs: Sequence[VariantCost],
    has_ramp: bool,
    setup: Column,
) -> Times:
    """Return the results as far as they are known beforehand, among them the `setup` of transfers."""
    count = len(schedule)
    slowed = [BANDWIDTH if lane.kind == "dma" else RAMP if has_ramp and lane.name == "tensor" else NONE
              for lane in schedule.lanes]  # fmt: skip
    starts = [DMA_START if lane.kind == "dma" else NONE for lane in schedule.lanes]  # where nothing else is waited for
    busy = np.array([cost.interval for cost in costs], np.int64)[variant]
    throttle_reason, setup_reason = (np.array(reasons, np.uint8)[schedule.lane] for reasons in (slowed, starts))
    if len(order) < count:  # an order may leave ops out, whose work others do
        left_out = np.ones(count, bool)
        left_out[order] = False
        busy[left_out], throttle_reason[left_out], setup[left_out], setup_reason[left_out] = 0, 0, 0, 0
    return Times(
        start=np.zeros(count, np.int64),
        duration=np.zeros(count, np.int64),
        ready=np.full(count, -1, np.int64),
        critical_pred=np.full(count, -1, np.int64),
        busy=busy,
        served=np.zeros(count, np.int64),
        setup=setup,
        setup_reason=setup_reason,
        stall=np.zeros(count, np.uint8),
        throttle_reason=throttle_reason,
    )


def interpreted(machine: Machine) -> Machine:
    """Return the same machine as the interpreter reads and writes it fastest: lists, and views of the results."""
    return machine._replace(
        ops=Ops(*(column.tolist() for column in machine.ops)),
        times=Times(*(memoryview(column) for column in machine.times)),
    )


def times_of(times: Times) -> Times:
    """Return the results of a machine as arrays."""
    return Times(*(np.frombuffer(column, np.uint8 if column.itemsize == 1 else np.int64) for column in times))
