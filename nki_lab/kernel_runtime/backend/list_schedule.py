"""The order of instructions: what can go on while others wait runs earlier, within a window and within memory.

The published profiles of Beta 1 kernels show each engine at work on other iterations than the rest: in the mamba
tutorial the Tensor Engine broadcasts until PSUM is full while Vector is some tiles behind. Kernels of which each line
waits for the one before it have published times near that of their busiest engine (attention of Autocomp, the
ceilings of AWS's tests). The compiler that did this is not published. inferred: a list scheduler over unrolled loops.
Each engine takes the first instruction, in the order of the program, of those that could start; all instructions that
the kernel's data, its addresses and its `no_reorder` blocks order keep that order.

Where the next instructions need other activation tables than the Scalar Engine has, they start later by a load: those
of the same tables go first, until the window ends or no other could start earlier. An instruction that shares the lock
of SBUF (Vector and GpSimd, NeuronCore-v2) starts when the lock is free. The lock of PSUM is left out: attention of
Stable Diffusion, whose published times are below ours, became up to 7 % slower with it.

An instruction runs at most `WINDOW` places ahead. Tiles that come into use earlier for it do so only where memory has
room until their place in the program, so that the program can go on in its own order at any time; nothing is spilled
for that.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.spec import SBUF
from nki_lab.kernel_runtime.backend.listing import Listing
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Program, access_columns
from nki_lab.kernel_runtime.schedule import order_edges
from nki_lab.kernel_runtime.schedule.dependencies import FLOW, Edges
from nki_lab.kernel_runtime.tensor import Buffer, psum, sbuf
from nki_lab.kernel_runtime.timing.costs import VariantCost, costs_of, picoseconds

WINDOW: Final = 1024
"""Instructions between the first that has not run and one that may. guess: the compiler's limit is not published."""

REORDERED: Final = "instructions in another place"
"""The note of this step."""

_SLACK: Final = 2
"""How many times as long as its last reader alone takes a tile is thought to stay in use. guess: transfers that share
their engines take about that."""

_NEVER: Final = 1 << 62
"""Later than any time, in picoseconds."""

_ENGINES: Final = ("tensor", "vector", "scalar", "gpsimd", "sync")


def reorder(listing: Listing) -> None:
    """Put the rows in the order in which the engines take them."""
    program = listing.built()
    order = list_order(program)
    moved = _moved(order, _lane_of(program))
    if moved.any():
        listing.permute(order, moved)
        listing.count(REORDERED, int(moved.sum()))


def list_order(program: Program, window: int = WINDOW) -> Column:
    """Return the rows of a program of one core in the order in which engines take them.

    Where the user's schedule goes against the order of the program, that decides, and nothing changes.
    """
    found, flow = order_edges(program)
    if bool((found.pred >= found.op).any()):
        return np.arange(len(program))
    return _ListScheduler(program, found, flow, window).run()


def _moved(order: Column, lane: Column) -> NDArray[np.bool_]:
    """Return which rows run before one of their own engine that stands before them, by new place."""
    moved = np.zeros(len(order), bool)
    for number in range(int(lane.max(initial=-1)) + 1):
        places = np.flatnonzero(lane[order] == number)
        rows = order[places]
        least = np.minimum.accumulate(rows[::-1])[::-1]
        moved[places] = rows > least
    return moved


def _lane_of(program: Program) -> Column:
    """Return what takes each row: an engine, as its place in `_ENGINES`, or a number for each tensor in HBM.

    Transfers of one tensor follow each other.
    """
    engines = [_ENGINES.index(item.engine) if item.engine in _ENGINES else -1 for item in program.variants]
    found: Column = np.array(engines, np.int64)[program.variant_column()]
    accesses = access_columns(program, indices=False)
    far = np.array([not item.on_chip for item in program.buffers], bool)[accesses.buffer]
    tensor = np.full(len(program), -1, np.int64)
    np.maximum.at(tensor, accesses.op[far], accesses.buffer[far])
    transfers = found < 0
    _, number = np.unique(tensor[transfers], return_inverse=True)
    found[transfers] = len(_ENGINES) + number
    return found


class _Tiles:
    """The tiles of SBUF and PSUM that the compiler places: by row those that it accesses, and the bytes in use."""

    def __init__(self, program: Program, linger: Column) -> None:
        """`linger` are the rows for which a tile stays in use after each row that is its last."""
        arch = program.arch
        accesses = access_columns(program)
        count, rows = len(program.buffers), len(program)
        first, last = np.full(count, rows), np.full(count, -1)
        np.minimum.at(first, accesses.buffer, accesses.op)
        np.maximum.at(last, accesses.buffer, accesses.op)
        outputs = {tensor._buffer.id for tensor in program.outputs}
        used = last >= 0
        last[used] = np.minimum(last[used] + linger[last[used]], rows - 1)
        last[[number for number in outputs if last[number] >= 0]] = rows - 1
        space = np.array([_SPACES.get(item.space.value, -1) for item in program.buffers], np.int64)
        size = np.array([_taken(item, arch.psum_bank_bytes) for item in program.buffers], np.int64)
        self.first: list[int] = first.tolist()
        self.space: list[int] = space.tolist()
        self.size: list[int] = size.tolist()
        self.capacity = (arch.sbuf_usable_bytes, arch.psum_banks * arch.psum_bank_bytes)
        self.level = [_level(space == number, size, first, last) for number in range(2)]
        placed = np.array([item.address is None for item in program.buffers], bool)
        mine = np.flatnonzero((placed & (space >= 0))[accesses.buffer])
        pair = np.sort(accesses.op[mine] * max(count, 1) + accesses.buffer[mine])
        pair = pair[np.diff(pair, prepend=-1) > 0]
        self.of_row: list[int] = (pair % max(count, 1)).tolist()
        self.start: list[int] = np.searchsorted(pair // max(count, 1), np.arange(rows + 1)).tolist()
        self.there = bytearray(count)

    def enter(self, row: int, head: int) -> int:
        """Bring the tiles of a row into use while `head` is the first row that has not run.

        Return -1, or the last row at which there is no room for them, and then change nothing.
        """
        there, first = self.there, self.first
        new = [tile for tile in self.of_row[self.start[row] : self.start[row + 1]] if not there[tile]]
        if not new:
            return -1
        early = [tile for tile in new if first[tile] > head]
        for place, tile in enumerate(early):
            level = self.level[self.space[tile]][head : first[tile]]
            room = self.capacity[self.space[tile]] - self.size[tile]
            if level.max() > room:
                for other in early[:place]:
                    self.level[self.space[other]][head : first[other]] -= self.size[other]
                return first[tile] - 1 - int((level[::-1] > room).argmax())
            level += self.size[tile]
        for tile in new:
            there[tile] = 1
        return -1


_SPACES: Final = {sbuf.value: 0, psum.value: 1}


def _level(mine: Mask, size: Column, first: Column, last: Column) -> Column:
    """Return the bytes of some tiles in use at each row, in the order of the program."""
    used = mine & (last >= 0)
    change = np.zeros(int(last.max(initial=0)) + 2, np.int64)
    np.add.at(change, first[used], size[used])
    np.add.at(change, last[used] + 1, -size[used])
    found: Column = change.cumsum()
    return found


def _taken(buffer: Buffer, bank: int) -> int:
    """Return the bytes of a partition that a tile takes: of PSUM whole banks, or a part of one up to its half."""
    size = buffer.partition_bytes
    if buffer.space is psum and 2 * size > bank:
        return -(-size // bank) * bank
    return size


def _ranks(lane: Column, found: Edges, rows: int) -> Column:
    """Return the place of each row in the order in which equal ones are taken: that of the program.

    Transfers are taken in the order of the first stores that wait for them.
    """
    reads = found.kind == FLOW
    by_pred = np.argsort(found.pred[reads], kind="stable")
    after = found.op[reads][by_pred].tolist()
    start = np.searchsorted(found.pred[reads][by_pred], np.arange(rows + 1)).tolist()
    need = list(range(rows))
    for row in range(rows - 1, -1, -1):
        if start[row] < start[row + 1]:
            need[row] = min([need[other] for other in after[start[row] : start[row + 1]]])
    transfers = np.flatnonzero(lane >= len(_ENGINES))
    rank: Column = np.arange(rows)
    rank[transfers[np.argsort(np.array(need, np.int64)[transfers], kind="stable")]] = transfers
    return rank


class _ListScheduler:
    """Engines that take the instructions of a program in the order in which they can start."""

    def __init__(self, program: Program, found: Edges, flow: Edges, window: int) -> None:
        rows = len(program)
        self.count = rows
        self.window = window
        lane = _lane_of(program)
        by_pred = np.argsort(found.pred, kind="stable")
        self.after = found.op[by_pred].tolist()
        self.start = np.searchsorted(found.pred[by_pred], np.arange(rows + 1)).tolist()
        self.missing = np.bincount(found.op, minlength=rows).tolist()
        # Within an engine only what reads a result waits for it; others have their turn.
        waits = np.isin(found.op * rows + found.pred, flow.op * rows + flow.pred)
        waits |= lane[found.op] != lane[found.pred]
        costs = costs_of(program)
        arch = program.arch
        variant = program.variant_column()
        engines = np.array([item.engines.bit_count() / arch.dma_engines if item.engines else 1.0 for item in costs])
        interval = np.array([item.interval for item in costs], np.int64)
        latency = np.array([item.latency + item.start_latency + item.stagger for item in costs], np.int64)
        spaced = np.array([picoseconds(arch.dma_issue_interval_ns) if item.spaced else 0 for item in costs], np.int64)
        moves = (interval * engines).astype(np.int64)
        keeps = np.maximum(moves, spaced)[variant]
        # How long a row keeps what it shares with other lanes: of all DMA engines a part, of memories all of it.
        self.share = np.where([item.engines > 0 for item in costs], moves, interval)[variant].tolist()
        self.interval = keeps.tolist()
        hop = picoseconds(arch.semaphore_ns)
        takes = (latency + hop)[variant]
        pace = max(1, int(np.bincount(lane, keeps).max(initial=0)) // max(rows, 1))
        self.tiles = _Tiles(program, _SLACK * takes // pace)
        load = picoseconds(arch.load_stationary_ns)
        setup = np.array([load if item.stationary >= 0 else 0 for item in costs], np.int64)[variant]
        # From when a row starts until one that depends on it could.
        self.delay = (np.where(waits, takes[found.pred], 0) + setup[found.op])[by_pred].tolist()
        self._queues(program, lane, costs)
        fence = np.full(rows + 1, rows, np.int64)
        for first, end in program.fences:
            fence[[first, end]] = [first, end]
        self.rank = _ranks(lane, found, rows)
        ends = np.minimum.accumulate(fence[::-1])[::-1]
        self.limit = np.minimum(np.append(ends[1:], rows)[:rows], np.arange(rows) + window).tolist()

    def _queues(self, program: Program, lane: Column, costs: list[VariantCost]) -> None:
        """Give the rows of a lane that need the same activation tables, and the lock of SBUF or not, a queue.

        A queue has resources, by number: first its lane, then what all transfers share, or the memory.
        """
        options, lanes = program.options, int(lane.max(initial=0)) + 1
        tables = sorted({item.table for item in costs if item.table is not None and options.table_loads})
        guarded = options.port_conflicts
        needs = [(item.table if item.table in tables else None, guarded and SBUF in item.ports) for item in costs]
        kinds = list(dict.fromkeys(needs))
        kind = np.array([kinds.index(item) for item in needs], np.int64)[program.variant_column()]
        keys, queue = np.unique(lane * max(len(kinds), 1) + kind, return_inverse=True)
        self.queue = queue.tolist()
        self.resources: list[tuple[int, ...]] = []
        self.table: list[str | None] = []
        for key in keys.tolist():
            own, (table, locks) = key // len(kinds), kinds[key % len(kinds)]
            self.resources.append((own, lanes) if own >= len(_ENGINES) else (own, lanes + 1) if locks else (own,))
            self.table.append(table)
        self.free = [0] * (lanes + 2)
        self.table_load = picoseconds(program.arch.activation_table_load_ns)

    def run(self) -> Column:
        """Return the rows in their new order."""
        rank, row_of = self.rank.tolist(), np.argsort(self.rank).tolist()
        count, queue_of, resources, tables, free = self.count, self.queue, self.resources, self.table, self.free
        missing, start, after, delay = self.missing, self.start, self.after, self.delay
        waiting: list[list[tuple[int, int]]] = [[] for _ in resources]  # (when a row could start, its rank)
        able: list[list[int]] = [[] for _ in resources]  # ranks of rows that could start when their engine is free
        beyond = [row for row in range(count) if not missing[row]]  # rows behind the window
        # Rows for whose tiles there is no room, and the last row up to which there is none: those of a queue in order.
        full: list[list[tuple[int, int]]] = [[] for _ in resources]
        held = 0
        first: list[tuple[int, int, int]] = [(_NEVER, 0, number) for number in range(len(resources))]
        # Queues that share something with a queue, itself among them.
        affected = [[n for n, own in enumerate(resources) if set(own) & set(mine)] for mine in resources]
        since = [0] * len(resources)  # when what a queue needs is free
        load = [0 if table is None else self.table_load for table in tables]  # the tables that it needs, now
        when = [0] * count
        done = bytearray(count)
        order: list[int] = []
        head, limit = 0, self.limit[0] if count else 0
        enter = self.tiles.enter

        def look(number: int) -> None:
            """Find the first row of a queue, and when it could start."""
            queue, ready = waiting[number], able[number]
            now = since[number] = max([free[own] for own in resources[number]])
            while queue and queue[0][0] <= now:
                heappush(ready, heappop(queue)[1])
            if ready:
                first[number] = (now + load[number], ready[0], number)
            elif queue:
                time, least = queue[0]
                first[number] = (time + load[number], least, number)
            else:
                first[number] = (_NEVER, 0, number)

        def offer(row: int) -> None:
            number, time = queue_of[row], when[row]
            if time <= since[number]:
                time = since[number]
                heappush(able[number], rank[row])
            else:
                heappush(waiting[number], (time, rank[row]))
            found = (time + load[number], rank[row], number)
            first[number] = min(first[number], found)

        for _ in range(count):
            while beyond and beyond[0] < limit:
                offer(heappop(beyond))
            if held:
                for rows in full:
                    if rows and rows[0][1] < head:
                        offer(heappop(rows)[0])
                        held -= 1
            while True:
                best, least, chosen = min(first)
                if able[chosen]:
                    heappop(able[chosen])
                else:
                    heappop(waiting[chosen])
                row = row_of[least]
                lacks = enter(row, head)
                if lacks < 0:
                    break
                heappush(full[chosen], (row, lacks))
                held += 1
                look(chosen)
            order.append(row)
            done[row] = 1
            lane, *shared = resources[chosen]
            free[lane] = best + self.interval[row]
            for own in shared:
                free[own] = best + self.share[row]
            if load[chosen]:
                for number in affected[chosen]:
                    if tables[number] is not None and resources[number][0] == lane:
                        load[number] = self.table_load if tables[number] != tables[chosen] else 0
            for number in affected[chosen]:
                look(number)
            for edge in range(start[row], start[row + 1]):
                other = after[edge]
                when[other] = max(when[other], best + delay[edge])
                missing[other] -= 1
                if not missing[other]:
                    if other < limit:
                        offer(other)
                    else:
                        heappush(beyond, other)
            if row == head:
                while head < count and done[head]:
                    head += 1
                if head < count:
                    limit = self.limit[head]
        return np.array(order, np.int64)
