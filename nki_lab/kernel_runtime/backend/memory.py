"""Spills and loads that are repeated because SBUF is full: tiles that are loaded where they are read, or wait in HBM.

The published counters of NKIBench (Beta 1 on trn1) show both. `matmul` keeps 160 KiB of weights a partition, which
with its other tiles is more than there is: the 9,059,762,176 bytes that it reads are its weights again for each of 32
row blocks, to the byte. `swiglu` saves 64 MB of intermediate results, `mamba` 52 MB.

inferred: the compiler loads a tile again where its values still stand in HBM, all tiles of a line of the kernel alike
and as much as is read; it does so until the rest fits. The rest goes to HBM when its next use is the farthest
(Belady's rule) and comes back before that. Memory is full at the bytes that are thought to be free for kernels
(`sbuf_usable_bytes`). Source for both remedies: AWS's memory hierarchy overview, and the tutorial on Mamba, which
names the spills of its second version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from heapq import heappop, heappush
from typing import Final

import numpy as np

from nki_lab.isa.spec import TABLE, Use
from nki_lab.kernel_runtime.backend.listing import DEAD, Listing
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Variant, View
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, ViewType, make_view, row_major, sbuf, view_type

_AGAIN: Final = "loads put before each read, for want of memory"
_SAVED: Final = "tiles saved to HBM"
_FETCHED: Final = "tiles loaded from HBM again"
MEMORY_NOTES: Final = (_AGAIN, _SAVED, _FETCHED)
"""The notes about what did not fit."""


def fit_memory(listing: Listing) -> None:
    """Load again and spill until the tiles in use fit."""
    memory = _Memory(listing)
    if memory.fits():
        return
    _load_again(listing, memory)
    memory = _Memory(listing)
    if not memory.fits():
        _spill(listing, memory)


class _Memory:
    """The tiles of SBUF that the compiler places, their accesses in order, and the bytes of a partition in use."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.capacity = listing.program.arch.sbuf_usable_bytes
        self.row, self.out = listing.access_row, listing.is_out
        self.buffer = listing.buffer_of_view[listing.view]
        self.first = np.full(len(listing.buffers), len(listing))
        self.last = np.full(len(listing.buffers), -1)
        np.minimum.at(self.first, self.buffer, self.row)
        np.maximum.at(self.last, self.buffer, self.row)
        self.size = np.array([item.partition_bytes * (item.space is sbuf) for item in listing.buffers], np.int64)
        outputs = {tensor._buffer.id for tensor in listing.program.outputs}
        self.free = np.array(
            [
                b.space is sbuf and b.address is None and b.kind == "temp" and b.id not in outputs
                for b in listing.buffers
            ],
            bool,
        )
        self.live = self._live(self.last >= 0)

    def _live(self, chosen: Mask) -> Column:
        change = np.zeros(len(self.listing) + 1, np.int64)
        np.add.at(change, self.first[chosen], self.size[chosen])
        np.add.at(change, self.last[chosen] + 1, -self.size[chosen])
        found: Column = change.cumsum()[:-1]
        return found

    def fits(self) -> bool:
        return int(self.live.max(initial=0)) <= self.capacity

    def without(self, tiles: Mask) -> Column:
        """Return the bytes in use without some tiles."""
        return self.live - self._live(tiles & (self.last >= 0))


# -- loads -------------------------------------------------------------------------------------------------------------


def _load_again(listing: Listing, memory: _Memory) -> None:
    """Replace tiles that are loaded once by a load before each read, those of the largest lines first.

    That is done where it makes the rest fit; else tiles have to wait in HBM anyway.
    """
    loads = _loads(memory)
    sites = np.frombuffer(listing.program.op_site, np.uint32).astype(np.int64)[listing.near]
    chosen = np.zeros(len(listing.buffers), bool)
    left = memory.live
    while int(left.max(initial=0)) > memory.capacity:
        worst = int(left.argmax())
        there = {
            tile: load
            for tile, load in loads.items()
            if not chosen[tile] and memory.first[tile] <= worst <= memory.last[tile]
        }
        if not there:
            return
        bytes_of: dict[int, int] = {}
        for tile, load in there.items():
            site = int(sites[load])
            bytes_of[site] = bytes_of.get(site, 0) + int(memory.size[tile])
        most = max(bytes_of, key=lambda site: (bytes_of[site], -site))
        chosen[[tile for tile, load in loads.items() if int(sites[load]) == most]] = True
        left = memory.without(chosen)
    room = memory.capacity - int(left.max(initial=0))
    _Reload(listing, memory, {tile: load for tile, load in loads.items() if chosen[tile]}, room).run()


def _loads(memory: _Memory) -> dict[int, int]:
    """Return the load of each tile that one transfer from unchanged HBM fills."""
    listing = memory.listing
    written = np.zeros(len(listing.buffers), bool)
    written[memory.buffer[memory.out]] = True
    on_chip = np.array([item.on_chip for item in listing.buffers], bool)
    moves = np.array([_is_copy(variant) for variant in listing.variants], bool)[listing.variant]
    plain = np.array([view.indirect is None for view in listing.views], bool)[listing.view]
    ins = np.flatnonzero(~memory.out)
    changed = np.zeros(len(listing), bool)
    bad = written[memory.buffer[ins]] | on_chip[memory.buffer[ins]] | ~plain[ins]
    changed[memory.row[ins[bad]]] = True
    writes = np.bincount(memory.buffer[memory.out], minlength=len(listing.buffers))
    reads = np.bincount(memory.buffer[~memory.out], minlength=len(listing.buffers))
    outs = np.flatnonzero(memory.out & moves[memory.row] & ~changed[memory.row] & memory.free[memory.buffer] & plain)
    tiles = memory.buffer[outs]
    good = (
        (writes[tiles] == 1) & (reads[tiles] >= 1) & np.array([view.full for view in listing.views])[listing.view[outs]]
    )
    return dict(zip(tiles[good].tolist(), memory.row[outs[good]].tolist(), strict=True))


def _is_copy(variant: Variant) -> bool:
    return variant.engine == "dma" and len(variant.names) == 2 and variant.instruction.role == "copy"


class _Reload:
    """The loads before reads: what was loaded last stays as long as there is room, the least recently read leaves."""

    def __init__(self, listing: Listing, memory: _Memory, loads: dict[int, int], room: int) -> None:
        self.listing = listing
        self.memory = memory
        self.loads = loads
        self.room = room
        self.kept: OrderedDict[tuple[int, int], tuple[Buffer, int]] = OrderedDict()
        self.bytes = 0
        self.before: list[int] = []
        self.variant: list[int] = []
        self.views: list[list[int]] = []

    def run(self) -> None:
        listing, memory = self.listing, self.memory
        chosen = np.zeros(len(listing.buffers), bool)
        chosen[list(self.loads)] = True
        reads = np.flatnonzero(~memory.out & chosen[memory.buffer])
        first = listing.first
        source_view = {tile: self._views_of(load, int(first[load])) for tile, load in self.loads.items()}
        for access, row, tile in zip(
            reads.tolist(), memory.row[reads].tolist(), memory.buffer[reads].tolist(), strict=True
        ):
            number = int(listing.view[access])
            listing.view[access] = self._loaded(row, tile, number, *source_view[tile])
            kind = listing.views[listing.view[access]].type
            if kind is not listing.views[number].type:
                listing.variant[row] = listing.retyped(int(listing.variant[row]), access - int(first[row]), kind)
        gone = [int(listing.source[load]) for load in self.loads.values()]
        listing.stand_in.update(dict.fromkeys(gone, DEAD))
        before = np.array(self.before, np.int64)
        listing.count(_AGAIN, len(before))
        listing.insert(before, np.array(self.variant, np.int64), self.views, listing.near[before])
        listing.drop(np.isin(listing.source, gone))

    def _views_of(self, load: int, first: int) -> tuple[int, View, View]:
        """Return the variant of a load, the view that it reads, and the one that it writes."""
        listing = self.listing
        variant = listing.variants[listing.variant[load]]
        views = [listing.views[listing.view[first + place]] for place in range(2)]
        dst, src = views if variant.outs[0] else views[::-1]
        return int(listing.variant[load]), src, dst

    def _loaded(self, row: int, tile: int, number: int, variant: int, src: View, dst: View) -> int:
        """Return the view to read instead of view `number` of a tile, loaded before the row unless it is there."""
        listing = self.listing
        view = listing.views[number]
        part = _part(view, src, dst)
        key = (tile, number if part is not None else -1)
        known = self.kept.get(key)
        if known is not None:
            self.kept.move_to_end(key)
            self._leave()
            return known[1] if part is not None else listing.placed_in(number, known[0])
        made, source = (listing.new_buffer(dst.buffer, dst.buffer.name), src.id)
        target = listing.placed_in(dst.id, made)
        found = listing.placed_in(number, made)
        if part is not None:
            made, source, target, variant = self._partly(view, part, src, dst, variant)
            found = target
        names = listing.variants[variant].outs
        self.before.append(row)
        self.variant.append(variant)
        self.views.append([target, source] if names[0] else [source, target])
        self.kept[key] = (made, found)
        self.bytes += made.partition_bytes
        self._leave()
        return found

    def _leave(self) -> None:
        """Forget the least recently read loads that the room does not hold; the last one stays."""
        while self.bytes > self.room and len(self.kept) > 1:
            _, (made, _) = self.kept.popitem(last=False)
            self.bytes -= made.partition_bytes

    def _partly(
        self, view: View, part: tuple[int, tuple[int, ...]], src: View, dst: View, variant: int
    ) -> tuple[Buffer, int, int, int]:
        """Return (tile, view of HBM, view of the tile, variant) of a load of just what a view reads."""
        listing = self.listing
        offset, shape = part
        made = listing.new_buffer(dst.buffer, dst.buffer.name)
        made.shape = shape
        made.partitions, made.row_elements = shape[0], int(np.prod(shape[1:]))
        made.partition_bytes = made.row_elements * made.dtype.nbytes
        made.nbytes = made.partition_bytes * made.partitions
        kind = view_type(make_view(made, shape, row_major(shape), 0, made.dtype))
        source_kind = view_type(make_view(src.buffer, shape, src.type.strides, offset, src.type.dtype))
        for place, out in enumerate(listing.variants[variant].outs):
            variant = listing.retyped(variant, place, kind if out else source_kind)
        return made, listing.new_view(src.buffer, offset, source_kind), listing.new_view(made, 0, kind), variant


def _part(view: View, src: View, dst: View) -> tuple[int, tuple[int, ...]] | None:
    """Return (offset in HBM, shape) of what a view reads of a loaded tile, None where it is no plain part of it.

    The reader must see a part of the same rank that is dense once it stands alone.
    """
    kind, whole, source = view.type, dst.type, src.type
    if (
        view.full
        or view.indirect is not None
        or kind.dtype is not whole.dtype
        or len(kind.shape) != len(whole.shape)
        or kind.strides != whole.strides
        or whole.shape != source.shape
    ):
        return None
    rest, offset = view.offset, src.offset
    for size, step, count, source_step in zip(whole.shape, whole.strides, kind.shape, source.strides, strict=True):
        place, rest = divmod(rest, step)
        if place + count > size:
            return None
        offset += place * source_step
    return None if rest else (offset, kind.shape)


# -- spills ------------------------------------------------------------------------------------------------------------


def _spill(listing: Listing, memory: _Memory) -> None:
    """Save the tile whose next use is the farthest where room is needed, and load it before that use."""
    _Spill(listing, memory).run()


class _Spill:
    def __init__(self, listing: Listing, memory: _Memory) -> None:
        self.listing = listing
        self.memory = memory
        # What users placed stays where it is all its life.
        self.fixed = memory.without(memory.free).tolist()
        self.copy = next(item for item in TABLE.values() if item.role == "copy" and "dma" in item.engines)
        self.variants: dict[tuple[ViewType, ViewType], int] = {}
        self.before: list[int] = []
        self.variant: list[int] = []
        self.views: list[list[int]] = []
        self.loads = _loads(memory)
        self.first = listing.first
        self.now: dict[int, Buffer] = {}
        self.saved: dict[int, Buffer] = {}
        self.clean: set[int] = set()
        self.resident: set[int] = set()
        self.bytes = 0
        self.saves = 0

    def run(self) -> None:
        listing, memory = self.listing, self.memory
        rows = np.flatnonzero(memory.free[memory.buffer])
        order = rows[np.argsort(memory.buffer[rows], kind="stable")]
        start = np.searchsorted(memory.buffer[order], np.arange(len(listing.buffers) + 1)).tolist()
        used_at = memory.row[order].tolist()
        size, last = memory.size.tolist(), memory.last.tolist()
        heap: list[tuple[int, int, int]] = []  # (-next use, size, tile)

        def next_use(tile: int, row: int) -> int:
            place = bisect_right(used_at, row, start[tile], start[tile + 1])
            return used_at[place] if place < start[tile + 1] else -1

        accesses = list(zip(rows.tolist(), memory.row[rows].tolist(), memory.buffer[rows].tolist(), strict=True))
        at = 0
        while at < len(accesses):
            row = accesses[at][1]
            until = at
            while until < len(accesses) and accesses[until][1] == row:
                until += 1
            mine = dict.fromkeys(tile for _, _, tile in accesses[at:until])
            entering = [tile for tile in mine if tile not in self.resident]
            self.resident.update(entering)
            self.bytes += sum(size[tile] for tile in entering)
            room = memory.capacity - self.fixed[row]
            aside: list[tuple[int, int, int]] = []
            while self.bytes > room and heap:
                entry = heappop(heap)
                tile = entry[2]
                if tile not in self.resident or -entry[0] != next_use(tile, row - 1):
                    continue  # an older entry
                if tile in mine:
                    aside.append(entry)
                    continue
                self._save(tile, row)
                self.resident.discard(tile)
                self.bytes -= size[tile]
            for entry in aside:
                heappush(heap, entry)
            for tile in entering:
                if tile in self.saved or (tile in self.loads and row > self.loads[tile]):
                    self._restore(tile, row)
            for access, _, tile in accesses[at:until]:
                if tile in self.now:
                    listing.view[access] = listing.placed_in(int(listing.view[access]), self.now[tile])
                if memory.out[access]:
                    self.clean.discard(tile)
            for tile in mine:
                if last[tile] == row:
                    self.resident.discard(tile)
                    self.bytes -= size[tile]
                else:
                    heappush(heap, (-next_use(tile, row), size[tile], tile))
            at = until
        before = np.array(self.before, np.int64)
        listing.count(_SAVED, self.saves)
        listing.count(_FETCHED, len(before) - self.saves)
        listing.insert(before, np.array(self.variant, np.int64), self.views, listing.near[before])

    def _save(self, tile: int, row: int) -> None:
        if tile in self.clean or tile in self.loads:
            return
        tile_buffer = self.now.get(tile, self.listing.buffers[tile])
        self.saved[tile] = self._hbm(tile_buffer)
        self._move(row, self._whole(self.saved[tile]), self._whole(tile_buffer))
        self.clean.add(tile)
        self.saves += 1

    def _restore(self, tile: int, row: int) -> None:
        listing = self.listing
        made = listing.new_buffer(listing.buffers[tile], listing.buffers[tile].name)
        self.now[tile] = made
        if tile in self.loads:
            variant, first = int(listing.variant[self.loads[tile]]), int(self.first[self.loads[tile]])
            views = [int(listing.view[first + place]) for place in range(2)]
            outs = listing.variants[variant].outs
            self.before.append(row)
            self.variant.append(variant)
            self.views.append(
                [listing.placed_in(view, made) if out else view for view, out in zip(views, outs, strict=True)]
            )
            return
        self._move(row, self._whole(made), self._whole(self.saved[tile]))
        self.clean.add(tile)

    def _hbm(self, tile: Buffer) -> Buffer:
        buffers = self.listing.buffers
        place = {"site": tile.site, "owner": tile.owner, "core": tile.core}
        made = Buffer(len(buffers), MemoryRegion.private_hbm, tile.dtype, tile.shape, name="spill", **place)
        buffers.append(made)
        return made

    def _whole(self, buffer: Buffer) -> View:
        listing = self.listing
        kind = view_type(make_view(buffer, buffer.shape, row_major(buffer.shape), 0, buffer.dtype))
        return listing.views[listing.new_view(buffer, 0, kind)]

    def _move(self, row: int, dst: View, src: View) -> None:
        listing = self.listing
        key = (dst.type, src.type)
        if key not in self.variants:
            attrs = {name: item.default for name, item in self.copy.operands.items() if not item.is_tensor}
            use = Use(self.copy, listing.program.arch, {"dst": dst.type, "src": src.type}, attrs, {}, "dma")
            self.variants[key] = len(listing.variants)
            listing.variants.append(Variant(len(listing.variants), use))
        variant = listing.variants[self.variants[key]]
        self.before.append(row)
        self.variant.append(variant.id)
        self.views.append([dst.id if out else src.id for out in variant.outs])
