"""Addresses for the tensors of one on-chip memory.

Three arrangements are tried until one has room for everything. *Rotation* gives each short-lived tensor the next free
bytes, so that a tile of the next iteration does not wait for the memory of this one; tensors that stay for long lie at
the low end. *Packing* gives every tensor the lowest free bytes. *Planning* knows all lifetimes and places the largest
tensors first. The compiler's own policy is not published beyond "address rotation is on" (NKI 0.3.0 release notes).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from nki_lab.isa.arch import Arch, legal_starts
from nki_lab.kernel_runtime.allocate.lifetime import QUADRANTS, Lifetimes, quadrants_of
from nki_lab.kernel_runtime.allocate.memory import Memory
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion

_PLANNED: Final = 4096  # tensors: planning compares each with all others
_LAPS: Final = 2  # a tensor stays for long when 1 / _LAPS of the memory is handed out during its life

Spans = Sequence[tuple[int, int]]


class Tenants(NamedTuple):
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
    def of(cls, buffers: list[Buffer], times: Lifetimes, room: Room) -> Tenants:
        """The accessed ones of `buffers`, all of one memory."""
        first, last = times.first.tolist(), times.last.tolist()
        kept = [buffer for buffer in buffers if last[buffer.id] >= 0]
        kept.sort(key=lambda buffer: (first[buffer.id], buffer.id))
        return cls(
            kept,
            [buffer.partition_bytes for buffer in kept],
            [room.taken(buffer.partition_bytes) for buffer in kept],
            [max(1, buffer.dtype.nbytes) for buffer in kept],
            [first[buffer.id] for buffer in kept],
            [last[buffer.id] for buffer in kept],
        )


class Placing(NamedTuple):
    """Where tenants lie: partition and byte (-1: nowhere), and (earlier, later) tenants of the same bytes.

    `beyond` counts those that end in the bytes which are thought to be reserved.
    """

    partition: list[int]
    byte: list[int]
    reuse: list[tuple[int, int]]
    beyond: int

    @property
    def missing(self) -> list[int]:
        """The tenants without a place."""
        return [tenant for tenant, byte in enumerate(self.byte) if byte < 0]


class Room(NamedTuple):
    """What a memory has in a partition, in bytes; `bank` is 0 where it has no banks."""

    capacity: int
    usable: int
    bank: int

    @classmethod
    def of(cls, space: MemoryRegion, arch: Arch) -> Room:
        """The room of SBUF or PSUM."""
        if space is MemoryRegion.psum:
            return cls(arch.psum_partition_bytes, arch.psum_partition_bytes, arch.psum_bank_bytes)
        return cls(arch.sbuf_partition_bytes, arch.sbuf_usable_bytes, 0)

    def taken(self, size: int) -> int:
        """Bytes that a tensor makes unusable: one larger than a bank spans whole banks."""
        return -(-size // self.bank) * self.bank if self.bank and size > self.bank else size


def place(tenants: Tenants, room: Room, *, hopeless: bool = False) -> Placing:
    """Addresses for all tenants. `hopeless` says that they cannot all have one, so that only rotation is tried."""
    best = _arrange(tenants, room, _Rotation(tenants, room), spread=False)
    if hopeless or not (best.missing or best.beyond):
        return best
    for attempt in (_packed, _planned):
        found = attempt(tenants, room)
        if (len(found.missing), found.beyond) < (len(best.missing), best.beyond):
            best = found
        if not (best.missing or best.beyond):
            break
    return best


class _Parts:
    """Quadrants that are always occupied together are one part of a Memory.

    Without `spread` small tensors lie in the lowest partitions only (guess: as kernels see no reason for others, and
    operands of one instruction have to match); with it, wherever an access may start.
    """

    __slots__ = ("_choices", "count", "of")

    def __init__(self, tenants: Tenants, *, spread: bool) -> None:
        self._choices: dict[int, tuple[tuple[int, tuple[int, ...]], ...]] = {}
        starts: dict[int, tuple[int, ...]] = {}
        used = set()
        for buffer in tenants.buffers:
            if buffer.address is not None:
                used.add(quadrants_of(buffer.address[0], buffer.partitions))
            elif buffer.partitions not in starts:
                legal = legal_starts(buffer.partitions) or (0,)
                starts[buffer.partitions] = legal if spread else legal[:1]
                used.update(quadrants_of(start, buffer.partitions) for start in starts[buffer.partitions])
        marks = [tuple(quadrant in found for found in used) for quadrant in range(QUADRANTS)]
        kinds = list(dict.fromkeys(marks))
        self.of = [kinds.index(mark) for mark in marks]
        self.count = len(kinds)
        for partitions, found in starts.items():
            self._choices[partitions] = tuple((start, self.parts(start, partitions)) for start in found)

    def parts(self, partition: int, partitions: int) -> tuple[int, ...]:
        """The parts that some partitions lie in."""
        return tuple(dict.fromkeys(self.of[quadrant] for quadrant in quadrants_of(partition, partitions)))

    def choices(self, partitions: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """(start partition, parts) that an automatic tensor may have, the preferred one first."""
        return self._choices[partitions]


class _Packing:
    """The lowest free bytes."""

    def __init__(self, tenants: Tenants, room: Room) -> None:
        self.tenants = tenants
        self.room = room
        self.cursor = 0

    def find(self, memory: Memory, tenant: int, parts: tuple[int, ...], limit: int, blocked: Spans) -> int:
        """A byte for a tenant at its first access, -1 without room."""
        tenants, bank = self.tenants, self.room.bank
        size, now, step = tenants.taken[tenant], tenants.first[tenant], tenants.step[tenant]
        if size > bank:
            found = memory.find(parts, self.cursor, size, now, limit, bank or step, blocked)
            if found < 0 and self.cursor:
                found = memory.find(parts, 0, size, now, limit, bank or step, blocked)
            return found
        count = limit // bank
        first = self.cursor // bank
        for turn in range(count):
            start = (first + turn) % count * bank
            found = memory.find(parts, start, size, now, start + bank, step, blocked)
            if found >= 0:
                return found
        return -1


class _Rotation(_Packing):
    """The next free bytes after those handed out last, in PSUM the next free bank; the lowest for what stays long."""

    def __init__(self, tenants: Tenants, room: Room) -> None:
        super().__init__(tenants, room)
        handed_out = np.concatenate(([0], np.cumsum(np.array(tenants.size, np.int64))))
        until = np.searchsorted(np.array(tenants.first, np.int64), np.array(tenants.last, np.int64), side="right")
        during = handed_out[until] - handed_out[:-1]
        self.stays = (during * _LAPS > room.usable).tolist() if not room.bank else [False] * len(tenants.size)

    def find(self, memory: Memory, tenant: int, parts: tuple[int, ...], limit: int, blocked: Spans) -> int:
        bank = self.room.bank
        if self.stays[tenant]:
            cursor, self.cursor = self.cursor, 0
            found = super().find(memory, tenant, parts, limit, blocked)
            self.cursor = cursor
            return found
        size = self.tenants.taken[tenant]
        found = -1
        if size <= bank:
            found = self._whole_bank(memory, parts, self.tenants.first[tenant], limit, blocked)
        if found < 0:
            found = super().find(memory, tenant, parts, limit, blocked)
        if found >= 0:
            end = found + size
            self.cursor = end if not bank else -(-end // bank) * bank % limit
        return found

    def _whole_bank(self, memory: Memory, parts: tuple[int, ...], now: int, limit: int, blocked: Spans) -> int:
        bank = self.room.bank
        for turn in range(limit // bank):
            start = (self.cursor + turn * bank) % limit
            if memory.find(parts, start, bank, now, start + bank, bank, blocked) == start:
                return start
        return -1


def _arrange(tenants: Tenants, room: Room, policy: _Packing, *, spread: bool, given: Placing | None = None) -> Placing:
    """Place tenants one by one at their first access; with `given` addresses, find out who follows whom."""
    parts = _Parts(tenants, spread=spread)
    memory = Memory(room.capacity, tenants.last, parts.count)
    limits = (room.usable, room.capacity) if room.usable < room.capacity else (room.capacity,)
    placed = _Placed(tenants)
    partitions, bytes_, reuse, beyond = [], [], [], 0
    for tenant, buffer in enumerate(tenants.buffers):
        now = tenants.first[tenant]
        if buffer.address is not None:
            partition, at = buffer.address
            where = parts.parts(partition, buffer.partitions)
        elif given is not None:
            partition, at = given.partition[tenant], given.byte[tenant]
            where = parts.parts(partition, buffer.partitions) if at >= 0 else ()
        else:
            partition, at, where = _first_fit(memory, policy, parts, limits, placed, tenant, buffer)
        partitions.append(partition)
        bytes_.append(at)
        if at < 0:
            continue
        end = at + tenants.taken[tenant]
        beyond += end > room.usable and buffer.address is None
        before = memory.put(where, tenant, at, end, now)
        reuse += [(earlier, tenant) for earlier in before if tenants.last[earlier] < now]
    return Placing(partitions, bytes_, reuse, beyond)


def _first_fit(
    memory: Memory, policy: _Packing, parts: _Parts, limits: tuple[int, ...], placed: _Placed, tenant: int,
    buffer: Buffer,
) -> tuple[int, int, tuple[int, ...]]:  # fmt: skip
    """(partition, byte, parts) by a policy, below the lowest limit that works; byte -1 without room."""
    for limit in limits:
        for partition, where in parts.choices(buffer.partitions):
            blocked = placed.spans(tenant, quadrants_of(partition, buffer.partitions)) if placed.any else ()
            at = policy.find(memory, tenant, where, limit, blocked)
            if at >= 0:
                return partition, at, where
    return -1, -1, ()


class _Placed:
    """The tensors that users placed, for those that must keep out of their way."""

    def __init__(self, tenants: Tenants) -> None:
        self._rows = [row for row, buffer in enumerate(tenants.buffers) if buffer.address is not None]
        self.any = bool(self._rows) and len(self._rows) < len(tenants.buffers)
        self._first = [tenants.first[row] for row in self._rows]
        self._tenants = tenants
        # When each place is taken, as numbers of `_rows`: there are fewer places than tensors in long programs.
        self._places: dict[tuple[int, int, int, int], list[int]] = {}
        for number, row in enumerate(self._rows):
            self._places.setdefault(self._place(row), []).append(number)

    def spans(self, tenant: int, quadrants: range) -> list[tuple[int, int]]:
        """(start, end) of the placed tensors in `quadrants` that come later in the tenant's life, joined and sorted.

        Those that came before it have taken their bytes already.
        """
        low = bisect_right(self._rows, tenant)
        high = bisect_right(self._first, self._tenants.last[tenant], low)
        if low >= high:
            return []
        if high - low <= len(self._places):
            found = [self._place(row) for row in self._rows[low:high]]
        else:
            found = [place for place, numbers in self._places.items() if _any_within(numbers, low, high)]
        return _joined((at, end) for first, stop, at, end in found if first < quadrants.stop and quadrants.start < stop)

    def _place(self, row: int) -> tuple[int, int, int, int]:
        """(first quadrant, end quadrant, first byte, end byte)."""
        buffer = self._tenants.buffers[row]
        assert buffer.address is not None
        partition, at = buffer.address
        found = quadrants_of(partition, buffer.partitions)
        return found.start, found.stop, at, at + self._tenants.taken[row]


def _any_within(numbers: list[int], low: int, high: int) -> bool:
    place = bisect_left(numbers, low)
    return place < len(numbers) and numbers[place] < high


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that touch or overlap as one."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(set(spans)):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def _packed(tenants: Tenants, room: Room) -> Placing:
    return _arrange(tenants, room, _Packing(tenants, room), spread=True)


def _planned(tenants: Tenants, room: Room) -> Placing:
    """Largest first, each at the lowest bytes that nothing placed so far needs during its life."""
    count = len(tenants.buffers)
    policy = _Packing(tenants, room)
    if count > _PLANNED:
        return Placing([-1] * count, [-1] * count, [], 0)
    first, last = np.array(tenants.first, np.int64), np.array(tenants.last, np.int64)
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    covers = np.zeros((count, QUADRANTS), bool)
    partition, byte = [-1] * count, [-1] * count

    def settle(row: int, at_partition: int, at: int) -> None:
        partition[row], byte[row] = at_partition, at
        start[row], end[row] = at, at + tenants.taken[row]
        found = quadrants_of(at_partition, tenants.buffers[row].partitions)
        covers[row, found.start : found.stop] = True

    automatic = []
    for row, buffer in enumerate(tenants.buffers):
        if buffer.address is None:
            automatic.append(row)
        else:
            settle(row, *buffer.address)
    automatic.sort(key=lambda row: (-tenants.taken[row] * tenants.buffers[row].partitions, row))
    for row in automatic:
        buffer = tenants.buffers[row]
        meets = (first <= last[row]) & (last >= first[row]) & (end > 0)
        for at_partition in legal_starts(buffer.partitions) or (0,):
            found = quadrants_of(at_partition, buffer.partitions)
            rows = np.flatnonzero(meets & covers[:, found.start : found.stop].any(axis=1))
            spans = sorted(zip(start[rows].tolist(), end[rows].tolist(), strict=True))
            at = _lowest(spans, room, tenants.taken[row], tenants.step[row])
            if at >= 0:
                settle(row, at_partition, at)
                break
    return _arrange(tenants, room, policy, spread=True, given=Placing(partition, byte, [], 0))


def _lowest(spans: Spans, room: Room, taken: int, step: int) -> int:
    """Lowest aligned byte outside the sorted spans, inside one bank where it fits one; -1 without room."""
    banked = room.bank and taken <= room.bank
    step = step if banked or not room.bank else room.bank
    at = 0
    for start, end in (*spans, (room.capacity, room.capacity)):
        if banked and at % room.bank + taken > room.bank:
            at = -(-at // room.bank) * room.bank
        if at + taken <= start:
            return at
        if end > at:
            at = -(-end // step) * step
    return -1
