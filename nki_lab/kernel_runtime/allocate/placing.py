"""Addresses for the tensors of one on-chip memory.

Three arrangements are tried until one has room for everything. *Rotation* gives each short-lived tensor the next free
bytes, so that a tile of the next iteration does not wait for the memory of this one; tensors that stay for long lie at
the low end. *Packing* gives every tensor the lowest free bytes. *Planning* knows all lifetimes and places the largest
tensors first. The compiler's own policy is not published beyond "address rotation is on" (NKI 0.3.0 release notes).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from nki_lab.isa.arch import Arch, legal_starts
from nki_lab.kernel_runtime.allocate.lifetime import QUADRANTS, Lifetimes, Pairs, quadrants_of
from nki_lab.kernel_runtime.allocate.memory import Memory
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion

_PLANNED: Final = 4096  # tensors: planning compares each with all others
_LAPS: Final = 2  # a tensor stays for long when 1 / _LAPS of the memory is handed out during its life

Spans = Sequence[tuple[int, int]]


class LiveBuffers(NamedTuple):
    """The accessed tensors of one memory by their first access, as columns.

    `size` is in bytes of a partition, `taken` what that makes unusable; addresses are multiples of `step`.
    """

    buffers: list[Buffer]
    size: list[int]
    taken: list[int]
    step: list[int]
    first: list[int]
    last: list[int]

    @classmethod
    def of(cls, buffers: list[Buffer], times: Lifetimes, addresses: AddressSpace) -> LiveBuffers:
        """The accessed ones of `buffers`, all of one memory."""
        first, last = times.first.tolist(), times.last.tolist()
        kept = [buffer for buffer in buffers if last[buffer.id] >= 0]
        kept.sort(key=lambda buffer: (first[buffer.id], buffer.id))
        return cls(
            kept,
            [buffer.partition_bytes for buffer in kept],
            [addresses.taken(buffer.partition_bytes) for buffer in kept],
            [max(1, buffer.dtype.nbytes) for buffer in kept],
            [first[buffer.id] for buffer in kept],
            [last[buffer.id] for buffer in kept],
        )


class Placing(NamedTuple):
    """Addresses of buffers: partition and byte (-1: nowhere), and (earlier, later) buffers of the same bytes.

    `beyond` counts those that end in the bytes which are thought to be reserved.
    """

    partition: list[int]
    byte: list[int]
    reuse: Pairs
    beyond: int

    @property
    def missing(self) -> list[int]:
        """The buffers without an address."""
        return [number for number, byte in enumerate(self.byte) if byte < 0]


class AddressSpace(NamedTuple):
    """The sizes of a memory in bytes of a partition; `bank` is 0 where it has no banks."""

    capacity: int
    usable: int
    bank: int

    @classmethod
    def of(cls, space: MemoryRegion, arch: Arch) -> AddressSpace:
        """The room of SBUF or PSUM."""
        if space is MemoryRegion.psum:
            return cls(arch.psum_partition_bytes, arch.psum_partition_bytes, arch.psum_bank_bytes)
        return cls(arch.sbuf_partition_bytes, arch.sbuf_usable_bytes, 0)

    @property
    def limits(self) -> tuple[int, ...]:
        """Where automatic tensors must end: before the bytes that are thought to be reserved, else of the memory."""
        return (self.usable,) if self.usable == self.capacity else (self.usable, self.capacity)

    def taken(self, size: int) -> int:
        """Bytes that a tensor makes unusable: one larger than a bank spans whole banks."""
        return -(-size // self.bank) * self.bank if self.bank and size > self.bank else size


def place(live: LiveBuffers, addresses: AddressSpace, *, hopeless: bool = False) -> Placing:
    """Return addresses for all buffers. Only rotation is tried where all together are `hopeless`."""
    best = _arrange(live, addresses, _Rotation, spread=False)
    for attempt in (_packed, _planned):
        if hopeless or not (best.missing or best.beyond):
            break
        best = min(best, attempt(live, addresses), key=lambda found: (len(found.missing), found.beyond))
    return best


class _Parts:
    """Quadrants that are always occupied together are one part of a Memory.

    `choices` are (start partition, parts) that an automatic tensor of so many partitions may have, the preferred first.
    Without `spread` small tensors lie in the lowest partitions only (guess: as kernels see no reason for others, and
    operands of one instruction have to match); with it, wherever an access may start.
    """

    def __init__(self, live: LiveBuffers, *, spread: bool) -> None:
        starts: dict[int, tuple[int, ...]] = {}
        used = set()
        for buffer in live.buffers:
            if buffer.address is not None:
                used.add(quadrants_of(buffer.address[0], buffer.partitions))
            elif buffer.partitions not in starts:
                legal = legal_starts(buffer.partitions) or (0,)
                starts[buffer.partitions] = legal if spread else legal[:1]
                used.update(quadrants_of(start, buffer.partitions) for start in starts[buffer.partitions])
        self._known: dict[tuple[int, int], tuple[int, ...]] = {}
        marks = [tuple(quadrant in found for found in used) for quadrant in range(QUADRANTS)]
        kinds = list(dict.fromkeys(marks))
        self.of = [kinds.index(mark) for mark in marks]
        self.count = len(kinds)
        self.choices = {
            partitions: [(start, self.parts(start, partitions)) for start in found]
            for partitions, found in starts.items()
        }

    def parts(self, partition: int, partitions: int) -> tuple[int, ...]:
        """Return the parts that some partitions lie in."""
        found = self._known.get((partition, partitions))
        if found is None:
            found = tuple(dict.fromkeys(self.of[quadrant] for quadrant in quadrants_of(partition, partitions)))
            self._known[partition, partitions] = found
        return found


@dataclass(eq=False)
class _Packing:
    """The policy of the lowest free bytes."""

    live: LiveBuffers
    addresses: AddressSpace
    memory: Memory
    cursor: int = 0

    def find(self, number: int, parts: tuple[int, ...], limit: int, blocked: Spans) -> int:
        """Return a byte for a buffer at its first access, -1 without room."""
        size, step, bank = self.live.taken[number], self.live.step[number], self.addresses.bank
        if size <= bank:
            return self._in_bank(number, parts, limit, blocked, size, step)
        for start in (self.cursor, 0) if self.cursor else (0,):
            found = self.memory.find(parts, start, size, self.live.first[number], limit, bank or step, blocked)
            if found >= 0:
                return found
        return -1

    def _in_bank(self, number: int, parts: tuple[int, ...], limit: int, blocked: Spans, size: int, step: int) -> int:
        """Return a byte in the first bank from the cursor on that has room, -1 without one."""
        bank, now = self.addresses.bank, self.live.first[number]
        for turn in range(limit // bank):
            start = (self.cursor // bank + turn) % (limit // bank) * bank
            found = self.memory.find(parts, start, size, now, start + bank, step, blocked)
            if found >= 0:
                return found
        return -1


@dataclass(eq=False)
class _Rotation(_Packing):
    """The policy of the next free bytes, in PSUM of the next free bank; the lowest for buffers that stay for long."""

    def __post_init__(self) -> None:
        live = self.live
        handed_out = np.concatenate(([0], np.cumsum(np.array(live.size, np.int64))))
        until = np.searchsorted(np.array(live.first, np.int64), np.array(live.last, np.int64), side="right")
        during = handed_out[until] - handed_out[:-1]
        self.stays = ((during * _LAPS > self.addresses.usable) & (not self.addresses.bank)).tolist()

    def find(self, number: int, parts: tuple[int, ...], limit: int, blocked: Spans) -> int:
        bank, size = self.addresses.bank, self.live.taken[number]
        if self.stays[number]:
            cursor, self.cursor = self.cursor, 0
            found = super().find(number, parts, limit, blocked)
            self.cursor = cursor
            return found
        found = self._in_bank(number, parts, limit, blocked, bank, bank) if size <= bank else -1
        if found < 0:
            found = super().find(number, parts, limit, blocked)
        if found >= 0:
            self.cursor = -(-(found + size) // bank) * bank % limit if bank else found + size
        return found


def _arrange(
    live: LiveBuffers, addresses: AddressSpace, kind: type[_Packing], *, spread: bool, given: Placing | None = None
) -> Placing:
    """Place buffers one by one at their first access; with `given` addresses, find out who follows whom."""
    parts = _Parts(live, spread=spread)
    memory = Memory(addresses.capacity, live.last, parts.count)
    policy = kind(live, addresses, memory)
    placed = _Placed(live)
    partitions, bytes_, reuse, beyond = [], [], [], 0
    last = live.last
    for number, buffer in enumerate(live.buffers):
        if buffer.address is not None:
            partition, at = buffer.address
        elif given is not None:
            partition, at = given.partition[number], given.byte[number]
        else:
            partition, at = _first_fit(policy, parts, placed, number)
        partitions.append(partition)
        bytes_.append(at)
        if at < 0:
            continue
        end = at + live.taken[number]
        beyond += end > addresses.usable and buffer.address is None
        now = live.first[number]
        before = memory.put(parts.parts(partition, buffer.partitions), number, at, end, now)
        reuse += [(earlier, number) for earlier in before if last[earlier] < now]
    return Placing(partitions, bytes_, reuse, beyond)


def _first_fit(policy: _Packing, parts: _Parts, placed: _Placed, number: int) -> tuple[int, int]:
    """Return (partition, byte) by a policy, below the lowest limit that works; (-1, -1) without room."""
    partitions = policy.live.buffers[number].partitions
    for limit in policy.addresses.limits:
        for partition, where in parts.choices[partitions]:
            blocked = placed.spans(number, quadrants_of(partition, partitions)) if placed.any else ()
            at = policy.find(number, where, limit, blocked)
            if at >= 0:
                return partition, at
    return -1, -1


class _Placed:
    """The tensors that users placed, for those that must keep out of their way."""

    def __init__(self, live: LiveBuffers) -> None:
        self._rows = [row for row, buffer in enumerate(live.buffers) if buffer.address is not None]
        self.any = bool(self._rows) and len(self._rows) < len(live.buffers)
        self._first = [live.first[row] for row in self._rows]
        self._live = live
        # When each place is taken, as numbers of `_rows`: there are fewer places than tensors in long programs.
        self._places: dict[tuple[int, int, int, int], list[int]] = {}
        for number, row in enumerate(self._rows):
            self._places.setdefault(self._place(row), []).append(number)

    def spans(self, number: int, quadrants: range) -> Pairs:
        """(start, end) of the placed tensors in `quadrants` that come later in the number's life, joined and sorted.

        Those that came before it have taken their bytes already.
        """
        low = bisect_right(self._rows, number)
        high = bisect_right(self._first, self._live.last[number], low)
        if low >= high:
            return []
        if high - low <= len(self._places):
            found = [self._place(row) for row in self._rows[low:high]]
        else:
            found = [place for place, numbers in self._places.items() if _any_within(numbers, low, high)]
        return _joined((at, end) for first, stop, at, end in found if first < quadrants.stop and quadrants.start < stop)

    def _place(self, row: int) -> tuple[int, int, int, int]:
        """(first quadrant, end quadrant, first byte, end byte)."""
        buffer = self._live.buffers[row]
        assert buffer.address is not None
        partition, at = buffer.address
        found = quadrants_of(partition, buffer.partitions)
        return found.start, found.stop, at, at + self._live.taken[row]


def _any_within(numbers: list[int], low: int, high: int) -> bool:
    place = bisect_left(numbers, low)
    return place < len(numbers) and numbers[place] < high


def _joined(spans: Iterable[tuple[int, int]]) -> Pairs:
    """Spans in order, those that touch or overlap as one."""
    out: Pairs = []
    for start, end in sorted(set(spans)):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def _packed(live: LiveBuffers, addresses: AddressSpace) -> Placing:
    return _arrange(live, addresses, _Packing, spread=True)


def _planned(live: LiveBuffers, addresses: AddressSpace) -> Placing:
    """Place the largest first, each at the lowest bytes that nothing placed so far needs during its life."""
    count = len(live.buffers)
    partition, byte = [-1] * count, [-1] * count
    if count > _PLANNED:
        return Placing(partition, byte, [], 0)
    first, last = np.array(live.first, np.int64), np.array(live.last, np.int64)
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    covers = np.zeros((count, QUADRANTS), bool)

    def settle(row: int, at_partition: int, at: int) -> None:
        partition[row], byte[row] = at_partition, at
        start[row], end[row] = at, at + live.taken[row]
        found = quadrants_of(at_partition, live.buffers[row].partitions)
        covers[row, found.start : found.stop] = True

    automatic = [row for row, buffer in enumerate(live.buffers) if buffer.address is None]
    for row, buffer in enumerate(live.buffers):
        if buffer.address is not None:
            settle(row, *buffer.address)
    for row in sorted(automatic, key=lambda row: (-live.taken[row] * live.buffers[row].partitions, row)):
        partitions = live.buffers[row].partitions
        beside = (first <= last[row]) & (last >= first[row]) & (end > 0)
        for at_partition in legal_starts(partitions) or (0,):
            found = quadrants_of(at_partition, partitions)
            rows = np.flatnonzero(beside & covers[:, found.start : found.stop].any(axis=1))
            spans = sorted(zip(start[rows].tolist(), end[rows].tolist(), strict=True))
            at = _lowest(spans, addresses, live.taken[row], live.step[row])
            if at >= 0:
                settle(row, at_partition, at)
                break
    return _arrange(live, addresses, _Packing, spread=True, given=Placing(partition, byte, [], 0))


def _lowest(spans: Spans, addresses: AddressSpace, taken: int, step: int) -> int:
    """Return the lowest aligned byte outside the sorted spans, inside one bank where it fits one; -1 without room."""
    bank, at = addresses.bank, 0
    step = bank if bank < taken and bank else step
    for start, end in (*spans, (addresses.capacity, addresses.capacity)):
        if bank and taken <= bank < at % bank + taken:
            at = -(-at // bank) * bank
        if at + taken <= start:
            return at
        if end > at:
            at = -(-end // step) * step
    return -1
