"""Broadcasts over partitions: products with a row of ones on the Tensor Engine.

The mamba tutorial says that a broadcast over partitions needs an instruction of the Tensor Engine; its profiles show
that engine at work and PSUM full in kernels without products. NKIBench's `mamba` publishes 117,441,000 operations of
it, which are 64 products of one row with 7168 columns of 128 partitions, to three digits; its Scalar Engine is busy for
as long as its activations and 64 copies of these results out of PSUM take.

Results of up to a bank are read where they are: in the profile of `mamba_v1` the product with a broadcast row takes as
long as one with an operand in PSUM. inferred: larger ones, which no single product can write, are copied to SBUF bank
by bank, as are those of which a reader needs its operand in SBUF.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from nki_lab.isa.dtype import F32, DType
from nki_lab.isa.spec import TABLE, Instruction, Use
from nki_lab.kernel_runtime.backend.listing import DEAD, Listing
from nki_lab.kernel_runtime.ir import Variant, View
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, ViewType, make_view, psum, row_major, sbuf, view_type

_READERS: Final = ("vector", "scalar")
"""Engines that read PSUM as they read SBUF."""


def multiply_broadcasts(listing: Listing) -> None:
    """Let the Tensor Engine make copies of one partition to many."""
    able = np.array([_is_broadcast(variant) for variant in listing.variants], bool)[listing.variant]
    if able.any():
        _Broadcasts(listing).run(np.flatnonzero(able).tolist())


def _is_broadcast(variant: Variant) -> bool:
    """Whether a variant copies dense rows of the first partition to all partitions of a tile."""
    if variant.engine != "dma" or variant.instruction.role != "copy" or variant.outs != (True, False):
        return False
    dst, src = (variant.use.types[name] for name in variant.names)
    return bool(
        dst.space is sbuf
        and src.space is sbuf
        and dst.dtype is src.dtype
        and dst.dtype.kind == "float"
        and dst.dtype.nbytes in (2, 4)
        and dst.shape == src.shape
        and src.shape[0] > 1
        and src.strides[0] == 0
        and src.start_partition == 0
        and dst.contiguous
        and src.strides[1:] == row_major(src.shape)[1:]
    )


def _declared(test: Callable[[Instruction], bool]) -> Instruction:
    return next(item for item in TABLE.values() if test(item))


class _Broadcasts:
    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.product = _declared(lambda item: "moving" in item.history)
        self.filling = _declared(lambda item: item.fills is not None and "value" in item.operands)
        self.copying = _declared(lambda item: item.role == "copy" and {"vector", "scalar"} <= set(item.engines))
        self.ones: dict[tuple[DType, int], Buffer] = {}
        self.variants: dict[tuple[Instruction, tuple[ViewType, ...]], int] = {}
        self.before: list[int] = []
        self.variant: list[int] = []
        self.views: list[list[int]] = []
        self.columns = listing.program.arch.psum_bank_bytes // F32.nbytes
        self.first = listing.first
        row, buffer = listing.access_row, listing.buffer_of_view[listing.view]
        order = np.argsort(buffer, kind="stable")
        cuts = np.searchsorted(buffer[order], np.arange(len(listing.buffers) + 1)).tolist()
        self._order, self._cuts = order, cuts
        self.row, self.out = row, listing.is_out

    def accesses(self, tile: int) -> list[int]:
        """Return the accesses of a tile, in order."""
        found: list[int] = self._order[self._cuts[tile] : self._cuts[tile + 1]].tolist()
        return found

    def run(self, rows: list[int]) -> None:
        listing = self.listing
        place = listing.first
        gone = np.zeros(len(listing), bool)
        for row in rows:
            dst, src = (listing.views[int(listing.view[place[row] + number])] for number in range(2))
            gone[row] = True
            listing.stand_in[int(listing.source[row])] = DEAD
            if self._stays_in_psum(row, dst):
                self._read_in_psum(row, dst, src)
            else:
                self._copied(row, dst, src)
        before = np.array(self.before, np.int64)
        listing.count("partition broadcasts by the Tensor Engine", len(rows))
        sources = listing.source[gone]
        listing.insert(before, np.array(self.variant, np.int64), self.views, listing.near[before])
        listing.drop(np.isin(listing.source, sources))

    def _stays_in_psum(self, row: int, dst: View) -> bool:
        """Whether all that reads the tile can read it in PSUM: nothing else is written there, no other input is."""
        listing, tile = self.listing, dst.buffer
        if not dst.full or tile.dtype is not F32 or tile.row_elements > self.columns or tile.address is not None:
            return False
        if tile.kind != "temp" or tile.id in {tensor._buffer.id for tensor in listing.program.outputs}:
            return False
        for access in self.accesses(tile.id):
            reader = int(self.row[access])
            if self.out[access]:
                if reader != row:
                    return False
                continue
            variant = listing.variants[listing.variant[reader]]
            if variant.engine not in _READERS or listing.views[listing.view[access]].indirect is not None:
                return False
            begin = int(self.first[reader])
            inputs = [begin + number for number, out in enumerate(variant.outs) if not out]
            if any(listing.views[listing.view[other]].type.space is psum for other in inputs if other != access):
                return False
            if sum(listing.views[listing.view[other]].buffer is tile for other in inputs) > 1:
                return False
        return True

    def _read_in_psum(self, row: int, dst: View, src: View) -> None:
        listing, tile = self.listing, dst.buffer
        made = self._buffer(psum, F32, tile.shape, tile)
        for access in self.accesses(tile.id):
            if self.out[access]:
                continue
            reader = int(self.row[access])
            old = listing.views[listing.view[access]]
            kind = view_type(make_view(made, old.type.shape, old.type.strides, old.offset, F32))
            listing.view[access] = listing.new_view(made, old.offset, kind)
            number = access - int(self.first[reader])
            listing.variant[reader] = listing.retyped(int(listing.variant[reader]), number, kind)
        self._multiply(row, made, src, 0, tile.row_elements)

    def _copied(self, row: int, dst: View, src: View) -> None:
        columns, rows = dst.type.free_size, dst.type.partitions
        step = dst.type.strides[0]
        for begin in range(0, columns, self.columns):
            width = min(self.columns, columns - begin)
            made = self._buffer(psum, F32, (rows, width), dst.buffer)
            self._multiply(row, made, src, begin, width)
            target = self._view(dst.buffer, (rows, width), (step, 1), dst.offset + begin)
            source = self._view(made, (rows, width), (width, 1), 0)
            self._add(row, self.copying, "vector", (target, source))

    def _multiply(self, row: int, made: Buffer, src: View, begin: int, width: int) -> None:
        """Put the product of ones and some columns of a row before the broadcast; it fills a tile of PSUM."""
        rows = made.partitions
        ones = self._ones(row, src.type.dtype, src.buffer.core)
        result = self._view(made, (rows, width), (width, 1), 0)
        stationary = self._view(ones, (1, rows), (ones.row_elements, 1), 0)
        moving = self._view(src.buffer, (1, width), (src.buffer.row_elements, 1), src.offset + begin)
        self._add(row, self.product, "tensor", (result, stationary, moving))

    def _ones(self, row: int, dtype: DType, core: int) -> Buffer:
        """Return a row of ones, which is written before the first broadcast."""
        key = (dtype, core)
        if key not in self.ones:
            like = self.listing.buffers[0]
            made = self.ones[key] = self._buffer(sbuf, dtype, (1, self.listing.program.arch.pmax), like, core)
            self._add(row, self.filling, "vector", (self._view(made, made.shape, row_major(made.shape), 0),), value=1)
        return self.ones[key]

    def _buffer(
        self, space: MemoryRegion, dtype: DType, shape: tuple[int, ...], like: Buffer, core: int | None = None
    ) -> Buffer:
        buffers = self.listing.buffers
        place = {"site": like.site, "owner": like.owner, "core": like.core if core is None else core}
        made = Buffer(len(buffers), space, dtype, shape, name=like.name, **place)
        buffers.append(made)
        return made

    def _view(self, buffer: Buffer, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> View:
        listing = self.listing
        kind = view_type(make_view(buffer, shape, strides, offset, buffer.dtype))
        return listing.views[listing.new_view(buffer, offset, kind)]

    def _add(self, row: int, instruction: Instruction, engine: str, views: tuple[View, ...], **attrs: object) -> None:
        """Put an instruction before a row; `views` in the order of its tensor operands."""
        listing = self.listing
        kinds = tuple(view.type for view in views)
        known = self.variants.get((instruction, kinds))
        if known is None:
            names = [name for name, item in instruction.operands.items() if item.is_tensor]
            chosen = {name: item.default for name, item in instruction.operands.items() if not item.is_tensor}
            types = dict(zip(names, kinds, strict=True))
            use = Use(instruction, listing.program.arch, types, chosen | attrs, _dims(instruction, types), engine)
            known = self.variants[instruction, kinds] = len(listing.variants)
            listing.variants.append(Variant(known, use))
        self.before.append(row)
        self.variant.append(known)
        self.views.append([view.id for view in views])


def _dims(instruction: Instruction, types: dict[str, ViewType]) -> dict[str, int]:
    """Return the sizes that the letters of an instruction's operands stand for."""
    found: dict[str, int] = {}
    for name, kind in types.items():
        found |= dict(zip(instruction.operands[name].dims, (kind.partitions, kind.free_size), strict=False))
    return found
