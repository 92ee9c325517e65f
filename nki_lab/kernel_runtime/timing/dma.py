"""DMA engines and queues: who triggers a transfer, when its data starts, and how transfers share engines and HBM.

A transfer takes part of its time on each of its engines. Engines with transfers of several queues serve them round
robin, which is equal shares; a transfer advances as its slowest engine does. Shares are kept exact: remaining work
counts in units of which a picosecond alone on an engine does `UNITS`, a number that the usual counts of sharers divide.

Two published measurements bound how fast transfers follow each other, whatever their size. Copies of one tensor, back
to back, take 850 ns each (DMA overview, efficiency curve); a kernel that loads tiles of two tensors in turn gets one
every 604 ns (kernel optimization tutorial, first version: 66,048 transfers in 39.9 ms). inferred: transfers of one HBM
tensor go one after the other, `dma_issue_interval_ns` or more apart, and a descriptor generator takes
`dge_hardware_ns` for each of all. The curve's first point, 32 bytes a partition, keeps the latter only.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from heapq import heappush
from typing import Final

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.recording.figures import hbm_bytes_per_ns
from nki_lab.kernel_runtime.timing.costs import picoseconds
from nki_lab.kernel_runtime.timing.reasons import DMA_START, NONE, QUEUE

UNITS: Final = 232_792_560
"""The least common multiple of 1 to 20."""

NEVER: Final = 1 << 62


class Transfer:
    """A transfer that moves data; `hbm` are the bytes that it moves to and from HBM in a second at its full rate."""

    __slots__ = ("engines", "hbm", "lane", "left", "op", "share", "streams")

    def __init__(self, op: int, lane: int, streams: list[Stream], engines: int, work: int, hbm_bytes: int = 0) -> None:
        self.op = op
        self.lane = lane
        self.streams = streams
        self.engines = engines
        self.hbm = hbm_bytes * 10**12 // max(work, 1)
        self.left = work * UNITS
        self.share = UNITS


def hbm_limit(arch: Arch, cores: int) -> int:
    """Bytes a second of the HBM that some cores share: their part of the chip's, which a core alone never reaches.

    0 for a single core: no limit.
    """
    return round(hbm_bytes_per_ns(arch, cores) * 1e9) if cores > 1 else 0


class DmaEngines:
    """The transfers under way on all cores, and when the next of them ends.

    Engines of different cores are different bits. `limit` is what HBM gives to all of them in a second, in bytes; 0:
    more than they can take.
    """

    __slots__ = ("active", "ends", "limit", "next", "now", "sharing")

    def __init__(self, sharing: bool, limit: int = 0) -> None:
        self.sharing = sharing
        self.limit = limit if sharing else 0
        self.active: list[Transfer] = []
        self.now = 0
        self.ends = NEVER
        self.next: Transfer | None = None

    def add(self, transfer: Transfer, time: int) -> None:
        """Data of a transfer starts. Times never go back."""
        self._advance(time)
        self.active.append(transfer)
        self._share()

    def finish(self) -> tuple[Transfer, int]:
        """Take out the transfer that ends next; with its end."""
        transfer, time = self.next, self.ends
        assert transfer is not None  # asked for at `ends` only
        self._advance(time)
        self.active.remove(transfer)
        self._share()
        return transfer, time

    def _advance(self, time: int) -> None:
        passed = time - self.now
        self.now = time
        for transfer in self.active:
            transfer.left -= passed * transfer.share

    def _share(self) -> None:
        active = self.active
        if not active:
            self.ends, self.next = NEVER, None
            return
        now, ends, found = self.now, NEVER, None
        if len(active) > 1 and self.sharing:
            together = active[0].engines
            same = all([transfer.engines == together for transfer in active])  # noqa: C419 - a list is faster here
            for transfer in active:
                transfer.share = UNITS // (len(active) if same else _crowd(transfer.engines, active))
        else:
            active[0].share = UNITS
        if self.limit and len(active) > 1:
            self._share_hbm()
        for transfer in active:
            end = now - (-transfer.left // transfer.share)
            if end < ends:
                ends, found = end, transfer
        self.ends, self.next = max(ends, now), found

    def _share_hbm(self) -> None:
        """Slow down all that move data to or from HBM by as much as they ask for more than it gives."""
        asked = sum(transfer.hbm * transfer.share for transfer in self.active) // UNITS
        if asked > self.limit:
            for transfer in self.active:
                if transfer.hbm:
                    transfer.share = max(1, transfer.share * self.limit // asked)


def _crowd(engines: int, active: list[Transfer]) -> int:
    """Transfers on the fullest of some engines."""
    most, bit = 1, 1
    while bit <= engines:
        if engines & bit:
            most = max(most, sum(1 for other in active if other.engines & bit))
        bit <<= 1
    return most


@dataclass(slots=True, eq=False)
class Trigger:
    """A writer of descriptors, for one transfer at a time in the order of asking.

    `anchor` is the op whose end began the run of requests that it is working off, -1 for the start of the kernel.
    """

    free: int = 0
    anchor: int = -1

    def serve(self, asked: int, ready: int, cause: int, cost: int) -> tuple[int, int, bool]:
        """(when a request is served, the op whose end began the wait for that, whether others came first).

        `asked` is when it is made, `ready` when the transfer itself could go, by the end of op `cause`; `cost` is how
        long its descriptors take.
        """
        time = max(asked, self.free)
        waited = time > ready and self.free > 0
        if not waited:
            self.anchor = cause
        self.free = time + cost
        return time, self.anchor, waited


@dataclass(slots=True, eq=False)
class Stream:
    """The transfers of one HBM tensor.

    `next`: when another may start its data, as far as those before are known; `last`: the latest of them, which has
    the stream while `busy`. `waiting`: (op, lane) of the transfers that want it, a heap. One is woken at a time: the
    next only where that one does not take the stream.
    """

    next: int = 0
    last: int = -1
    busy: bool = False
    waiting: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Waiting:
    """A triggered transfer whose data has not started: why it waits, and from when on it could go."""

    op: int
    streams: list[Stream]
    earliest: int
    latency: int
    cause: int
    reason: int
    placed: bool = False
    woken_by: Stream | None = None


class Queue:
    """A DMA queue: in order, one transfer at a time, with what is triggered and has not started."""

    __slots__ = ("busy", "ended", "gap", "last", "waiting")

    def __init__(self, arch: Arch, time: int) -> None:
        self.gap = picoseconds(arch.dma_engine_overhead_ns)
        self.ended = time
        self.last = -1
        self.busy = False
        self.waiting: deque[Waiting] = deque()

    def start_of_next(self) -> int:
        """When data of the first waiting transfer could start, the one before having ended."""
        earliest = self.waiting[0].earliest
        return earliest if self.last < 0 else max(earliest, self.ended + self.gap)

    def explain(self, waiting: Waiting, start: int) -> tuple[int, int, int, int]:
        """Why data starts at `start`: (after, stall, set-up time, its reason)."""
        if start > waiting.earliest:
            return self.last, QUEUE, 0, NONE
        return waiting.cause, waiting.reason, min(waiting.latency, start - self.ended), DMA_START


class Streams:
    """The streams of a program. Without sharing every lane has its own."""

    __slots__ = ("_gap", "_interval", "_operands", "_program", "_sharing", "_streams")

    def __init__(self, program: Program, sharing: bool) -> None:
        arch = program.arch
        self._program = program
        self._sharing = sharing
        self._interval = picoseconds(arch.dma_issue_interval_ns)
        self._gap = picoseconds(arch.dma_engine_overhead_ns)
        self._streams: defaultdict[tuple[int, int], Stream] = defaultdict(Stream)
        # The operands of each variant that are in HBM.
        self._operands = [
            [place for place, name in enumerate(variant.names) if not variant.use.types[name].on_chip]
            for variant in program.variants
        ]

    def of(self, op: int, lane: int, core: int) -> list[Stream]:
        """The streams of a transfer: of its HBM tensors; within SBUF, one for all. Each core has its own."""
        program = self._program
        first = program.op_access[op]
        lane = -1 - core if self._sharing else lane
        found: list[Stream] = []
        for place in self._operands[program.op_variant[op]]:
            stream = self._streams[program.views[program.access_view[first + place]].buffer.id, lane]
            if stream not in found:
                found.append(stream)
        return found or [self._streams[-1, lane]]

    def place(self, streams: list[Stream], op: int, lane: int, time: int, spaced: bool) -> tuple[int, int]:
        """Give a transfer that could start its data at `time` its start; (that, the transfer that it follows).

        The start is NEVER while another one has a stream that it needs; its lane is told when to ask again.
        """
        start, before = time, -1
        for stream in streams:
            if stream.busy:
                heappush(stream.waiting, (op, lane))
                return NEVER, -1
            if stream.next > start:
                start, before = stream.next, stream.last
        for stream in streams:
            stream.next = start + (self._interval if spaced else 0)
            stream.last = op
            stream.busy = True
        return start, before

    def leave(self, streams: list[Stream], time: int) -> list[Stream]:
        """A transfer ended; the streams that somebody waits for."""
        woken: list[Stream] = []
        for stream in streams:
            stream.busy = False
            stream.next = max(stream.next, time + self._gap)
            if stream.waiting:
                woken.append(stream)
        return woken
