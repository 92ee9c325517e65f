"""Tiles that hold the same values as earlier ones: loads of the same bytes, and the same computations on equal tiles.

The published counters of NKIBench (Beta 1 on trn1) show that the compiler computes them once. `swiglu` transposes its
input in six loops and executes the 256 transposes of one; `bmm` transposes in four iterations and executes those of
one; `rmsnorm_matmul` loads its weights in four iterations and reads their 8 MB once.

inferred: a tile is kept for later as long as the tiles in use leave room in SBUF. Source: the transposes of `matmul`,
whose 84 MB are no tile's room, are executed in each of twelve iterations. A tile counts as a whole: its writers in
their order with all that they read. Tiles that users placed, and those that are read while they are still written,
stay.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.backend.broadcasts import spreads
from nki_lab.kernel_runtime.backend.listing import DEAD, Listing, is_pure, may_stay
from nki_lab.kernel_runtime.footprint import Column, Mask, distinct
from nki_lab.kernel_runtime.tensor import Buffer, sbuf

_ROUNDS: Final = 24  # how many computations after each other a value is followed through
_STEPS: Final = 8192  # parts of the program's time in which the memory in use is known

REPEATS_NOTE: Final = "repeated instructions left out"
"""The note about what was computed before."""

Hashes = NDArray[np.uint64]


def merge_repeats(listing: Listing) -> None:
    """Let one tile stand for later tiles of equal values where memory allows, and drop what is not needed any more.

    The tiles that one line of the kernel fills are merged together or not at all: results of the engines before loads,
    which cost less to repeat, and the last lines first, as then tiles that only they read are not needed either.
    """
    tiles = Tiles(listing)
    earlier, later = tiles.repeats()
    sites = tiles.site_of_writer[later]
    groups = [np.flatnonzero(sites == site) for site in distinct(sites).tolist()]
    room, dead = _FreeMemory(listing, tiles), Dead(listing, tiles)
    replaced: dict[int, int] = {}
    for pairs in sorted(groups, key=lambda pairs: tiles.rank(int(later[pairs[0]]))):
        wanted = pairs[dead.needed(later[pairs])]
        first, second = earlier[wanted].tolist(), later[wanted].tolist()
        if second and room.extend(list(zip(first, second, strict=True)), loads=tiles.rank(second[0])[0]):
            replaced.update(zip(second, first, strict=True))
            dead.without(second)
    if replaced:
        replace_tiles(listing, tiles, replaced, dead)


class Tiles:
    """The buffers of a listing with the rows that write and read them."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        count = len(listing.buffers)
        self.row, self.out = listing.access_row, listing.is_out
        self.buffer = listing.buffer_of_view[listing.view]
        rows = len(listing)
        self.first_write, self.last_write = np.full(count, rows), np.full(count, -1)
        self.first_read, self.last_read = np.full(count, rows), np.full(count, -1)
        for chosen, first, last in (
            (self.out, self.first_write, self.last_write),
            (~self.out, self.first_read, self.last_read),
        ):
            np.minimum.at(first, self.buffer[chosen], self.row[chosen])
            np.maximum.at(last, self.buffer[chosen], self.row[chosen])
        self.simple = self._simple()
        self.is_late = spreads(listing)
        sites = np.frombuffer(listing.program.op_site, np.uint32).astype(np.int64)
        self.site_of_writer = np.append(sites[listing.near], -1)[np.minimum(self.first_write, rows)]

    def rank(self, tile: int) -> tuple[bool, int]:
        """Return a key that is smaller for tiles that are replaced earlier."""
        row = int(self.first_write[tile])
        return self.listing.variants[self.listing.variant[row]].engine == "dma", -row

    def _simple(self) -> Mask:
        """Mark the tiles whose values follow from their writers, all of which come before all readers."""
        listing = self.listing
        tile = np.array([may_stay(buffer) for buffer in listing.buffers], bool)
        tile &= (self.last_write >= 0) & (self.first_read > self.last_write)
        strange = np.array([not is_pure(variant) for variant in listing.variants], bool)
        bad = strange[listing.variant[self.row]] & self.out
        moved = np.array([view.indirect is not None for view in listing.views], bool)[listing.view]
        rows_moved = np.zeros(len(listing), bool)
        rows_moved[self.row[moved]] = True
        bad |= self.out & rows_moved[self.row]
        tile[self.buffer[bad]] = False
        tile[self.buffer[moved]] = False
        tile[[tensor._buffer.id for tensor in listing.program.outputs]] = False
        return tile

    def hashes(self) -> Hashes:
        """Return a number for the values of each buffer: equal for equal values, else different."""
        listing, row, reads = self.listing, self.row, ~self.out
        own = _mixed(np.arange(1, len(listing.buffers) + 1, dtype=np.uint64))
        kinds = [hash_of(buffer) for buffer in listing.buffers]
        shape = _mixed(np.array(kinds, np.uint64))
        place = _mixed(self._places() + _mixed((np.arange(len(row)) - listing.first[row]).astype(np.uint64)))
        row_key = _mixed(listing.variant.astype(np.uint64) + np.uint64(1 << 40))
        # The compiler makes these late: they leave the loop around them, no other one.
        late = np.flatnonzero(self.is_late)
        row_key[late] ^= _mixed(self._loop_of(late) + np.uint64(1 << 42))
        # What is read while it changes is another value for each reader. So is what several parameters name: which of
        # them a reader means is not known, and to a kernel they are different tensors.
        unsteady = reads & ~self.simple[self.buffer] & (self.first_read <= self.last_write)[self.buffer]
        if shared := listing.program.shared_inputs:
            unsteady |= reads & np.isin(self.buffer, list(shared))
        row_key[row[unsteady]] = _mixed(row[unsteady].astype(np.uint64) + np.uint64(1 << 41))
        writers = np.flatnonzero(self.out & self.simple[self.buffer])
        writers = writers[np.argsort(self.buffer[writers], kind="stable")]
        rank = np.arange(len(writers)) - np.searchsorted(self.buffer[writers], self.buffer[writers])
        weight = rank.astype(np.uint64) * np.uint64(2) + np.uint64(1)
        value = own
        for _ in range(_ROUNDS):
            of_row = row_key.copy()
            np.add.at(of_row, row[reads], _mixed(value[self.buffer[reads]] ^ place[reads]))
            of_row = _mixed(of_row)
            made = shape.copy()
            np.add.at(made, self.buffer[writers], _mixed(of_row[row[writers]] ^ place[writers]) * weight)
            before, value = value, np.where(self.simple, _mixed(made), own)
            if np.array_equal(before, value):
                return value
        return np.where(before == value, value, own)

    def _loop_of(self, rows: NDArray[np.int64]) -> Hashes:
        """Return the iteration around the innermost loop that each row is in."""
        program = self.listing.program
        parents = np.array([item.parent for item in program.iterations] + [-1], np.int64)
        inner = np.frombuffer(program.op_iteration, np.int32)[self.listing.near[rows]]
        return (parents[inner] + 1).astype(np.uint64)

    def _places(self) -> Hashes:
        """Return a number for where in its buffer each access lies."""
        kinds: dict[object, int] = {}
        of_view = np.array(
            [kinds.setdefault((view.offset, view.type), len(kinds) + 1) for view in self.listing.views], np.uint64
        )
        found: Hashes = _mixed(of_view + np.uint64(1 << 50))[self.listing.view]
        return found

    def repeats(self) -> tuple[Column, Column]:
        """Return first tiles and later tiles of equal values, the later in order of their first readers.

        Of tiles that are computed from each other only those are returned that something else reads as well.
        """
        if not self.simple.any():
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        value = self.hashes()
        mine = np.flatnonzero(self.simple & (self.last_read >= 0) & self._in_sbuf())
        mine = mine[np.argsort(self.first_write[mine], kind="stable")]
        _, first, inverse = np.unique(value[mine], return_index=True, return_inverse=True)
        earliest = mine[first[inverse]]
        rows = np.flatnonzero(earliest != mine)
        return earliest[rows], mine[rows]

    def _in_sbuf(self) -> Mask:
        return np.array([buffer.space is sbuf for buffer in self.listing.buffers], bool)


def hash_of(buffer: Buffer) -> int:
    """Return a number for the kind of a buffer, equal from run to run."""
    return _hash_of((buffer.shape, buffer.dtype.name, buffer.space.value, buffer.core))


@lru_cache(maxsize=4096)
def _hash_of(kind: tuple[object, ...]) -> int:
    return zlib.crc32(repr(kind).encode())


def _mixed(value: Hashes) -> Hashes:
    """Return 64-bit numbers with their bits mixed (the finalizer of SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Hashes = value ^ (value >> np.uint64(31))
    return found


class _FreeMemory:
    """The bytes of a partition of SBUF in use, for parts of the program's time.

    Where the tiles in use are more than fit, those count that are accessed there: the others leave SBUF for a while.
    """

    def __init__(self, listing: Listing, tiles: Tiles) -> None:
        self._capacity = listing.program.arch.sbuf_usable_bytes
        self._tiles = tiles
        self._scale = max(1, -(-len(listing) // _STEPS))
        self._size = np.array([b.partition_bytes * (b.space is sbuf) for b in listing.buffers], np.int64)
        first, last = np.minimum(tiles.first_write, tiles.first_read), np.maximum(tiles.last_write, tiles.last_read)
        self._begin, self._until = first // self._scale, last // self._scale
        rows = np.zeros((len(listing) // self._scale + 2) * self._scale, np.int64)
        np.add.at(rows, first[last >= 0], self._size[last >= 0])
        np.add.at(rows, last[last >= 0] + 1, -self._size[last >= 0])
        live = rows.cumsum().reshape(-1, self._scale).max(axis=1)
        key = distinct(tiles.row // self._scale * len(self._size) + tiles.buffer)
        near = np.bincount(key // len(self._size), self._size[key % len(self._size)], len(live)).astype(np.int64)
        self._used = np.where(live > self._capacity, np.minimum(live, near), live)

    def extend(self, pairs: list[tuple[int, int]], *, loads: bool) -> bool:
        """Let earlier tiles live as long as later ones, which are not needed then; change nothing without room.

        Loads find it beside the tiles in use, results in an SBUF of their own: they may wait in HBM.
        """
        used, until = self._used.copy(), self._until.copy()
        for earlier, later in pairs:
            low, begin = int(until[earlier]) + 1, int(self._begin[later])
            used[low:begin] += self._size[earlier]
            used[begin:low] -= self._size[earlier]
            until[earlier] = max(until[earlier], until[later])
        more = used - self._used
        if bool((used[more > 0] if loads else more).max(initial=0) > self._capacity):
            return False
        self._used, self._until = used, until
        return True


class Dead:
    """The rows whose results nothing needs once some tiles have another one in their place."""

    def __init__(self, listing: Listing, tiles: Tiles) -> None:
        self._tiles = tiles
        self.replaced = np.zeros(len(listing.buffers), bool)
        self.rows = np.zeros(len(listing), bool)
        self._pure = np.array([is_pure(variant) for variant in listing.variants], bool)[listing.variant]
        self._pure &= np.bincount(tiles.row[tiles.out], minlength=len(listing)) > 0
        kept = np.array([not may_stay(buffer) for buffer in listing.buffers], bool)
        kept[[tensor._buffer.id for tensor in listing.program.outputs]] = True
        self._kept = kept | (tiles.last_read < 0)  # what nothing read from the start has its reasons

    def needed(self, tiles: Column) -> Mask:
        """Mark the tiles that a row that is needed reads."""
        return self._read[tiles] if self.replaced.any() else np.ones(len(tiles), bool)

    def without(self, replaced: list[int]) -> None:
        """Replace tiles, and find the rows that are not needed then."""
        tiles = self._tiles
        self.replaced[replaced] = True
        while True:
            self._read = np.zeros(len(self.replaced), bool)
            self._read[tiles.buffer[~self.rows[tiles.row] & ~tiles.out]] = True
            useful = np.zeros(len(self.rows), bool)
            useful[tiles.row[tiles.out & ((self._read | self._kept) & ~self.replaced)[tiles.buffer]]] = True
            dead = self._pure & ~useful & ~self.rows
            if not dead.any():
                return
            self.rows |= dead


def replace_tiles(listing: Listing, tiles: Tiles, replaced: dict[int, int], dead: Dead) -> None:
    """Let readers of replaced tiles read those that stand for them; drop the rows that are not needed."""
    reads = np.flatnonzero(~tiles.out & dead.replaced[tiles.buffer] & ~dead.rows[tiles.row])
    for access in reads.tolist():
        tile = replaced[int(tiles.buffer[access])]
        listing.view[access] = listing.placed_in(int(listing.view[access]), listing.buffers[tile])
    source = listing.source
    for row in np.flatnonzero(dead.rows & (source >= 0)).tolist():
        listing.stand_in[int(source[row])] = DEAD
    for row, other in _twins(tiles, replaced):
        if source[row] >= 0:
            listing.stand_in[int(source[row])] = int(source[other])
    repeated = int(dead.replaced[tiles.buffer[tiles.out]].sum())
    listing.count(REPEATS_NOTE, repeated)
    listing.count("instructions left out whose results nothing needs", int(dead.rows.sum()) - repeated)
    listing.drop(dead.rows)


def _twins(tiles: Tiles, replaced: dict[int, int]) -> list[tuple[int, int]]:
    """Return (writer of a replaced tile, writer of the tile that stands for it).

    Where the one has more writers than the other, its last ones go with the other's last.
    """
    chosen = np.flatnonzero(tiles.out)
    order = chosen[np.argsort(tiles.buffer[chosen], kind="stable")]
    numbers = np.arange(len(tiles.simple))
    start, end = (np.searchsorted(tiles.buffer[order], numbers, side=side) for side in ("left", "right"))
    found: list[tuple[int, int]] = []
    for later, earlier in replaced.items():
        mine, others = order[start[later] : end[later]], order[start[earlier] : end[earlier]]
        same = tiles.row[others].tolist()
        same = [*same[:1] * (len(mine) - len(same)), *same[max(0, len(same) - len(mine)) :]]
        found += zip(tiles.row[mine].tolist(), same, strict=True)
    return found
