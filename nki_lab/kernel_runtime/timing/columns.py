"""The columns of numbers that the event loop reads and writes."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, NamedTuple

Numbers = MutableSequence[int]
"""A small table: a list where the interpreter runs the loop, an array where compiled code does.

A column of ops is also an array before the loop runs."""


class Constants(NamedTuple):
    """The constants of the whole machine: times in picoseconds, and how its tables are laid out.

    `limit` is what HBM gives in a second, 0: no limit. `classes` are the kinds of DMA engines that transfers tell
    apart, 0 where all transfers use the same. Tables of something in each lane or core have `width` of each. An event
    has its kind in the bits from `kind_bit` on, above those of its op.
    """

    hop: int
    launch: int
    table_load: int
    tile_load: int
    gap: int
    sharing: bool
    limit: int
    classes: int
    width: int
    kind_bit: int
    has_loops: bool
    has_arrivals: bool


class Variants(NamedTuple):
    """The costs of each variant of an instruction; `tail` is how long after its end its result is visible.

    `generator` and `Lanes.trigger` add up to the number of the trigger of a transfer.
    """

    interval: Numbers
    tail: Numbers
    table: Numbers
    loads: Numbers
    guarded: Numbers
    apart: Numbers
    blocks: Numbers
    issue: Numbers
    generator: Numbers
    generation: Numbers
    start_latency: Numbers
    spacing: Numbers
    work: Numbers
    rates: Numbers
    masks: Numbers


class Ops(NamedTuple):
    """The needs of each op; `order` has the ops of all lanes one after the other.

    An op has the stream `stream`, -1 for none, and those from its place `more_at` of `more_streams` up to the next -1,
    if that is not -1.
    """

    variant: Any
    lane: Any
    order: Any
    edge_start: Any
    pred: Any
    kind: Any
    lane_flow: Any
    reused: Any
    loops: Any
    lock_start: Any
    lock: Any
    stream: Any
    more_at: Any
    more_streams: Any
    arrival: Any
    first_waiter: Any


class Lanes(NamedTuple):
    """The lanes, and how far each of them is.

    `place` is that of the head in `Ops.order`, before `end`; where an engine's head comes to `halt`, the event loop
    halts for a look at the machine. `cursor` is the first edge of the head whose end is not known yet, `avail`, `cause`
    and `edge_kind` the latest of those before. `pred` to `setup_reason` are why the head starts when it does, where it
    waits for locks. A DMA queue has triggered the transfers from `data_place` to before `place`. The first of them has
    its descriptors and what it starts up with at `due`; `placed` tells whether it has its streams already, `woken_by`
    which stream told it to try again, and `next_for_stream` which lane waits for that one behind it. `busy_with` is the
    transfer that moves data, -1: none, with its engines, its rate, and the work that is left.
    """

    core: Numbers
    trigger: Numbers
    is_queue: Numbers
    guards_all: Numbers
    data_reason: Numbers
    end: Numbers
    halt: Numbers
    ramp_at: Numbers
    tiles_at: Numbers
    place: Numbers
    free: Numbers
    last: Numbers
    cursor: Numbers
    avail: Numbers
    cause: Numbers
    edge_kind: Numbers
    table: Numbers
    asked: Numbers
    pred: Numbers
    stall: Numbers
    setup: Numbers
    setup_reason: Numbers
    next_waiter: Numbers
    data_place: Numbers
    due: Numbers
    placed: Numbers
    woken_by: Numbers
    next_for_stream: Numbers
    busy_with: Numbers
    ended: Numbers
    left: Numbers
    share: Numbers
    mask: Numbers
    rate: Numbers
    active: Numbers
    woken: Numbers


class Shared(NamedTuple):
    """The parts that lanes share, and the events to come.

    A trigger writes descriptors for one transfer at a time; its `anchor` is the op whose end began the run of requests
    that it is working off, -1 for the start of the kernel. A stream are the transfers of one HBM tensor: `next` is when
    another may start its data, as far as those before are known, `last` the latest of them, which has the stream while
    `busy`, `head` the first lane that waits for it. `clock` is (the time up to which transfers are worked off, when the
    first of them ends, its lane, the numbers of active transfers, of events, and of lanes to look at).
    """

    trigger_free: Numbers
    trigger_anchor: Numbers
    lock_free: Numbers
    lock_holder: Numbers
    lock_lane: Numbers
    lock_reason: Numbers
    stream_next: Numbers
    stream_last: Numbers
    stream_busy: Numbers
    stream_head: Numbers
    ramps: Numbers
    tile_blocks: Numbers
    tile_ends: Numbers
    tile_state: Numbers
    clock: Numbers
    event_time: Numbers
    event_code: Numbers


class Times(NamedTuple):
    """Times of ops in picoseconds.

    `start`, `duration`: when an op takes its lane, and for how long. `ready`: when its result is visible, -1 before
    that is known. `stall`: what its lane waited for before it, `critical_pred`: the op whose end let it start (-1:
    none). `setup`: the last stretch of that wait, which the lane spent on `setup_reason`. `busy`: its own work within
    `duration`; the rest went to `throttle_reason`. `served`: when the descriptors of a transfer begin to be made.
    """

    start: Any
    duration: Any
    ready: Any
    critical_pred: Any
    busy: Any
    served: Any
    setup: Any
    setup_reason: Any
    stall: Any
    throttle_reason: Any


class Machine(NamedTuple):
    """A machine, with the times of the ops that it executes."""

    constants: Constants
    variants: Variants
    ops: Ops
    lanes: Lanes
    shared: Shared
    times: Times
