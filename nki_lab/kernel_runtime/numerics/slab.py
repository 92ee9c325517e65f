"""Many contractions as one product: the grid of PSUM tiles that share their contraction steps.

Each PSUM tile has a chain of matmuls, one for each contraction step; the position in the chain is its *level*. Tiles
whose chains walk the same rows of the same two operand buffers, from side by side columns, form a grid. One product
of a level over the whole grid adds, element by element, the same terms in the same order as the tiles one by one.
Operands must hold still: kernel inputs reached by elided loads, or on-chip buffers written before the first matmul.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import F32, DType
from nki_lab.kernel_runtime.coverage import Added
from nki_lab.kernel_runtime.footprint import Mask
from nki_lab.kernel_runtime.ir import Program, Variant, View
from nki_lab.kernel_runtime.numerics.blas import Floats, accumulate
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage
from nki_lab.kernel_runtime.numerics.rounding import to_shadow
from nki_lab.kernel_runtime.path.follow import ops_of

ULP_BOUND: Final = 16
"""Results under `slab` and `free` differ from `tile` by at most this many units in the last place of the largest
partial sum of an element: BLAS may split a product of 128 terms in another order for another matrix size."""

_FLOPS_A_CALL: Final = 8e9  # keeps one product under 0.2 s on one core, so that an interrupt is noticed
_LEAST_COLUMNS: Final = 8


class Submatrix(NamedTuple):
    """Rows in memory: the buffer that holds them, the offset of the first in elements, elements from row to row.

    A matmul operand is one. So is the tile of an elided load: its rows are rows of the buffer that it loads from.
    """

    root: int
    offset: int
    pitch: int


class Level(NamedTuple):
    """The operands of one contraction step, and its depth in rows."""

    left: Submatrix
    right: Submatrix
    depth: int


@dataclass(slots=True)
class Chain:
    """The matmuls that accumulate into one PSUM tile of m x n, in order."""

    buffer: int
    m: int
    n: int
    ops: list[int] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    sound: bool = True

    def key(self) -> tuple[object, ...]:
        """Return the same for chains that walk the same rows, from whichever columns."""
        (_, left, _), (_, right, _), _ = self.levels[0]
        return (
            self.m,
            self.n,
            *[
                (root, pitch, offset - left, other, other_pitch, other_offset - right, depth)
                for (root, offset, pitch), (other, other_offset, other_pitch), depth in self.levels
            ],
        )


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
    elided: Mapping[int, Submatrix],
    shadowed: Mask,
) -> list[Slab]:
    """Return the slabs of a complete program; matmuls in none of them stay as they are.

    `add` resolves each matmul's accumulation, `elided` the tiles of elided loads, `shadowed` the buffers in float32.
    """
    groups: dict[tuple[object, ...], list[Chain]] = defaultdict(list)
    for chain in _chains(program, add, elided, shadowed):
        if chain.sound and chain.ops and _holds_still(chain, program, usage):
            groups[chain.key()].append(chain)
    return [slab for members in groups.values() for slab in _grids(members, usage, program.options.slab_bytes)]


def _chains(
    program: Program, add: Mapping[int, Added], elided: Mapping[int, Submatrix], shadowed: Mask
) -> Iterable[Chain]:
    operands = {variant.id: places for variant in program.variants if (places := _operands(variant))}
    chains: dict[int, Chain] = {}
    views, numbers, variants = program.views, program.access_view, program.op_variant
    for index in ops_of(program, operands):
        at = program.op_access[index]
        dst, stationary, moving = [views[numbers[at + place]] for place in operands[variants[index]]]
        m, n = stationary.type.free_size, moving.type.free_size
        chain = chains.get(dst.buffer.id)
        if chain is None:
            chain = chains[dst.buffer.id] = Chain(dst.buffer.id, m, n)
        left, right = _submatrix(stationary, elided, shadowed), _submatrix(moving, elided, shadowed)
        fits = dst.full and (chain.m, chain.n) == (m, n) and add.get(index, False) is bool(chain.ops)
        if left is None or right is None or not fits:
            chain.sound = False
            continue
        chain.ops.append(index)
        chain.levels.append(Level(left, right, stationary.type.partitions))
    return chains.values()


def _operands(variant: Variant) -> tuple[int, ...]:
    """Return the places of dst, stationary and moving among the operands; none where a product is not for slabs."""
    product, use = variant.instruction.contraction, variant.use
    if product is None or not product.plain(use) or use.dtypes[product.dst] is not F32:
        return ()
    if any(view.free_strides not in ((), (1,)) or view.indirect is not None for view in use.types.values()):
        return ()
    return tuple(variant.names.index(name) for name in (product.dst, product.stationary, product.moving))


def _submatrix(view: View, elided: Mapping[int, Submatrix], shadowed: Mask) -> Submatrix | None:
    buffer = view.buffer
    if not shadowed[buffer.id]:
        return None
    known = elided.get(buffer.id)
    if known is not None and not view.offset:
        return known
    rows, columns = divmod(view.offset, buffer.row_elements)
    root, offset, pitch = known or Submatrix(buffer.id, 0, buffer.row_elements)
    return Submatrix(root, offset + rows * pitch + columns, pitch)


def _roots(levels: Iterable[Level]) -> set[int]:
    return {left[0] for left, _, _ in levels} | {right[0] for _, right, _ in levels}


def _holds_still(chain: Chain, program: Program, usage: BufferUsage) -> bool:
    """Check that only matmuls write the tile, that it is read after the last of them, and that operands are complete.

    A slab runs at its first tile's place: another write to a later tile, such as a fill with zeros, would follow it.
    """
    buffer = chain.buffer
    return (
        int(usage.writes[buffer]) == len(chain.ops)
        and bool(usage.first_read[buffer] > chain.ops[-1])
        and program.buffers[buffer].address is None
        and all(usage.last_write[root] < chain.ops[0] for root in _roots(chain.levels))
    )


def _grids(members: list[Chain], usage: BufferUsage, limit_bytes: int) -> Iterator[Slab]:
    """Yield complete rectangles of side-by-side tiles among chains of one key."""
    m, n = members[0].m, members[0].n
    if n < _LEAST_COLUMNS:
        return
    cells = {(chain.levels[0].left.offset, chain.levels[0].right.offset): chain for chain in members}
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
    m, n = corner.m, corner.n
    chains = [chain for row in band for chain in row]
    return Slab(
        first=min(chain.ops[0] for chain in chains),
        m=m,
        n=n,
        shape=(m * len(band), n * len(band[0])),
        levels=corner.levels,
        cells={chain.buffer: (r * m, c * n) for r, row in enumerate(band) for c, chain in enumerate(row)},
        ops=[op for chain in chains for op in chain.ops],
    )


class Root(NamedTuple):
    """The flat array of a buffer that slabs read: its float32 shadow, or an argument of `dtype` at true width."""

    flat: NDArray[Any]
    dtype: DType

    @property
    def narrow(self) -> bool:
        return self.flat.itemsize < 4


def grid_of(slab: Slab, flat: NDArray[Any], start: int, pitch: int) -> Floats:
    """Return a slab's matrix, whose first element is at `start`, and whose rows are `pitch` elements apart."""
    return np.ndarray(slab.shape, np.float32, flat, 4 * start, (4 * pitch, 4))


def multiply(
    slab: Slab,
    levels: list[Level],
    roots: Mapping[int, Root],
    grid: Floats,
    workspace: Floats,
    report: Callable[[float], None],
) -> None:
    """Compute a slab into its grid, by its levels or `fused` ones, and `report` the share that is done.

    Narrow roots are widened level by level, in `workspace`, of `workspace_size` elements: so they stay in the cache.
    """
    m, n = slab.shape
    for number, (left, right, depth) in enumerate(levels):
        a = _operand(roots[left.root], left, depth, m, workspace[: depth * m])
        b = _operand(roots[right.root], right, depth, n, workspace[depth * m : depth * (m + n)])
        band = max(slab.m, int(_FLOPS_A_CALL / (2.0 * depth * n)))
        width = n if band > slab.m else max(slab.n, int(_FLOPS_A_CALL / (2.0 * depth * band)))
        for start in range(0, m, band):
            rows = slice(start, start + band)
            for left_edge in range(0, n, width):
                columns = slice(left_edge, left_edge + width)
                accumulate(a[:, rows], b[:, columns], grid[rows, columns], add=number > 0)
            report((number + min(1.0, (start + band) / m)) / len(levels))


def workspace_size(slab: Slab, levels: list[Level]) -> int:
    """Return the elements of the operands of a slab's deepest level."""
    return sum(slab.shape) * max(level.depth for level in levels)


def _operand(root: Root, place: Submatrix, rows: int, columns: int, workspace: Floats) -> Floats:
    size = root.flat.itemsize
    matrix = np.ndarray((rows, columns), root.flat.dtype, root.flat, place.offset * size, (place.pitch * size, size))
    return to_shadow(matrix, root.dtype, workspace.reshape(rows, columns)) if root.narrow else matrix


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
