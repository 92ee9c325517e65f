"""One partition that is repeated in others: a product with ones on the Tensor Engine.

The architecture guide of Trainium and Inferentia2 says that `broadcast_to` along partitions "invokes such matmul under
the hood", and the mamba tutorial takes that for granted. The profile of NKIBench's mamba on trn1 has the 117,440,512
operations of 32 such products of 7,168 float32 columns (profilers count float32 twice), two for each state.

What becomes of the results follows from the tutorial's second and third version, which wait for the Vector Engine all
the time: they take 1.6 to 1.7 ms for each 512 columns of a state while tiles have no more than that, and 2.2 ms with
1,024. The Vector Engine takes one cycle an element where an operand is in PSUM, and two where both are in SBUF.

inferred: a result that one PSUM bank holds and one instruction reads stays in PSUM; the Scalar Engine copies others, as
all results of products in NKIBench. The compiler makes the products late: equal ones leave the loop around them
(`backend.repeats`), and no other loop.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nki_lab.isa.dtype import F32
from nki_lab.isa.spec import TABLE, Instruction, Unmodelled, Use
from nki_lab.kernel_runtime.backend.listing import Listing, may_stay
from nki_lab.kernel_runtime.footprint import Mask
from nki_lab.kernel_runtime.ir import Variant, View
from nki_lab.kernel_runtime.issue.legality import is_legal
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, make_view, psum, row_major, sbuf, view_type

_COLUMNS: Final = 512
"""Columns of a product: the most that the array takes, and float32 of a PSUM bank."""

_MOST_ROWS: Final = 128

_COPIES: Final = "scalar"
"""The engine of copies out of PSUM; see `backend.engines`."""


def spread_by_products(listing: Listing) -> None:
    """Let the Tensor Engine repeat a partition in others, and the Scalar Engine copy the result where it has to."""
    rows = np.flatnonzero(spreads(listing)).tolist()
    if rows:
        _Products(listing).run(rows)


def spreads(listing: Listing) -> Mask:
    """Mark the rows that repeat one partition of a tile in SBUF."""
    able = [_is_spread(variant) for variant in listing.variants]
    moves = np.array([view.indirect is not None for view in listing.views], bool)
    found: Mask = np.array(able, bool)[listing.variant]
    at = listing.first[found]
    found[found] = ~(moves[listing.view[at]] | moves[listing.view[at + 1]])
    return found


def _is_spread(variant: Variant) -> bool:
    """Return whether a transfer within SBUF reads one partition again and again, of float32."""
    if variant.engine != "dma" or variant.instruction.role != "copy" or variant.outs != (True, False):
        return False
    target, origin = (variant.use.types[name] for name in variant.names)
    inside = all(kind.space is MemoryRegion.sbuf and kind.dtype is F32 for kind in (target, origin))
    return inside and len(target.shape) == 2 and target.shape == origin.shape and not origin.strides[0]


class _Products:
    """Rows that make the products, in place of transfers."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        table = [item for item in TABLE.values() if not isinstance(item.beta1, Unmodelled)]
        self.product = next(item for item in table if item.contraction is not None)
        self.fill = next(item for item in table if item.fills is not None)
        self.copy = next(item for item in table if item.role == "copy" and _COPIES in item.engines)
        self.first, self.row = listing.first, listing.access_row
        self.readers: dict[int, list[int]] = {}
        self.writes = np.zeros(len(listing.buffers), np.int64)
        buffer, out = listing.buffer_of_view[listing.view], listing.is_out
        np.add.at(self.writes, buffer[out], 1)
        spread_to = {int(buffer[self.first[row]]) for row in np.flatnonzero(spreads(listing)).tolist()}
        for access in np.flatnonzero(~out & np.isin(buffer, list(spread_to))).tolist():
            self.readers.setdefault(int(buffer[access]), []).append(access)
        self.before: list[int] = []
        self.variant: list[int] = []
        self.views: list[list[int]] = []
        self.variants: dict[object, int] = {}

    def run(self, rows: list[int]) -> None:
        """Put the products before the rows, with their copies, and take the rows out."""
        listing = self.listing
        ones = self._whole(self._tile(listing.views[listing.view[self.first[rows[0]]]].buffer, sbuf, (1, _MOST_ROWS)))
        self._add(rows[0], self.fill, {self.fill.fills.operand: 1.0} if self.fill.fills else {}, [ones])
        for row in rows:
            self._replace(row, ones)
        sources, before = listing.source[rows], np.array(self.before, np.int64)
        listing.insert(before, np.array(self.variant, np.int64), self.views, listing.near[before])
        at = np.flatnonzero(np.isin(listing.source, sources))
        gone = np.zeros(len(listing), bool)
        gone[at] = True
        listing.source[at - 1] = listing.source[at]  # the last row before it does what the transfer did
        listing.moved[at - 1] = True
        listing.drop(gone)
        listing.count("partitions repeated by products", len(rows))

    def _replace(self, row: int, ones: View) -> None:
        """Make products of at most `_COLUMNS` columns each, and copies of what may not stay in PSUM."""
        listing, at = self.listing, int(self.first[row])
        target, origin = (listing.views[number] for number in listing.view[at : at + 2].tolist())
        rows, columns = target.type.shape
        weights = self._part(ones, (1, rows), 0)
        for begin in range(0, columns, _COLUMNS):
            size = min(_COLUMNS, columns - begin)
            moving = self._part(origin, (1, size), begin)
            result = self._whole(self._tile(target.buffer, psum, (rows, size)))
            self._add(row, self.product, {}, [result, weights, moving])
            if size < columns or not self._stays(target, result):
                self._add(row, self.copy, {}, [self._part(target, (rows, size), begin), result], _COPIES)

    def _stays(self, target: View, result: View) -> bool:
        """Let the only reader of a tile read it in PSUM; return whether that is possible."""
        listing, tile = self.listing, target.buffer
        readers = self.readers.get(tile.id, [])
        if len(readers) != 1 or self.writes[tile.id] != 1 or not target.full or not may_stay(tile):
            return False
        access = readers[0]
        row, view = int(self.row[access]), listing.views[listing.view[access]]
        if not view.full or view.type.shape != result.type.shape:
            return False
        number = listing.retyped(int(listing.variant[row]), access - int(self.first[row]), result.type)
        use = listing.variants[number].use
        if use.engine == "dma" or not is_legal(Use(use.instruction, use.arch, use.types, use.attrs, {})):
            return False
        listing.variant[row], listing.view[access] = number, result.id
        return True

    def _tile(self, like: Buffer, space: MemoryRegion, shape: tuple[int, int]) -> Buffer:
        """Return a new tile of float32."""
        buffers = self.listing.buffers
        place = {"site": like.site, "owner": like.owner, "core": like.core}
        buffers.append(Buffer(len(buffers), space, F32, shape, name=like.name, **place))
        return buffers[-1]

    def _whole(self, tile: Buffer) -> View:
        kind = view_type(make_view(tile, tile.shape, row_major(tile.shape), 0, tile.dtype))
        return self.listing.views[self.listing.new_view(tile, 0, kind)]

    def _part(self, view: View, shape: tuple[int, int], begin: int) -> View:
        """Return the first partitions of a view, and columns from `begin` on."""
        steps, offset = view.type.strides, view.offset + begin * view.type.strides[1]
        strides = (view.buffer.row_elements, steps[1]) if shape[0] == 1 else steps
        kind = view_type(make_view(view.buffer, shape, strides, offset, view.type.dtype))
        return self.listing.views[self.listing.new_view(view.buffer, offset, kind)]

    def _add(
        self, row: int, instruction: Instruction, given: dict[str, Any], views: list[View], engine: str = ""
    ) -> None:
        """Put an instruction before a row; the views are those of its tensors in their order."""
        listing = self.listing
        types = dict(zip(instruction.tensors, (view.type for view in views), strict=True))
        key = instruction.name, tuple(types.values()), engine
        if key not in self.variants:
            attrs = {name: item.default for name, item in instruction.operands.items() if not item.is_tensor} | given
            use = Use(instruction, listing.program.arch, types, attrs, {})
            if not is_legal(use):
                raise AssertionError(f"the compiler model made an illegal {instruction.name}: {types}")
            use.engine = engine or use.engine
            self.variants[key] = len(listing.variants)
            listing.variants.append(Variant(len(listing.variants), use))
        self.before.append(row)
        self.variant.append(self.variants[key])
        self.views.append([view.id for view in views])
