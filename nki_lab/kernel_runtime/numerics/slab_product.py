"""The product of a slab: in bands that the threads of BLAS take, with the conversions of operands and of the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import BF16, DType
from nki_lab.kernel_runtime.numerics import blas
from nki_lab.kernel_runtime.numerics.blas import Floats, accumulate
from nki_lab.kernel_runtime.numerics.parallel import in_parallel
from nki_lab.kernel_runtime.numerics.rounding import to_shadow
from nki_lab.kernel_runtime.numerics.slab import Level, Slab, Submatrix

_WIDE: Final = 4  # bytes of a float32
_FLOPS_A_CALL: Final = 8e9  # keeps one product under 0.2 s on one core, so that an interrupt is noticed
_FLOPS_A_THREAD: Final = 1e8  # below, a second thread begins when the first has ended
_BAND_BYTES: Final = 16 * 2**20  # of float32 sums that are yet to be rounded: memory that is new costs time
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
