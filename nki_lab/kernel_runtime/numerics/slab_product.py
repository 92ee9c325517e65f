"""The product of a slab, with the conversions of its operands and of its result.

BLAS shares a product among its threads. Threads of ours, each with a band and its conversions, take longer: after each
product those of BLAS keep their cores busy for some milliseconds, waiting for the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import BF16, DType
from nki_lab.kernel_runtime.numerics.blas import ONE_PASS, Floats, accumulate
from nki_lab.kernel_runtime.numerics.rounding import to_shadow
from nki_lab.kernel_runtime.numerics.slab import Level, Slab, Submatrix

_WIDE: Final = 4  # bytes of a float32
_FLOPS_A_CALL: Final = 8e9  # keeps one product under 0.2 s on one core, so that an interrupt is noticed
_BAND_BYTES: Final = 16 * 2**20  # of float32 sums that are yet to be rounded: memory that is new costs time
JOINED_ROWS: Final = ONE_PASS
"""Rows of contraction steps that one product takes together where they follow each other in memory: BLAS goes over the
sums once for them. With 256 it takes 3 % longer, with 128 12 % (1024, float32)."""
_BAND_ROWS: Final = 1024  # with fewer, BLAS takes longer to lay its operands out than it saves


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
    """A slab's product in `bands` of rows, with memory for operands that are widened and for sums to be rounded."""

    bands: list[slice]
    operands: Floats
    sums: Floats


class Needs(NamedTuple):
    """The levels and bands of a slab's product, and the elements of its memory for operands, and for sums."""

    levels: list[Level]
    bands: list[slice]
    sizes: tuple[int, int]


def needs_of(slab: Slab, *, fuses: bool, operands: bool, result: bool) -> Needs:
    """Return what a product needs. Levels are joined to `JOINED_ROWS`, all of them where it `fuses`.

    `operands` that are narrow, not float32, are widened, and a narrow `result` is rounded.
    """
    levels = joined(slab.levels, None if fuses else JOINED_ROWS)
    bands = bands_of(slab, narrow=result)
    return Needs(levels, bands, workspace_sizes(slab, bands, levels, operands=operands, result=result))


def bands_of(slab: Slab, *, narrow: bool) -> list[slice]:
    """Return the rows of the bands: all, but where a result that is `narrow`, not float32, is rounded band by band."""
    m, n = slab.shape
    size = min(m, max(_BAND_ROWS, _BAND_BYTES // (4 * n))) if narrow else m
    size = math.ceil(size / slab.m) * slab.m
    return [slice(start, min(start + size, m)) for start in range(0, m, size)]


def workspace_sizes(
    slab: Slab, bands: list[slice], levels: list[Level], *, operands: bool, result: bool
) -> tuple[int, int]:
    """Return the elements of memory for operands that are widened, and for sums that are to be rounded."""
    depth = max(level.depth for level in levels)
    m, n = max(rows.stop - rows.start for rows in bands), slab.shape[1]
    return operands * depth * (m + n), result * m * n


def multiply(
    slab: Slab,
    levels: list[Level],
    roots: Mapping[int, Root],
    grid: NDArray[Any],
    work: Work,
    report: Callable[[float], None],
) -> None:
    """Compute a slab into its grid, by its levels or `joined` ones, and `report` the share that is done.

    Narrow roots are widened level by level, and the sums of a narrow grid rounded band by band.
    """
    total, done = len(work.bands) * len(levels), 0
    for rows in work.bands:
        for _ in _compute(slab, levels, roots, grid, rows, work):
            done += 1
            report(done / total)


def _compute(
    slab: Slab, levels: list[Level], roots: Mapping[int, Root], grid: NDArray[Any], rows: slice, work: Work
) -> Iterator[None]:
    """Compute a band; yield after each level."""
    m, n = rows.stop - rows.start, slab.shape[1]
    narrow = grid.itemsize < _WIDE
    sums = work.sums[: m * n].reshape(m, n) if narrow else grid[rows]
    for number, (left, right, depth) in enumerate(levels):
        a = _operand(roots[left.root], left, depth, rows, work.operands[: depth * m])
        b = _operand(roots[right.root], right, depth, slice(0, n), work.operands[depth * m : depth * (m + n)])
        height = max(slab.m, int(_FLOPS_A_CALL / (2.0 * depth * n)))
        width = n if height > slab.m else max(slab.n, int(_FLOPS_A_CALL / (2.0 * depth * height)))
        for top in range(0, m, height):
            for edge in range(0, n, width):
                part = slice(top, top + height), slice(edge, edge + width)
                accumulate(a[:, part[0]], b[:, part[1]], sums[part], add=number > 0)
        if narrow and number == len(levels) - 1:
            np.copyto(grid[rows], sums, casting="unsafe")
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


def joined(levels: list[Level], most: int | None = None) -> list[Level]:
    """Return the levels with those joined that follow each other in memory, to `most` rows if there is a limit."""
    out: list[Level] = []
    for left, right, depth in levels:
        if out:
            a, b, rows = out[-1]
            fits = most is None or rows + depth <= most
            if fits and _follows(left, a, rows) and _follows(right, b, rows):
                out[-1] = Level(a, b, rows + depth)
                continue
        out.append(Level(left, right, depth))
    return out


def _follows(latter: Submatrix, former: Submatrix, rows: int) -> bool:
    """Return whether the rows of one matrix go on where some rows of another end."""
    goes_on = latter.offset == former.offset + rows * former.pitch
    return goes_on and latter.root == former.root and latter.pitch == former.pitch
