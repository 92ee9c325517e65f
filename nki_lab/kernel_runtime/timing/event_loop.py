"""The event loop of the walk, in the part of Python that both the interpreter and numba run.

`advance` works on columns of numbers only, which `machine` lays out: lists and buffers for the interpreter, arrays for
compiled code. So there is one algorithm, and the two cannot differ. It is one long function because a call costs Python
more than what most parts of it do; whatever a lane knows of its next op is in local variables while it is looked at.

Compute lanes are worked off as far as what is known allows; where lanes meet (DMA engines and descriptor generators,
locked memories) events are taken in order of time, equal ones in program order.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

from nki_lab.kernel_runtime.schedule import EDGE_KINDS
from nki_lab.kernel_runtime.timing.dma import NEVER, UNITS, next_end
from nki_lab.kernel_runtime.timing.locks import WHOLE_ARRAY, stretched
from nki_lab.kernel_runtime.timing.reasons import (
    LOOP,
    NONE,
    OF_EDGE,
    OTHER_RANK,
    QUEUE,
    SEMAPHORE,
    STATIONARY,
    TABLE,
    TRIGGER,
)

if TYPE_CHECKING:
    from nki_lab.kernel_runtime.timing.columns import Constants, Lanes, Numbers, Ops, Shared, Times, Variants

# Kinds of events. At one time triggers come before instructions, and these before data.
_ASK: Final = 0
_START: Final = 1
_DATA: Final = 2
_LAST: Final = 3

_BEFORE_NEVER: Final = NEVER - 1  # when the last event comes, behind which there are none

CORE: Final = EDGE_KINDS.index("core")


def advance(
    constants: Constants, variants: Variants, ops: Ops, lanes: Lanes, shared: Shared, times: Times, budget: int
) -> bool:
    """Take `budget` events, or all that there are, or those until a lane halts; return whether there may be more."""
    hop, launch, table_load, tile_load, gap = (
        constants.hop,
        constants.launch,
        constants.table_load,
        constants.tile_load,
        constants.gap,
    )
    sharing, limit, classes, width = constants.sharing, constants.limit, constants.classes, constants.width
    has_loops, has_arrivals = constants.has_loops, constants.has_arrivals
    # An event is (time, kind and op, lane), the kind in bits above those of ops.
    kind_bit = constants.kind_bit
    start_bit, data_bit, last_bit = _START << kind_bit, _DATA << kind_bit, _LAST << kind_bit
    interval, tail, table, loads = variants.interval, variants.tail, variants.table, variants.loads
    guarded, apart, blocks, issue = variants.guarded, variants.apart, variants.blocks, variants.issue
    generator, generation = variants.generator, variants.generation
    spacing, masks, rates, work = variants.spacing, variants.masks, variants.rates, variants.work
    variant, order, edge_start, pred, kinds = ops.variant, ops.order, ops.edge_start, ops.pred, ops.kind
    lane_of, lane_flow, reused, loops = ops.lane, ops.lane_flow, ops.reused, ops.loops
    lock_start, lock_of = ops.lock_start, ops.lock
    first_stream, more_at, more_streams = ops.stream, ops.more_at, ops.more_streams
    arrivals, first_waiter = ops.arrival, ops.first_waiter
    core, trigger_of, is_queue, guards_all, data_reason, end, halts = (
        lanes.core,
        lanes.trigger,
        lanes.is_queue,
        lanes.guards_all,
        lanes.data_reason,
        lanes.end,
        lanes.halt,
    )
    ramp_at, tiles_at = lanes.ramp_at, lanes.tiles_at
    places, free_from, lasts, cursors, avails = lanes.place, lanes.free, lanes.last, lanes.cursor, lanes.avail
    causes, edge_kinds, tables, asked = lanes.cause, lanes.edge_kind, lanes.table, lanes.asked
    head_pred, head_stall, head_setup, head_reason = lanes.pred, lanes.stall, lanes.setup, lanes.setup_reason
    next_waiter, data_place, dues, placed, woken_by = (
        lanes.next_waiter,
        lanes.data_place,
        lanes.due,
        lanes.placed,
        lanes.woken_by,
    )
    next_for_stream, busy_with, ended, left, share = (
        lanes.next_for_stream,
        lanes.busy_with,
        lanes.ended,
        lanes.left,
        lanes.share,
    )
    mask_of, rate_of, active_at, woken_at = lanes.mask, lanes.rate, lanes.active, lanes.woken
    trigger_free, trigger_anchor = shared.trigger_free, shared.trigger_anchor
    lock_free, lock_holder, lock_lane, lock_reason = (
        shared.lock_free,
        shared.lock_holder,
        shared.lock_lane,
        shared.lock_reason,
    )
    stream_next, stream_last, stream_busy, stream_head = (
        shared.stream_next,
        shared.stream_last,
        shared.stream_busy,
        shared.stream_head,
    )
    ramps, tile_blocks, tile_ends, tile_state = shared.ramps, shared.tile_blocks, shared.tile_ends, shared.tile_state
    clock, event_time, event_code = shared.clock, shared.event_time, shared.event_code
    start, duration, ready, critical_pred = times.start, times.duration, times.ready, times.critical_pred
    busy, served, setup_of, setup_reason_of, stall_of = (
        times.busy,
        times.served,
        times.setup,
        times.setup_reason,
        times.stall,
    )
    now, ends, ending = clock[0], clock[1], clock[2]
    # Lists that begin with a number, so that numba knows what is in them.
    active, heap, woken = [0], [(_BEFORE_NEVER, last_bit, 0)], [0]
    active.pop()
    woken.pop()
    for at in range(clock[3]):
        active.append(active_at[at])  # noqa: PERF401 - numba knows no slices of arrays in lists
    for at in range(clock[4]):
        heappush(heap, (event_time[at], event_code[at], lane_of[event_code[at] & (start_bit - 1)]))
    for at in range(clock[5]):
        woken.append(woken_at[at])  # noqa: PERF401

    more = True
    given = False  # the head of `lane` starts at `time`, as was found before
    asks = False  # the event of a queue that asked is still in the heap, as the first
    critical, stall, setup, setup_reason = -1, 0, 0, 0
    for _ in range(budget):
        # -- the next event --------------------------------------------------------------------------------------
        time, code, lane = heap[0]
        if woken:
            lane = woken.pop()
        elif ends <= time:
            # The transfer that ends first does.
            lane, time = ending, ends
            active.remove(lane)
            ends = NEVER
            if active:
                passed = time - now
                for other in active:
                    left[other] -= passed * share[other]
                ends, ending = next_end(active, left, share, mask_of, rate_of, classes, sharing, limit, time)
            now = time
            op = busy_with[lane]
            busy_with[lane] = -1
            duration[op] = time - start[op]
            ended[lane] = time
            lasts[lane] = op
            later = time + gap
            stream, at = first_stream[op], more_at[op]
            while stream >= 0:
                stream_busy[stream] = 0
                if later > stream_next[stream]:  # noqa: PLR1730 - a call of max takes as long as three lines
                    stream_next[stream] = later
                other = stream_head[stream]
                if other >= 0:
                    stream_head[stream] = next_for_stream[other]
                    woken_by[other] = stream
                    heappush(heap, (time, data_bit + order[data_place[other]], other))
                if at < 0:
                    break
                stream = more_streams[at]
                at += 1
            place = data_place[lane]
            if place < places[lane]:
                waiting = order[place]
                dues[lane] = begin = served[waiting] + setup_of[waiting]
                heappush(heap, (begin if begin > later else later, data_bit + waiting, lane))
            ready[op] = time + tail[variant[op]]
            other = first_waiter[op]
            while other >= 0:
                woken.append(other)
                other = next_waiter[other]
            continue
        else:
            if code >= data_bit:
                if code >= last_bit:
                    more = False
                    break
                heappop(heap)
                # The queue is ready for its next transfer, which moves data as soon as those of its tensors let it.
                place = data_place[lane]
                op = order[place]
                number = variant[op]
                if not placed[lane]:
                    begin, before, wanted = time, -1, -1
                    first, rest = first_stream[op], more_at[op]
                    stream, at = first, rest
                    while stream >= 0:
                        if stream_busy[stream]:
                            wanted = stream
                            break
                        if stream_next[stream] > begin:
                            begin, before = stream_next[stream], stream_last[stream]
                        if at < 0:
                            break
                        stream = more_streams[at]
                        at += 1
                    if wanted >= 0:
                        # Behind those whose op comes first.
                        other, previous = stream_head[wanted], -1
                        while other >= 0 and order[data_place[other]] < op:
                            previous, other = other, next_for_stream[other]
                        next_for_stream[lane] = other
                        if previous < 0:
                            stream_head[wanted] = lane
                        else:
                            next_for_stream[previous] = lane
                    else:
                        stream, at = first, rest
                        while stream >= 0:
                            stream_next[stream] = begin + spacing[number]
                            stream_last[stream] = op
                            stream_busy[stream] = 1
                            if at < 0:
                                break
                            stream = more_streams[at]
                            at += 1
                    stream = woken_by[lane]
                    if stream >= 0:
                        woken_by[lane] = -1
                        other = stream_head[stream]
                        if other >= 0 and not stream_busy[stream]:
                            stream_head[stream] = next_for_stream[other]
                            woken_by[other] = stream
                            heappush(heap, (time, data_bit + order[data_place[other]], other))
                    if wanted >= 0:
                        continue
                    if begin > time:
                        placed[lane] = 1
                        critical_pred[op] = before
                        stall_of[op] = QUEUE
                        setup_of[op], setup_reason_of[op] = 0, NONE
                        heappush(heap, (begin, code, lane))
                        continue
                    if time > dues[lane]:
                        critical_pred[op] = lasts[lane]
                        stall_of[op] = QUEUE
                        setup_of[op], setup_reason_of[op] = 0, NONE
                    elif time - ended[lane] < setup_of[op]:
                        setup_of[op] = time - ended[lane]
                else:
                    placed[lane] = 0
                data_place[lane] = place + 1
                start[op] = time
                busy_with[lane] = op
                if classes:
                    mask_of[lane] = masks[number * width + core[lane]]
                if limit:
                    rate_of[lane] = rates[number]
                left[lane] = work[number]
                if active:
                    passed, now = time - now, time
                    for other in active:
                        left[other] -= passed * share[other]
                    active.append(lane)
                    ends, ending = next_end(active, left, share, mask_of, rate_of, classes, sharing, limit, now)
                else:
                    now = time
                    active.append(lane)
                    share[lane] = UNITS
                    ends, ending = now + interval[number], lane
                continue
            place = places[lane]
            if code < start_bit:
                # The head of a queue asks for its descriptors.
                op = code
                number = variant[op]
                trigger = generator[number] + trigger_of[lane]
                begin = trigger_free[trigger]
                waited = begin > 0
                if begin < time:  # noqa: PLR1730 - as above
                    begin = time
                if waited and begin > avails[lane]:
                    stall_of[op] = TRIGGER
                else:
                    cause = causes[lane]
                    trigger_anchor[trigger] = cause
                    if cause < 0:
                        stall_of[op] = OTHER_RANK if avails[lane] else NONE
                    elif edge_kinds[lane]:
                        stall_of[op] = OF_EDGE[edge_kinds[lane]]
                    else:
                        stall_of[op] = data_reason[lane_of[cause]]
                served[op] = begin
                critical_pred[op] = trigger_anchor[trigger]
                trigger_free[trigger] = asked[lane] = begin + generation[number]
                if busy_with[lane] < 0 and data_place[lane] == place:
                    begin += setup_of[op]
                    dues[lane] = begin
                    if lasts[lane] >= 0 and ended[lane] + gap > begin:
                        begin = ended[lane] + gap
                    heappush(heap, (begin, data_bit + op, lane))
                place += 1
                places[lane] = place
                if place == end[lane]:
                    heappop(heap)
                    continue
                op = order[place]
                at, available = edge_start[op], 0
                cause, edge_kind, asks = -1, 0, True
            else:
                # The head starts, if all that it needs is free.
                op = code - start_bit
                begin, holder, reason = time, -1, NONE
                for at in range(lock_start[op], lock_start[op + 1]):
                    lock = lock_of[at]
                    if lock_free[lock] > begin and lock_lane[lock] != lane:
                        begin, holder, reason = lock_free[lock], lock_holder[lock], lock_reason[lock]
                trigger = guards_all[lane]
                if trigger >= 0 and trigger_free[trigger] > begin:
                    begin, holder, reason = trigger_free[trigger], trigger_anchor[trigger], TRIGGER
                if begin > time:
                    head_pred[lane] = holder
                    head_stall[lane] = reason
                    heapreplace(heap, (begin, code, lane))
                    continue
                heappop(heap)
                given = True

        if asks or is_queue[lane]:
            # -- the head of a queue asks for its descriptors as soon as it is known when what it needs is there -----
            if not asks:
                place = places[lane]
                if place == end[lane]:
                    continue
                op = order[place]
                at, available = cursors[lane], avails[lane]
                cause, edge_kind = causes[lane], edge_kinds[lane]
            other, last_edge = lane_flow[op], edge_start[op + 1]
            missing = -1
            if other >= 0:
                time = ready[other]
                if time < 0:
                    missing, last_edge = other, at
                elif time + hop > available:
                    available, cause, edge_kind = time + hop, other, 0
            while at < last_edge:
                other = pred[at]
                time = ready[other]
                if time < 0:
                    missing = other
                    break
                time += hop
                if time > available:
                    available, cause, edge_kind = time, other, kinds[at]
                elif time == available and edge_kind == CORE:
                    cause, edge_kind = other, kinds[at]
                at += 1
            if missing >= 0:
                next_waiter[lane] = first_waiter[missing]
                first_waiter[missing] = lane
                if asks:
                    heappop(heap)
            else:
                if has_arrivals and arrivals[op] > available:
                    available, cause = arrivals[op], -1
                begin = asked[lane]
                event = (begin if begin > available else available, op, lane)
                if asks:
                    heapreplace(heap, event)
                else:
                    heappush(heap, event)
            cursors[lane], avails[lane] = at, available
            causes[lane], edge_kinds[lane] = cause, edge_kind
            asks = False
            continue

        # -- take ops of a lane as long as it is known when they start, and nothing can come in between -------------
        # Two by two: four at a time take the interpreter longer.
        place, stop = places[lane], halts[lane]
        free, last = free_from[lane], lasts[lane]
        at, available = cursors[lane], avails[lane]
        cause, edge_kind = causes[lane], edge_kinds[lane]
        ramp, tiles, all_guarded = ramp_at[lane], tiles_at[lane], guards_all[lane] >= 0
        if given:
            critical, stall, setup, setup_reason = (
                head_pred[lane],
                head_stall[lane],
                head_setup[lane],
                head_reason[lane],
            )
        while place < stop:
            op = order[place]
            number = variant[op]
            if not given:
                # Dependences: `available` is when the latest of them is there.
                other = lane_flow[op]
                if other >= 0:
                    time = ready[other]
                    if time < 0:
                        next_waiter[lane] = first_waiter[other]
                        first_waiter[other] = lane
                        break
                    time += hop
                    if time > available:
                        available, cause, edge_kind = time, other, 0
                last_edge = edge_start[op + 1]
                while at < last_edge:
                    other = pred[at]
                    time = ready[other]
                    if time < 0:
                        break
                    time += hop
                    if time > available:
                        available, cause, edge_kind = time, other, kinds[at]
                    elif time == available and edge_kind == CORE:
                        cause, edge_kind = other, kinds[at]  # rather for what its own core has been at as long
                    at += 1
                if at < last_edge:
                    # It looks again when the last one that is yet to end has ended: most often the others have then.
                    item = last_edge - 1
                    while ready[pred[item]] >= 0:
                        item -= 1
                    other = pred[item]
                    next_waiter[lane] = first_waiter[other]
                    first_waiter[other] = lane
                    break
                # When it can start, locks apart; with why.
                begin = free
                if tiles >= 0:
                    wanted = blocks[number] or WHOLE_ARRAY
                    for item in range(tiles, tiles + tile_state[tiles]):
                        if tile_blocks[item] & wanted and tile_ends[item] > begin:
                            begin = tile_ends[item]
                if cause < 0:
                    reason = NONE
                elif edge_kind:
                    reason = OF_EDGE[edge_kind]
                else:
                    reason = data_reason[lane_of[cause]]
                if available > begin:
                    time, critical = available, cause
                    stall = reason if ready[cause] > begin else SEMAPHORE
                else:
                    time, critical, stall = begin, last, NONE
                setup = 0
                if has_loops and begin + loops[op] > time:
                    # The sequencer counts and branches after the op before, beside the wait for what this one needs.
                    setup, setup_reason = begin + loops[op] - time, LOOP
                if table[number] and table[number] != tables[lane]:
                    tables[lane] = table[number]
                    setup, setup_reason = setup + table_load, TABLE
                elif loads[number] and not reused[op]:
                    # The load runs beside the matmul before, from when its tile is there.
                    exposed = (available if available > launch else launch) + tile_load - time
                    if exposed > setup:
                        setup, setup_reason, critical, stall = exposed, STATIONARY, cause, reason
                time += setup
                if guarded[number] or all_guarded:
                    head_pred[lane], head_stall[lane] = critical, stall
                    head_setup[lane], head_reason[lane] = setup, setup_reason
                    heappush(heap, (time, start_bit + op, lane))
                    break
            # It starts at `time`.
            lasting = interval[number]
            if ramp >= 0:
                lasting = stretched(ramps, ramp, time, lasting)
            start[op] = time
            duration[op] = lasting
            critical_pred[op] = critical
            if stall:
                stall_of[op] = stall
            if setup:
                setup_of[op] = setup
                setup_reason_of[op] = setup_reason
            free = time + lasting
            last = op
            done = free + tail[number]
            if tiles >= 0:
                # The next op may start beside one that uses a part of the array. In the columns, a row lasts until the
                # next one starts, or until the array is idle; all of that counts as its work.
                other = tile_state[tiles + 1]
                if other >= 0 and time - setup - start[other] < duration[other]:
                    busy[other] = busy[other] * (time - setup - start[other]) // duration[other]
                    duration[other] = time - setup - start[other]
                kept = tiles
                for item in range(tiles, tiles + tile_state[tiles]):
                    if tile_ends[item] > time:
                        tile_blocks[kept], tile_ends[kept] = tile_blocks[item], tile_ends[item]
                        kept += 1
                tile_blocks[kept], tile_ends[kept] = blocks[number] or WHOLE_ARRAY, free
                tile_state[tiles] = kept + 1 - tiles
                tile_state[tiles + 1] = op
                tile_state[tiles + 2] = max(tile_state[tiles + 2], free)
                duration[op] = tile_state[tiles + 2] - time
                busy[op] += tile_state[tiles + 2] - time - lasting
                if blocks[number]:
                    free = time + issue[number] * lasting // max(interval[number], 1)
            if given:
                given = False
                until = max(time, free - apart[number])
                for item in range(lock_start[op], lock_start[op + 1]):
                    lock = lock_of[item]
                    lock_free[lock], lock_holder[lock], lock_lane[lock] = until, op, lane
                trigger = guards_all[lane]
                if trigger >= 0:
                    trigger_free[trigger], trigger_anchor[trigger] = until, op
            ready[op] = done
            other = first_waiter[op]
            while other >= 0:
                woken.append(other)
                other = next_waiter[other]
            place += 1
            at, available, cause = edge_start[order[place]] if place < stop else 0, 0, -1
        else:
            if place < end[lane]:
                # It halts for a look, and goes on before all others.
                places[lane], free_from[lane], lasts[lane] = place, free, last
                cursors[lane], avails[lane], causes[lane] = edge_start[order[place]], 0, -1
                edge_kinds[lane] = edge_kind
                woken.append(lane)
                break
        places[lane], free_from[lane], lasts[lane] = place, free, last
        cursors[lane], avails[lane] = at, available
        causes[lane], edge_kinds[lane] = cause, edge_kind

    clock[0], clock[1], clock[2] = now, ends, ending
    clock[3], clock[4], clock[5] = len(active), len(heap) - 1, len(woken)
    for at in range(len(active)):
        active_at[at] = active[at]
    at = 0
    for begin, code, _ in heap:
        if code < last_bit:
            event_time[at], event_code[at] = begin, code
            at += 1
    for at in range(len(woken)):
        woken_at[at] = woken[at]
    return more


def follow(before: Numbers, row: int, found: Numbers) -> int:
    """Enter a row, the one before it, and so on until there is none (-1); return how many there are."""
    count = 0
    while row >= 0:
        found[count] = row
        count += 1
        row = before[row]
    return count
