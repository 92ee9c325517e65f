"""Addresses for the tensors of one on-chip memory.

Three arrangements are tried until one has room for everything. *Rotation* gives each short-lived tensor the next free
bytes, so that a tile of the next iteration does not wait for the memory of this one; tensors that stay for long lie at
the low end. *Packing* gives every tensor the lowest free bytes. *Planning* knows all lifetimes and places the largest
tensors first. The compiler's own policy is not published beyond "address rotation is on" (NKI 0.3.0 release notes).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple

import numpy as np

from nki_lab.isa.arch import Arch, legal_starts
from nki_lab.kernel_runtime.allocate.compiled import run
from nki_lab.kernel_runtime.allocate.first_fit import NOWHERE, Choices, Memory, Spans, Tensors
from nki_lab.kernel_runtime.allocate.lifetime import QUADRANTS, Lifetimes, Pairs, quadrants_of
from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion

_PLANNED: Final = 4096  # tensors: planning compares each with all others
_LAPS: Final = 2  # a tensor stays for long when 1 / _LAPS of the memory is handed out during its life


class LiveBuffers(NamedTuple):
    """The accessed tensors of one memory by their first access, as columns.

    `size` is in bytes of a partition, `taken` what that makes unusable; addresses are multiples of `step`.
    """

    buffers: list[Buffer]
    ids: Column
    partitions: list[int]
    size: list[int]
    taken: list[int]
    step: list[int]
    first: list[int]
    last: list[int]

    @classmethod
    def of(cls, buffers: list[Buffer], times: Lifetimes, addresses: AddressSpace) -> LiveBuffers:
        """The accessed ones of `buffers`, all of one memory, which ascend by id."""
        ids = np.fromiter((buffer.id for buffer in buffers), np.int64, len(buffers))
        rows = np.flatnonzero(times.last[ids] >= 0)
        rows = rows[np.argsort(times.first[ids[rows]], kind="stable")]
        kept = [buffers[row] for row in rows.tolist()]
        ids = ids[rows]
        size = [buffer.partition_bytes for buffer in kept]
        return cls(
            kept,
            ids,
            [buffer.partitions for buffer in kept],
            size,
            [addresses.taken(length) for length in size] if addresses.bank else size,
            [max(1, buffer.dtype.nbytes) for buffer in kept],
            times.first[ids].tolist(),
            times.last[ids].tolist(),
        )


class Placing(NamedTuple):
    """Addresses of buffers: partition and byte (-1: nowhere), and rows (earlier, later) of buffers of the same bytes,
    in any order.

    `beyond` counts those that end in the bytes which are thought to be reserved.
    """

    partition: Column
    byte: Column
    reuse: Column
    beyond: int

    @property
    def missing(self) -> list[int]:
        """The buffers without an address."""
        found: list[int] = np.flatnonzero(self.byte < 0).tolist()
        return found


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

    def taken(self, size: int) -> int:
        """Bytes that a tensor makes unusable: one larger than a bank spans whole banks."""
        return -(-size // self.bank) * self.bank if self.bank and size > self.bank else size


def place(live: LiveBuffers, addresses: AddressSpace, *, hopeless: bool = False) -> Placing:
    """Return addresses for all buffers. Only rotation is tried where all together are `hopeless`."""
    best = _arrange(live, addresses, rotates=True, spread=False)
    for attempt in (_packed, _planned):
        if hopeless or not (best.missing or best.beyond):
            break
        best = min(best, attempt(live, addresses), key=lambda found: (len(found.missing), found.beyond))
    return best


class _Choices:
    """The places where tensors may lie: kinds of tensors, and the choices of each, as (start partition, parts).

    Quadrants that are always occupied together are one part. Without `spread` small tensors lie in the lowest
    partitions only (guess: as kernels see no reason for others, and operands of one instruction have to match); with
    it, wherever an access may start. A tensor that a user placed, or that has a `given` partition, has one choice.
    """

    def __init__(self, live: LiveBuffers, given: Sequence[int] | None, *, spread: bool) -> None:
        places = [-1] * len(live.buffers) if given is None else given
        placed = [
            place if buffer.address is None else buffer.address[0]
            for place, buffer in zip(places, live.buffers, strict=True)
        ]
        keys = list(zip(placed, live.partitions, strict=True))
        kinds = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self.kind = [kinds[key] for key in keys]
        starts = [
            ((place,) if place >= 0 else legal_starts(partitions) or (0,), partitions) for place, partitions in kinds
        ]
        options = [
            (start, quadrants_of(start, partitions))
            for found, partitions in starts
            for start in (found if spread else found[:1])
        ]
        used = {quadrants for _, quadrants in options}
        marks = [tuple(quadrant in found for found in used) for quadrant in range(QUADRANTS)]
        different = list(dict.fromkeys(marks))
        self.parts = len(different)
        self.partition = np.array([start for start, _ in options], np.int64)
        self.quadrants = [quadrants for _, quadrants in options]
        parts = [
            list(dict.fromkeys(different.index(marks[quadrant]) for quadrant in found)) for found in self.quadrants
        ]
        self.columns = Choices(
            _starts(len(found) if spread else 1 for found, _ in starts), _starts(map(len, parts)), [*chain(*parts)]
        )


def _starts(lengths: Iterable[int]) -> list[int]:
    """Return where each of some stretches begins that follow each other, and where the last one ends."""
    return [0, *accumulate(lengths)]


def _stay(live: LiveBuffers, addresses: AddressSpace) -> list[int]:
    """Return of each tensor whether it stays so long that it would be in the way of those that rotate."""
    if addresses.bank:
        return [0] * len(live.size)
    handed_out = np.concatenate(([0], np.cumsum(np.array(live.size, np.int64))))
    until = np.searchsorted(np.array(live.first, np.int64), np.array(live.last, np.int64), side="right")
    during = handed_out[until] - handed_out[:-1]
    found: list[int] = (during * _LAPS > addresses.usable).astype(np.int64).tolist()
    return found


def _arrange(
    live: LiveBuffers, addresses: AddressSpace, *, rotates: bool = False, spread: bool, given: Placing | None = None
) -> Placing:
    """Place tensors one by one at their first access; with `given` addresses, find out who follows whom."""
    choices = _Choices(live, None if given is None else given.partition.tolist(), spread=spread)
    count = len(live.buffers)
    memory = Memory(addresses.capacity, addresses.usable, addresses.bank, choices.parts, rotates)
    fixed = [-1 if buffer.address is None else buffer.address[1] for buffer in live.buffers]
    at = fixed
    if given is not None:
        at = [byte if byte >= 0 else NOWHERE for byte in given.byte]
    rows, spans = _Placed(live).spans_of(choices) if given is None else ([-1] * count, Spans([0], [], []))
    stay = _stay(live, addresses) if rotates else [0] * count
    tensors = Tensors(live.first, live.last, live.taken, live.step, at, choices.kind, stay, rows)
    chosen, byte, (earlier, later) = run(memory, tensors, choices.columns, spans)
    ends = byte + np.array(live.taken, np.int64)
    beyond = (byte >= 0) & (np.array(fixed, np.int64) < 0) & (ends > addresses.usable)
    return Placing(
        np.where(byte < 0, -1, choices.partition[chosen]) if count else byte,
        byte,
        np.stack((earlier, later), axis=1),
        int(beyond.sum()),
    )


class _Placed:
    """The tensors that users placed, for those that must keep out of their way."""

    def __init__(self, live: LiveBuffers) -> None:
        self._rows = [row for row, buffer in enumerate(live.buffers) if buffer.address is not None]
        self._any = bool(self._rows) and len(self._rows) < len(live.buffers)
        self._first = [live.first[row] for row in self._rows]
        self._live = live
        # When each place is taken, as numbers of `_rows`: there are fewer places than tensors in long programs.
        self._places: dict[tuple[int, int, int, int], list[int]] = {}
        for number, row in enumerate(self._rows):
            self._places.setdefault(self._place(row), []).append(number)

    def spans_of(self, choices: _Choices) -> tuple[list[int], Spans]:
        """Return the spans that automatic tensors must keep out of the way of, and the row of each tensor's first
        choice among them; -1: all came before it.
        """
        rows = [-1] * len(self._live.buffers)
        counts: list[int] = []
        found: Pairs = []
        if self._any:
            kinds = choices.columns.first
            for number, buffer in enumerate(self._live.buffers):
                if buffer.address is None:
                    rows[number] = len(counts)
                    kind = choices.kind[number]
                    for choice in range(kinds[kind], kinds[kind + 1]):
                        spans = self._spans(number, choices.quadrants[choice])
                        counts.append(len(spans))
                        found += spans
        return rows, Spans(_starts(counts), [low for low, _ in found], [high for _, high in found])

    def _spans(self, number: int, quadrants: range) -> Pairs:
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
    return _arrange(live, addresses, spread=True)


def _planned(live: LiveBuffers, addresses: AddressSpace) -> Placing:
    """Place the largest first, each at the lowest bytes that nothing placed so far needs during its life."""
    count = len(live.buffers)
    partition, byte = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    nothing = Placing(partition, byte, np.zeros((0, 2), np.int64), 0)
    if count > _PLANNED:
        return nothing
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
    return _arrange(live, addresses, spread=True, given=nothing)


def _lowest(spans: Sequence[tuple[int, int]], addresses: AddressSpace, taken: int, step: int) -> int:
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
