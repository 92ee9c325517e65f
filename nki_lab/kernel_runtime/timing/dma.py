"""DMA engines and queues: who triggers a transfer, when its data starts, and how transfers share the engines.

A transfer takes part of its time on each of its engines. Engines with transfers of several queues serve them round
robin, which is equal shares; a transfer advances as its slowest engine does. Shares are kept exact: remaining work
counts in units of which a picosecond alone on an engine does `UNITS`, a number that the usual counts of sharers divide.

Within a queue, data starts `dma_issue_interval_ns` or more after the transfer before started its own, and
`dma_engine_overhead_ns` or more after that ended.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.timing.costs import picoseconds
from nki_lab.kernel_runtime.timing.reasons import DMA_START, NONE, QUEUE

UNITS: Final = 232_792_560
"""The least common multiple of 1 to 20."""

NEVER: Final = 1 << 62


class Transfer:
    """A transfer that moves data."""

    __slots__ = ("engines", "lane", "left", "op", "share")

    def __init__(self, op: int, lane: int, engines: int, work: int) -> None:
        self.op = op
        self.lane = lane
        self.engines = engines
        self.left = work * UNITS
        self.share = UNITS


class DmaEngines:
    """The transfers under way, and when the next of them ends."""

    __slots__ = ("active", "ends", "next", "now", "sharing")

    def __init__(self, sharing: bool) -> None:
        self.sharing = sharing
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
        ends, found = NEVER, None
        together = active[0].engines if active else 0
        same = all(transfer.engines == together for transfer in active)
        for transfer in active:
            if self.sharing:
                count = len(active) if same else _crowd(transfer.engines, active)
                transfer.share = UNITS // count
            end = self.now - (-transfer.left // transfer.share) if transfer.left > 0 else self.now
            if end < ends:
                ends, found = end, transfer
        self.ends, self.next = ends, found


def _crowd(engines: int, active: list[Transfer]) -> int:
    """Transfers on the fullest of some engines."""
    most, bit = 1, 1
    while bit <= engines:
        if engines & bit:
            most = max(most, sum(1 for other in active if other.engines & bit))
        bit <<= 1
    return most


class Trigger:
    """Something that writes descriptors, for one transfer at a time in the order of asking.

    `anchor` is the op whose end began the run of requests that it is working off, -1 for the start of the kernel.
    """

    __slots__ = ("anchor", "cost", "free", "latency")

    def __init__(self, cost: int, latency: int) -> None:
        self.cost = cost
        self.latency = latency
        self.free = 0
        self.anchor = -1

    def serve(self, asked: int, cause: int) -> tuple[int, bool]:
        """When a request of time `asked` is served, and whether it had to wait for others."""
        delayed = self.free > asked
        time = self.free if delayed else asked
        if not delayed:
            self.anchor = cause
        self.free = time + self.cost
        return time, delayed


def trigger_of(arch: Arch, descriptors: str, stores: bool) -> Trigger:
    """The generator of some descriptors: static ones take no engine's time and start like software's."""
    latency = arch.dma_start_store_ns if stores else arch.dma_start_load_ns
    if descriptors == "static":
        return Trigger(0, picoseconds(latency))
    if descriptors == "gpsimd":
        return Trigger(picoseconds(arch.dge_software_ns), picoseconds(latency))
    return Trigger(picoseconds(arch.dge_hardware_ns), picoseconds(arch.dma_start_hardware_ns))


class Waiting:
    """A triggered transfer whose data has not started."""

    __slots__ = ("cause", "earliest", "latency", "op", "reason")

    def __init__(self, op: int, earliest: int, latency: int, cause: int, reason: int) -> None:
        self.op = op
        self.earliest = earliest
        self.latency = latency
        self.cause = cause
        self.reason = reason


class Queue:
    """A DMA queue: in order, with what is triggered and has not started."""

    __slots__ = ("busy", "ended", "gap", "interval", "last", "started", "waiting")

    def __init__(self, arch: Arch, time: int) -> None:
        self.interval = picoseconds(arch.dma_issue_interval_ns)
        self.gap = picoseconds(arch.dma_engine_overhead_ns)
        self.started = self.ended = time
        self.last = -1
        self.busy = False
        self.waiting: deque[Waiting] = deque()

    def start_of_next(self) -> int:
        """When data of the first waiting transfer starts, the one before having ended."""
        earliest = self.waiting[0].earliest
        if self.last < 0:
            return earliest
        return max(earliest, self.started + self.interval, self.ended + self.gap)

    def explain(self, waiting: Waiting, start: int) -> tuple[int, int, int, int]:
        """Why data starts at `start`: (after, stall, set-up time, its reason)."""
        if start > waiting.earliest:
            return self.last, QUEUE, 0, NONE
        return waiting.cause, waiting.reason, min(waiting.latency, start - self.ended), DMA_START
