"""Many contractions as one product: the grid of PSUM tiles that share their contraction steps.

Each PSUM tile has a chain of matmuls, one for each contraction step; the position in the chain is its *level*. Tiles
whose chains walk the same rows of the same two operand buffers, from side by side columns, form a grid. One product
of some levels over the whole grid adds, element by element, the same terms in the same order as the tiles one by one;
where it adds them up before it adds them to the sum of those before is its own affair.
Operands must hold still: kernel inputs reached by elided loads, or on-chip buffers written before the first matmul.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from nki_lab.isa.dtype import F32
from nki_lab.kernel_runtime.coverage import Added
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Program, Variant, columns_of_views
from nki_lab.kernel_runtime.number_sets import occurring
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage

ULP_BOUND: Final = 16
"""Results under `slab` and `free` differ from `tile` by at most this many units in the last place of the largest
partial sum of an element: BLAS may split a product of 128 terms in another order for another matrix size."""

_LEAST_COLUMNS: Final = 8


class Submatrix(NamedTuple):
    """Rows in memory: the buffer that holds them, the offset of the first in elements, elements from row to row.

    A matmul operand is one. So is the tile of an elided load: its rows are rows of the buffer that it loads from.
    """

    root: int
    offset: int
    pitch: int


class Elided(NamedTuple):
    """The parts of inputs that tiles of elided loads are, a `Submatrix` a buffer; `pitch` is 0 for other buffers."""

    root: Column
    offset: Column
    pitch: Column

    def of(self, tile: int) -> Submatrix:
        """Return the part that a tile is."""
        return Submatrix(int(self.root[tile]), int(self.offset[tile]), int(self.pitch[tile]))


class Level(NamedTuple):
    """The operands of one contraction step, and its depth in rows."""

    left: Submatrix
    right: Submatrix
    depth: int


@dataclass(frozen=True, slots=True)
class _Products:
    """Matmuls as columns, those that write one tile after each other, in program order.

    `op` with the `tile` that it writes, and `operands`: root, pitch and offset of stationary and moving, depth, m, n.
    """

    op: Column
    tile: Column
    operands: Column

    def levels(self, rows: slice) -> list[Level]:
        """Return the levels of a chain."""
        return [
            Level(Submatrix(root, offset, pitch), Submatrix(other, other_offset, other_pitch), depth)
            for root, pitch, offset, other, other_pitch, other_offset, depth, _, _ in self.operands[rows].tolist()
        ]


class Chain(NamedTuple):
    """The matmuls that accumulate into one PSUM tile of m x n, rows of `products`. `left`, `right`: first offsets."""

    products: _Products
    rows: slice
    buffer: int
    m: int
    n: int
    left: int
    right: int


@dataclass(slots=True)
class Slab:
    """A complete grid of chains with tiles of m x n, executed before op `first`.

    `cells` are the row and column of each PSUM tile in the product, whose shape is `shape`.
    """

    first: int
    m: int
    n: int
    shape: tuple[int, int]
    levels: list[Level]
    cells: dict[int, tuple[int, int]]
    ops: list[int]

    @property
    def roots(self) -> set[int]:
        """The buffers that the slab reads."""
        return _roots(self.levels)


def find_slabs(
    program: Program,
    usage: BufferUsage,
    add: Mapping[int, Added],
    elided: Elided,
    shadowed: Mask,
) -> list[Slab]:
    """Return the slabs of a complete program; matmuls in none of them stay as they are.

    `add` resolves each matmul's accumulation, `elided` the tiles of elided loads, `shadowed` the buffers in float32.
    """
    groups: dict[bytes, list[Chain]] = defaultdict(list)
    for key, chain in _chains(program, usage, add, elided, shadowed):
        groups[key].append(chain)
    return [slab for members in groups.values() for slab in _grids(members, usage, program.options.slab_bytes)]


def _chains(
    program: Program, usage: BufferUsage, add: Mapping[int, Added], elided: Elided, shadowed: Mask
) -> Iterator[tuple[bytes, Chain]]:
    """Yield the chains that may be part of a slab, with the same key for those that walk the same rows.

    Only matmuls write such a tile, the first of them overwrites it, and it is read after the last; their operands are
    complete before. A slab runs at its first tile's place: another write to a later tile, such as a fill with zeros,
    would follow it.
    """
    products, fits = _products(program, add, elided, shadowed)
    op, tile, operands = products.op, products.tile, products.operands
    if not len(op):
        return
    starts = np.flatnonzero(np.concatenate(([True], tile[1:] != tile[:-1])))
    ends = np.concatenate((starts[1:], [len(op)]))
    written = np.maximum(usage.last_write[operands[:, _LEFT_ROOT]], usage.last_write[operands[:, _RIGHT_ROOT]])
    sound = np.logical_and.reduceat(fits, starts)
    sound &= usage.writes[tile[starts]] == ends - starts
    sound &= usage.first_read[tile[starts]] > op[ends - 1]
    sound &= np.maximum.reduceat(written, starts) < op[starts]
    relative = operands.copy()
    for column in (_LEFT, _RIGHT):
        relative[:, column] -= np.repeat(operands[starts, column], ends - starts)
    for row in np.flatnonzero(sound).tolist():
        rows = slice(int(starts[row]), int(ends[row]))
        buffer = int(tile[rows.start])
        if shadowed[buffer]:
            _, _, left, _, _, right, _, m, n = operands[rows.start].tolist()
            yield relative[rows].tobytes(), Chain(products, rows, buffer, m, n, left, right)


_LEFT_ROOT, _LEFT, _RIGHT_ROOT, _RIGHT = 0, 2, 3, 5  # columns of `_Products.operands`


def _products(program: Program, add: Mapping[int, Added], elided: Elided, shadowed: Mask) -> tuple[_Products, Mask]:
    """Return the matmuls that may be part of a slab by themselves, and of each whether it fits into its chain."""
    operands = {variant.id: places for variant in program.variants if (places := plain_operands(variant))}
    ops = np.flatnonzero(program.ops_where(lambda item: item.id in operands))
    variant = program.variant_column()[ops]
    places_of, sizes_of = (np.zeros((len(program.variants), 3), np.int64) for _ in range(2))
    for number, of_variant in operands.items():
        types = [program.variants[number].use.types[program.variants[number].names[i]] for i in of_variant[1:]]
        places_of[number] = of_variant
        sizes_of[number] = types[0].partitions, types[0].free_size, types[1].free_size
    at = np.frombuffer(program.op_access, np.uint32)[ops].astype(np.int64)
    view = np.frombuffer(program.access_view, np.uint32)[at[:, None] + places_of[variant]].astype(np.int64)
    of_view = columns_of_views(program)
    tile = of_view.buffer[view[:, 0]]
    order = np.argsort(tile, kind="stable")
    ops, view, tile, sizes = ops[order], view[order], tile[order], sizes_of[variant[order]]
    adds = np.fromiter(((1 if (a := add.get(i, False)) is True else 0 if a is False else 2) for i in ops.tolist()), int)
    is_first = np.ones(len(ops), bool)
    is_first[1:] = tile[1:] != tile[:-1]
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(ops)), 0))
    fits = of_view.full[view[:, 0]] & (adds == ~is_first) & (sizes[:, 1:] == sizes[first, 1:]).all(1)
    parts, known = _submatrices(program, view[:, 1:], elided, shadowed)
    fits &= known.all(1)
    return _Products(ops, tile, np.concatenate((parts.reshape(len(ops), 6), sizes), axis=1)), fits


def plain_operands(variant: Variant) -> tuple[int, ...]:
    """Return the positions of dst, stationary and moving among the operands of a product of dense tiles in float32;
    none for all others.
    """
    product, use = variant.instruction.contraction, variant.use
    if product is None or not product.plain(use) or use.dtypes[product.dst] is not F32:
        return ()
    if any(view.free_strides not in ((), (1,)) or view.indirect is not None for view in use.types.values()):
        return ()
    return tuple(variant.names.index(name) for name in (product.dst, product.stationary, product.moving))


def _submatrices(program: Program, view: Column, elided: Elided, shadowed: Mask) -> tuple[Column, Mask]:
    """Return root, pitch and offset of matmul operands side by side, and of each whether it is in float32."""
    of_view = columns_of_views(program)
    buffer, offset = of_view.buffer[view], of_view.offset[view]
    row = np.ones(len(program.buffers), np.int64)
    used = occurring(buffer)
    row[used] = [program.buffers[number].row_elements for number in used.tolist()]
    rows, columns = np.divmod(offset, row[buffer])
    is_elided = elided.pitch[buffer] > 0
    pitch = np.where(is_elided, elided.pitch[buffer], row[buffer])
    root = np.where(is_elided, elided.root[buffer], buffer)
    return np.stack((root, pitch, elided.offset[buffer] + rows * pitch + columns), axis=-1), shadowed[buffer]


def _roots(levels: Iterable[Level]) -> set[int]:
    return {left[0] for left, _, _ in levels} | {right[0] for _, right, _ in levels}


def _grids(members: list[Chain], usage: BufferUsage, limit_bytes: int) -> Iterator[Slab]:
    """Yield complete rectangles of side-by-side tiles among chains of one key."""
    m, n = members[0].m, members[0].n
    if len(members) == 1 or n < _LEAST_COLUMNS:
        return
    cells = {(chain.left, chain.right): chain for chain in members}
    rows: dict[int, list[int]] = defaultdict(list)
    for row, column in cells:
        rows[row].append(column)
    same: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, columns in rows.items():
        same[tuple(sorted(columns))].append(row)
    for shared, row_list in same.items():
        for column_run in _runs(shared, n):
            most = max(1, limit_bytes // (4 * m * n * len(column_run)))
            for row_run in _runs(sorted(row_list), m):
                for start in range(0, len(row_run), most):
                    band = [[cells[row, column] for column in column_run] for row in row_run[start : start + most]]
                    slab = _slab(band)
                    if len(slab.cells) > 1 and all(usage.last_write[root] < slab.first for root in slab.roots):
                        yield slab


def _runs(offsets: Iterable[int], step: int) -> list[list[int]]:
    """Split offsets where they are not side by side."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] == step:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs


def _slab(band: list[list[Chain]]) -> Slab:
    corner = band[0][0]
    m, n, table = corner.m, corner.n, corner.products
    chains = [chain for row in band for chain in row]
    return Slab(
        first=int(min(table.op[chain.rows.start] for chain in chains)),
        m=m,
        n=n,
        shape=(m * len(band), n * len(band[0])),
        levels=table.levels(corner.rows),
        cells={chain.buffer: (r * m, c * n) for r, row in enumerate(band) for c, chain in enumerate(row)},
        ops=np.concatenate([table.op[chain.rows] for chain in chains]).tolist(),
    )
