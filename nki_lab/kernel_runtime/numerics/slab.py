"""Many contractions as one product: the grid of PSUM tiles that share their contraction steps.

Each PSUM tile has a chain of matmuls, one for each contraction step; the position in the chain is its *level*. Tiles
whose chains walk the same rows of the same two operand buffers, from side by side columns, form a grid. One product
of a level over the whole grid adds, element by element, the same terms in the same order as the tiles one by one.
Operands must hold still: kernel inputs reached by elided loads, or on-chip buffers written before the first matmul.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import BF16, F32, DType
from nki_lab.kernel_runtime.coverage import Added
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Program, Variant, buffers_of_views
from nki_lab.kernel_runtime.numerics import blas
from nki_lab.kernel_runtime.numerics.blas import Floats, accumulate
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage
from nki_lab.kernel_runtime.numerics.parallel import in_parallel
from nki_lab.kernel_runtime.numerics.rounding import to_shadow
from nki_lab.kernel_runtime.path.follow import ops_of

ULP_BOUND: Final = 16
"""Results under `slab` and `free` differ from `tile` by at most this many units in the last place of the largest
partial sum of an element: BLAS may split a product of 128 terms in another order for another matrix size."""

_FLOPS_A_CALL: Final = 8e9  # keeps one product under 0.2 s on one core, so that an interrupt is noticed
_LEAST_COLUMNS: Final = 8

_WIDE: Final = 4  # bytes of a float32
_FLOPS_A_THREAD: Final = 1e8  # below, a second thread begins when the first has ended
_BAND_BYTES: Final = 16 * 2**20  # of float32 sums that are yet to be rounded: memory that is new costs time
_BAND_ROWS: Final = 1024  # with fewer, BLAS takes longer to lay its operands out than it saves


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
        if program.buffers[buffer].address is None:
            _, _, left, _, _, right, _, m, n = operands[rows.start].tolist()
            yield relative[rows].tobytes(), Chain(products, rows, buffer, m, n, left, right)


_LEFT_ROOT, _LEFT, _RIGHT_ROOT, _RIGHT = 0, 2, 3, 5  # columns of `_Products.operands`


def _products(program: Program, add: Mapping[int, Added], elided: Elided, shadowed: Mask) -> tuple[_Products, Mask]:
    """Return the matmuls that may be part of a slab by themselves, and of each whether it fits into its chain."""
    operands = {variant.id: places for variant in program.variants if (places := _operands(variant))}
    ops = np.array(ops_of(program, operands), np.int64)
    variant = program.variant_column()[ops]
    places_of, sizes_of = (np.zeros((len(program.variants), 3), np.int64) for _ in range(2))
    for number, of_variant in operands.items():
        types = [program.variants[number].use.types[program.variants[number].names[i]] for i in of_variant[1:]]
        places_of[number] = of_variant
        sizes_of[number] = types[0].partitions, types[0].free_size, types[1].free_size
    at = np.frombuffer(program.op_access, np.uint32)[ops].astype(np.int64)
    view = np.frombuffer(program.access_view, np.uint32)[at[:, None] + places_of[variant]].astype(np.int64)
    tile = buffers_of_views(program)[view[:, 0]]
    order = np.argsort(tile, kind="stable")
    ops, view, tile, sizes = ops[order], view[order], tile[order], sizes_of[variant[order]]
    views, numbers = program.views, view.tolist()
    adds = np.fromiter(((1 if (a := add.get(i, False)) is True else 0 if a is False else 2) for i in ops.tolist()), int)
    is_first = np.ones(len(ops), bool)
    is_first[1:] = tile[1:] != tile[:-1]
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(ops)), 0))
    fits = np.fromiter((views[number].full for number, _, _ in numbers), bool, len(ops))
    fits &= (adds == ~is_first) & (sizes[:, 1:] == sizes[first, 1:]).all(1)
    columns: list[Column] = []
    for operand in (1, 2):
        found, known = _submatrices(program, view[:, operand], elided, shadowed)
        columns += found
        fits &= known
    return _Products(ops, tile, np.stack([*columns, *sizes.T], axis=1)), fits


def _operands(variant: Variant) -> tuple[int, ...]:
    """Return the places of dst, stationary and moving among the operands; none where a product is not for slabs."""
    product, use = variant.instruction.contraction, variant.use
    if product is None or not product.plain(use) or use.dtypes[product.dst] is not F32:
        return ()
    if any(view.free_strides not in ((), (1,)) or view.indirect is not None for view in use.types.values()):
        return ()
    return tuple(variant.names.index(name) for name in (product.dst, product.stationary, product.moving))


def _submatrices(
    program: Program, view: Column, elided: Elided, shadowed: Mask
) -> tuple[tuple[Column, Column, Column], Mask]:
    """Return root, pitch and offset of matmul operands, and of each whether it is in float32."""
    buffer = buffers_of_views(program)[view]
    views = program.views
    offset = np.fromiter((views[number].offset for number in view.tolist()), np.int64, len(view))
    row = np.ones(len(program.buffers), np.int64)
    used = np.unique(buffer)
    row[used] = [program.buffers[number].row_elements for number in used.tolist()]
    rows, columns = np.divmod(offset, row[buffer])
    pitch = np.where(elided.pitch[buffer] > 0, elided.pitch[buffer], row[buffer])
    root = np.where(elided.pitch[buffer] > 0, elided.root[buffer], buffer)
    return (root, pitch, elided.offset[buffer] + rows * pitch + columns), shadowed[buffer]


def _roots(levels: Iterable[Level]) -> set[int]:
    return {left[0] for left, _, _ in levels} | {right[0] for _, right, _ in levels}


def _grids(members: list[Chain], usage: BufferUsage, limit_bytes: int) -> Iterator[Slab]:
    """Yield complete rectangles of side-by-side tiles among chains of one key."""
    m, n = members[0].m, members[0].n
    if n < _LEAST_COLUMNS:
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


class Root(NamedTuple):
    """The flat array of a buffer that slabs read: its float32 shadow, or an argument of `dtype` at true width."""

    flat: NDArray[Any]
    dtype: DType

    @property
    def narrow(self) -> bool:
        return self.flat.itemsize < _WIDE


def grid_of(slab: Slab, flat: NDArray[Any], start: int, pitch: int) -> NDArray[Any]:
    """Return a slab's matrix, whose first element is at `start`, and whose rows are `pitch` elements apart."""
    size = flat.itemsize
    return np.ndarray(slab.shape, flat.dtype, flat, size * start, (size * pitch, size))


class Work(NamedTuple):
    """A slab's product in parts that threads take in turn: `bands` of rows and columns, and each thread's `workspaces`,
    of which the first is for operands, the second for sums.

    The bands depend on the shape and on the threads that BLAS has, not on who comes to which one when: so the results
    of a run and of its repetition are the same.
    """

    bands: list[tuple[slice, slice]]
    workspaces: list[tuple[Floats, Floats]]


def bands_of(slab: Slab, levels: list[Level], *, narrow: bool) -> list[tuple[slice, slice]]:
    """Return the rows and columns of the bands; `narrow`: the result is not float32, so that sums need memory.

    Each thread of BLAS computes whole bands, with conversions: that takes less time than products that all threads
    share, and conversions of one thread between them.
    """
    (m, n), steps = slab.shape, (slab.m, slab.n)
    depth = sum(level.depth for level in levels)
    threads = min(blas.threads_found(), int(2.0 * m * n * depth / _FLOPS_A_THREAD)) or 1
    axis = 0 if m >= slab.m * threads else 1
    size = math.ceil(slab.shape[axis] / threads)
    if narrow:
        size = min(size, max(_BAND_ROWS, _BAND_BYTES // (4 * slab.shape[1 - axis])))
    size = math.ceil(size / steps[axis]) * steps[axis]
    whole = (slice(0, m), slice(0, n))
    parts = [slice(start, min(start + size, slab.shape[axis])) for start in range(0, slab.shape[axis], size)]
    return [(part, whole[1]) if axis == 0 else (whole[0], part) for part in parts]


def workspace_sizes(
    bands: list[tuple[slice, slice]], levels: list[Level], *, operands: bool, result: bool
) -> tuple[int, int]:
    """Return the elements that a thread needs for operands that are widened, and for sums that are to be rounded."""
    depth = max(level.depth for level in levels)
    sizes = [(rows.stop - rows.start, columns.stop - columns.start) for rows, columns in bands]
    return operands * depth * max(m + n for m, n in sizes), result * max(m * n for m, n in sizes)


def multiply(
    slab: Slab,
    levels: list[Level],
    roots: Mapping[int, Root],
    grid: NDArray[Any],
    work: Work,
    report: Callable[[float], None],
) -> None:
    """Compute a slab into its grid, by its levels or `fused` ones, and `report` the share that is done.

    Narrow roots are widened level by level, and the sums of a narrow grid rounded band by band, in the workspaces: so
    they stay in the cache.
    """
    waiting = iter(work.bands)
    total, done = len(work.bands) * len(levels), []
    stopped = False

    def compute(number: int) -> None:
        for band in waiting:
            for _ in _compute(slab, levels, roots, grid, band, work.workspaces[number]):
                if stopped:
                    return
                done.append(number)
                if number == 0:
                    report(len(done) / total)

    def stop() -> None:
        nonlocal stopped
        stopped = True

    count = min(len(work.workspaces), len(work.bands))
    if count == 1:
        compute(0)
        return
    with blas.single_thread():
        in_parallel(compute, count, stop)
    report(1.0)


def _compute(
    slab: Slab,
    levels: list[Level],
    roots: Mapping[int, Root],
    grid: NDArray[Any],
    band: tuple[slice, slice],
    workspaces: tuple[Floats, Floats],
) -> Iterator[None]:
    """Compute a band; yield after each level."""
    rows, columns = band
    m, n = rows.stop - rows.start, columns.stop - columns.start
    narrow = grid.itemsize < _WIDE
    sums = workspaces[1][: m * n].reshape(m, n) if narrow else grid[band]
    for number, (left, right, depth) in enumerate(levels):
        a = _operand(roots[left.root], left, depth, rows, workspaces[0][: depth * m])
        b = _operand(roots[right.root], right, depth, columns, workspaces[0][depth * m : depth * (m + n)])
        height = max(slab.m, int(_FLOPS_A_CALL / (2.0 * depth * n)))
        width = n if height > slab.m else max(slab.n, int(_FLOPS_A_CALL / (2.0 * depth * height)))
        for top in range(0, m, height):
            for edge in range(0, n, width):
                part = slice(top, top + height), slice(edge, edge + width)
                accumulate(a[:, part[0]], b[:, part[1]], sums[part], add=number > 0)
        if narrow and number == len(levels) - 1:
            np.copyto(grid[band], sums, casting="unsafe")
        yield


def _operand(root: Root, place: Submatrix, rows: int, columns: slice, workspace: Floats) -> Floats:
    """Return some columns of a matrix in float32."""
    size, width = root.flat.itemsize, columns.stop - columns.start
    start = (place.offset + columns.start) * size
    matrix = np.ndarray((rows, width), root.flat.dtype, root.flat, start, (place.pitch * size, size))
    if not root.narrow:
        return matrix
    wide = workspace.reshape(rows, width)
    if root.dtype is BF16:  # NumPy's cast is exact and as fast as can be
        np.copyto(wide, matrix)
        return wide
    return to_shadow(matrix, root.dtype, wide)


def fused(levels: list[Level]) -> list[Level]:
    """Return the levels with those joined that follow each other in memory."""
    out: list[Level] = []
    for left, right, depth in levels:
        if out:
            a, b, rows = out[-1]
            if _follows(left, a, rows) and _follows(right, b, rows):
                out[-1] = Level(a, b, rows + depth)
                continue
        out.append(Level(left, right, depth))
    return out


def _follows(latter: Submatrix, former: Submatrix, rows: int) -> bool:
    return latter.root == former.root and latter.offset == former.offset + rows * former.pitch
