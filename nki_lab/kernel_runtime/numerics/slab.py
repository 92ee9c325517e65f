"""Many contractions as one product: the grid of PSUM tiles that share their contraction steps.

Each PSUM tile has a chain of matmuls, one for each contraction step; the position in the chain is its *level*. Tiles
whose chains walk the same rows of the same two operand buffers, from side by side columns, form a grid. One product
of a level over the whole grid adds, element by element, the same terms in the same order as the tiles one by one.
Operands must hold still: kernel inputs reached by elided loads, or on-chip buffers written before the first matmul.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import F32, DType
from nki_lab.kernel_runtime.ir import Program, Variant, View
from nki_lab.kernel_runtime.numerics.blas import accumulate
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage
from nki_lab.kernel_runtime.numerics.rounding import to_shadow

ULP_BOUND: Final = 16
"""Results under `slab` and `free` differ from `tile` by at most this many units in the last place of the largest
partial sum of an element: BLAS may split a product of 128 terms in another order for another matrix size."""

_FLOPS_A_CALL: Final = 8e9  # keeps one product under 0.2 s on one core, so that an interrupt is noticed
_LEAST_COLUMNS: Final = 8


class Place(NamedTuple):
    """A matmul operand in memory: buffer that holds it, element offset, elements from row to row."""

    root: int
    offset: int
    pitch: int


@dataclass(frozen=True, slots=True)
class Window:
    """An elided load: the tile's rows are rows of another buffer, `pitch` elements apart, from `base` on."""

    root: int
    base: int
    pitch: int


@dataclass(slots=True)
class Chain:
    """The matmuls that accumulate into one PSUM tile, in order."""

    buffer: int
    ops: list[int] = field(default_factory=list)
    left: list[Place] = field(default_factory=list)
    right: list[Place] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    m: int = 0
    n: int = 0
    sound: bool = True


@dataclass(slots=True)
class Slab:
    """A complete grid of chains: `rows` x `columns` tiles of m x n, executed before op `first`."""

    first: int
    last: int
    m: int
    n: int
    row_offsets: list[int]
    column_offsets: list[int]
    left: list[Place]
    right: list[Place]
    depths: list[int]
    cells: dict[int, tuple[int, int]]
    ops: list[int]

    @property
    def shape(self) -> tuple[int, int]:
        return self.m * len(self.row_offsets), self.n * len(self.column_offsets)


def find(program: Program, usage: BufferUsage, add: Mapping[int, Any], windows: Mapping[int, Window],
         shadowed: NDArray[np.bool_], limit_bytes: int) -> list[Slab]:  # fmt: skip
    """The slabs of a complete program; matmuls in none of them stay as they are.

    `add` resolves each matmul's accumulation, `windows` the elided loads, `shadowed` the buffers held in float32.
    """
    chains = _chains(program, usage, add, windows, shadowed)
    groups: dict[Any, list[Chain]] = defaultdict(list)
    for chain in chains:
        left, right = chain.left, chain.right
        key = (
            chain.m, chain.n, tuple(chain.depths),
            tuple((p.root, p.pitch, p.offset - left[0].offset) for p in left),
            tuple((p.root, p.pitch, p.offset - right[0].offset) for p in right),
        )  # fmt: skip
        groups[key].append(chain)
    slabs: list[Slab] = []
    for members in groups.values():
        slabs += _grids(members, usage, limit_bytes)
    return slabs


def _chains(program: Program, usage: BufferUsage, add: Mapping[int, Any], windows: Mapping[int, Window],
            shadowed: NDArray[np.bool_]) -> list[Chain]:  # fmt: skip
    eligible = [_operands(variant) for variant in program.variants]
    if not any(eligible):
        return []
    chains: dict[int, Chain] = {}
    views, numbers = program.views, program.access_view
    variants = np.frombuffer(program.op_variant, np.uint32)
    for index in np.flatnonzero(np.array([bool(item) for item in eligible])[variants]).tolist():
        at = program.op_access[index]
        dst, stationary, moving = [views[numbers[at + place]] for place in eligible[variants[index]]]
        chain = chains.get(dst.buffer.id)
        if chain is None:
            chain = chains[dst.buffer.id] = Chain(dst.buffer.id, m=stationary.type.free_size, n=moving.type.free_size)
        left, right = _place(stationary, windows, shadowed), _place(moving, windows, shadowed)
        adds = add.get(index, False)
        fits = dst.full and (chain.m, chain.n) == (stationary.type.free_size, moving.type.free_size)
        if left is None or right is None or not fits or (adds is not True and bool(chain.ops)) or (
            adds is not False and not chain.ops
        ):  # fmt: skip
            chain.sound = False
            continue
        chain.ops.append(index)
        chain.left.append(left)
        chain.right.append(right)
        chain.depths.append(stationary.type.partitions)
    return [chain for chain in chains.values() if chain.sound and chain.ops and _holds_still(chain, program, usage)]


def _operands(variant: Variant) -> tuple[int, ...]:
    """The places of dst, stationary and moving among the operands; empty where a product is not for slabs."""
    product, use = variant.instruction.contraction, variant.use
    if product is None or not product.plain(use) or use.dtypes[product.dst] is not F32:
        return ()
    if any(view.free_strides not in ((), (1,)) or view.indirect is not None for view in use.types.values()):
        return ()
    return tuple(variant.names.index(name) for name in (product.dst, product.stationary, product.moving))


def _place(view: View, windows: Mapping[int, Window], shadowed: NDArray[np.bool_]) -> Place | None:
    buffer = view.buffer
    if not shadowed[buffer.id]:
        return None
    row = buffer.row_elements
    rows, columns = divmod(view.offset, row)
    window = windows.get(buffer.id)
    if window is None:
        return Place(buffer.id, view.offset, row)
    return Place(window.root, window.base + rows * window.pitch + columns, window.pitch)


def _holds_still(chain: Chain, program: Program, usage: BufferUsage) -> bool:
    """Only matmuls write the tile, it is read after the last of them only, and operands are complete before the first.

    A slab runs at its first tile's place: another write to a later tile, such as a fill with zeros, would follow it.
    """
    buffer = chain.buffer
    if int(usage.writes[buffer]) != len(chain.ops):
        return False
    if usage.first_read[buffer] <= chain.ops[-1] or program.buffers[buffer].address is not None:
        return False
    roots = {place.root for place in (*chain.left, *chain.right)}
    return all(usage.last_write[root] < chain.ops[0] for root in roots)


def _grids(members: list[Chain], usage: BufferUsage, limit_bytes: int) -> list[Slab]:
    """Complete rectangles of side-by-side tiles among chains of one key."""
    cells = {(chain.left[0].offset, chain.right[0].offset): chain for chain in members}
    rows: dict[int, list[int]] = defaultdict(list)
    for row, column in cells:
        rows[row].append(column)
    same: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, columns in rows.items():
        same[tuple(sorted(columns))].append(row)
    slabs = []
    m, n = members[0].m, members[0].n
    if n < _LEAST_COLUMNS:
        return []
    for shared, row_list in same.items():
        for column_run in _runs(list(shared), n):
            most = max(1, limit_bytes // (4 * m * n * len(column_run)))
            for row_run in _runs(sorted(row_list), m):
                for start in range(0, len(row_run), most):
                    band = row_run[start : start + most]
                    slabs += _slab(cells, band, column_run, usage)
    return slabs


def _runs(offsets: list[int], step: int) -> list[list[int]]:
    """Offsets split where they are not side by side."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] == step:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs


def _slab(
    cells: Mapping[tuple[int, int], Chain], rows: list[int], columns: list[int], usage: BufferUsage
) -> list[Slab]:
    chains = [cells[row, column] for row in rows for column in columns]
    first = min(chain.ops[0] for chain in chains)
    roots = {place.root for chain in chains for place in (*chain.left, *chain.right)}
    if len(chains) == 1 or any(usage.last_write[root] >= first for root in roots):
        return []
    pattern = chains[0]
    where = {chain.buffer: divmod(i, len(columns)) for i, chain in enumerate(chains)}
    return [
        Slab(
            first=first,
            last=max(chain.ops[-1] for chain in chains),
            m=pattern.m,
            n=pattern.n,
            row_offsets=rows,
            column_offsets=columns,
            left=pattern.left,
            right=pattern.right,
            depths=pattern.depths,
            cells={buffer: (r * pattern.m, c * pattern.n) for buffer, (r, c) in where.items()},
            ops=[op for chain in chains for op in chain.ops],
        )
    ]


class Narrow(NamedTuple):
    """An operand's root at true width: its flat array, and its dtype."""

    flat: NDArray[Any]
    dtype: DType


def multiply(slab: Slab, sources: Mapping[int, NDArray[np.float32] | Narrow], grid: NDArray[np.float32],
             workspace: NDArray[np.float32], *, free: bool) -> None:  # fmt: skip
    """Compute a slab into its grid; `sources` are the roots' flat arrays. `free` fuses levels that are consecutive.

    Narrow roots are widened level by level, in `workspace`, of `workspace_size` elements: so they stay in the cache.
    """
    m, n = slab.shape
    for number, (left, right, depth) in enumerate(_levels(slab, free=free)):
        a = _operand(sources[left.root], left, depth, m, workspace[: depth * m])
        b = _operand(sources[right.root], right, depth, n, workspace[depth * m : depth * (m + n)])
        band = max(slab.m, int(_FLOPS_A_CALL / (2.0 * depth * n)))
        for start in range(0, m, band):
            accumulate(a[:, start : start + band], b, grid[start : start + band], add=number > 0)


def workspace_size(slab: Slab, *, free: bool) -> int:
    """The elements of the operands of a slab's deepest level."""
    return sum(slab.shape) * max(depth for _, _, depth in _levels(slab, free=free))


def _levels(slab: Slab, *, free: bool) -> list[tuple[Place, Place, int]]:
    return _fused(slab) if free else list(zip(slab.left, slab.right, slab.depths, strict=True))


def _operand(source: NDArray[np.float32] | Narrow, place: Place, rows: int, columns: int,
             workspace: NDArray[np.float32]) -> NDArray[np.float32]:  # fmt: skip
    if isinstance(source, Narrow):
        size = source.flat.itemsize
        narrow = np.ndarray((rows, columns), source.flat.dtype, source.flat, place.offset * size,
                            (place.pitch * size, size))  # fmt: skip
        return to_shadow(narrow, source.dtype, workspace.reshape(rows, columns))
    return _matrix(source, place.offset, place.pitch, rows, columns)


def _matrix(flat: NDArray[np.float32], offset: int, pitch: int, rows: int, columns: int) -> NDArray[np.float32]:
    return np.ndarray((rows, columns), np.float32, flat, offset * 4, (pitch * 4, 4))


def _fused(slab: Slab) -> list[tuple[Place, Place, int]]:
    out: list[tuple[Place, Place, int]] = []
    for left, right, depth in zip(slab.left, slab.right, slab.depths, strict=True):
        if out:
            a, b, rows = out[-1]
            if (left.root, right.root) == (a.root, b.root) and left.offset == a.offset + rows * a.pitch and (
                right.offset == b.offset + rows * b.pitch
            ):  # fmt: skip
                out[-1] = (a, b, rows + depth)
                continue
        out.append((left, right, depth))
    return out
