"""Access patterns as pure functions on sizes and strides: merging, reshaping, extents, boxes and slices of storage.

A pattern is (offset, shape, strides) in elements; the element of index i lies at `offset + sum(strides[k] * i[k])`.
Nothing here enumerates elements: every function costs a few steps per dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

Sizes = tuple[int, ...]
Range = tuple[int, int, int]


def normalise(shape: Sequence[int], strides: Sequence[int], keep_first: bool = False) -> tuple[Sizes, Sizes]:
    """The same element sequence in the fewest dimensions: size-1 dimensions dropped, mergeable neighbours merged.

    `keep_first` leaves dimension 0 as it is (the partition dimension). One element gives `((), ())`.
    """
    sizes: list[int] = []
    steps: list[int] = []
    floor = 0
    start = 0
    if keep_first:
        sizes.append(shape[0])
        steps.append(strides[0])
        floor = start = 1
    for k in range(start, len(shape)):
        size = shape[k]
        if size == 1:
            continue
        step = strides[k]
        if len(sizes) > floor and steps[-1] == step * size:
            sizes[-1] *= size
            steps[-1] = step
        else:
            sizes.append(size)
            steps.append(step)
    return tuple(sizes), tuple(steps)


def free_pattern(shape: Sequence[int], strides: Sequence[int]) -> tuple[Sizes, Sizes]:
    """The merged pattern of the free dimensions: everything but dimension 0."""
    return normalise(shape[1:], strides[1:])


def extent(offset: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Lowest and highest element addressed, both inclusive."""
    low = high = offset
    for size, step in zip(shape, strides, strict=True):
        if step >= 0:
            high += (size - 1) * step
        else:
            low += (size - 1) * step
    return low, high


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if the elements lie one after the other in row-major order; size-1 dimensions do not count."""
    expected = 1
    for k in range(len(shape) - 1, -1, -1):
        size = shape[k]
        if size != 1:
            if strides[k] != expected:
                return False
            expected *= size
    return True


def reshape_strides(shape: Sequence[int], strides: Sequence[int], new_shape: Sequence[int]) -> Sizes | None:
    """Strides that read the same element sequence as `new_shape` (equal element count); None where a copy is needed."""
    sizes, steps = normalise(shape, strides)
    block = len(sizes) - 1
    left = sizes[block] if sizes else 1
    step = steps[block] if sizes else 1
    out = [0] * len(new_shape)
    for k in range(len(new_shape) - 1, -1, -1):
        size = new_shape[k]
        if size == 1:
            out[k] = step
            continue
        if left == 1:
            block -= 1
            left, step = sizes[block], steps[block]
        if left % size:
            return None
        out[k] = step
        left //= size
        step *= size
    return tuple(out)


def box_of(buffer_shape: Sizes, offset: int, shape: Sizes, strides: Sizes) -> tuple[Range, ...] | None:
    """The addressed set as a product of slices over the buffer's own dimensions: (start, stop, step) for each.

    None where the set is no such product. `stop` is one past the last element addressed. The buffer is row-major in
    the pattern's element unit and holds every element addressed. The order of the elements and repeats of the same
    element do not matter, so permutations, broadcasts and overlapping windows are boxes too.
    """
    return _sliced_box(buffer_shape, offset, shape, strides) or _set_box(buffer_shape, offset, shape, strides)


def _sliced_box(buffer_shape: Sizes, offset: int, shape: Sizes, strides: Sizes) -> tuple[Range, ...] | None:
    """The box of a view that has one dimension for each dimension of the buffer, in order."""
    if len(shape) != len(buffer_shape):
        return None
    box: list[Range] = []
    unit = 1
    for k in range(len(shape) - 1, -1, -1):
        whole, size = buffer_shape[k], shape[k]
        start = offset // unit % whole
        if size == 1:
            box.append((start, start + 1, 1))
        else:
            step, odd = divmod(strides[k], unit)
            last = start + (size - 1) * step
            if odd or step <= 0 or last >= whole:
                return None
            box.append((start, last + 1, step))
        unit *= whole
    box.reverse()
    return tuple(box)


@lru_cache(maxsize=4096)
def _set_box(buffer_shape: Sizes, offset: int, shape: Sizes, strides: Sizes) -> tuple[Range, ...] | None:
    low, runs = _runs(offset, shape, strides)
    units = [1] * len(buffer_shape)
    for k in range(len(buffer_shape) - 2, -1, -1):
        units[k] = units[k + 1] * buffer_shape[k + 1]
    starts = [low // unit % size for unit, size in zip(units, buffer_shape, strict=True)]
    box: list[Range] = [(start, start + 1, 1) for start in starts]
    used = [False] * len(buffer_shape)
    while runs:
        count, step = runs.pop()
        dim = _dim_of(step, buffer_shape, units)
        if dim < 0 or used[dim]:
            return None
        used[dim] = True
        stride = step // units[dim]
        start, size = starts[dim], buffer_shape[dim]
        if start + (count - 1) * stride >= size:
            inner, odd = divmod(size, stride)
            if odd or count % inner or start >= stride:
                return None
            runs.append((count // inner, step * inner))
            count = inner
        box[dim] = (start, start + (count - 1) * stride + 1, stride)
    return tuple(box)


def _runs(offset: int, shape: Sizes, strides: Sizes) -> tuple[int, list[tuple[int, int]]]:
    """Lowest element and the addressed set as a sum of progressions (count, step > 0), outermost last to be handled.

    Two progressions are one where the finer fills the gaps of the coarser: the coarser step is a multiple of the finer
    and no more than the finer's length.
    """
    low = offset
    dims: list[tuple[int, int]] = []
    for size, step in zip(shape, strides, strict=True):
        if size == 1 or step == 0:
            continue
        if step < 0:
            low += (size - 1) * step
        dims.append((abs(step), size))
    dims.sort()
    runs: list[tuple[int, int]] = []
    for step, size in dims:
        if runs:
            count, fine = runs[-1]
            ratio, odd = divmod(step, fine)
            if not odd and ratio <= count:
                runs[-1] = (count + (size - 1) * ratio, fine)
                continue
        runs.append((size, step))
    return low, runs


def _dim_of(step: int, buffer_shape: Sizes, units: list[int]) -> int:
    """The buffer dimension along which a progression of `step` elements moves; -1 where it moves along several."""
    for k, unit in enumerate(units):
        if buffer_shape[k] != 1 and unit <= step:
            return -1 if step % unit else k
    return -1


class Slices(NamedTuple):
    """A view as plain slicing of its buffer: `ranges` has one slice per buffer dimension; `axes[k]` is the buffer
    dimension that dimension k of the view runs along, -1 for one of size 1 that runs along none."""

    ranges: tuple[slice, ...]
    axes: tuple[int, ...]


@lru_cache(maxsize=4096)
def slices_of(buffer_shape: Sizes, offset: int, shape: Sizes, strides: Sizes) -> Slices | None:
    """The pattern as slicing, permutation and size-1 handling of the buffer's dimensions; None where it is more.

    Splitting, merging, broadcasting or reversing a dimension is more.
    """
    index: list[slice] = []
    units: list[int] = []
    unit = 1
    for size in reversed(buffer_shape):
        start = offset // unit % size
        index.append(slice(start, start + 1, 1))
        units.append(unit)
        unit *= size
    index.reverse()
    units.reverse()
    axes: list[int] = []
    for size, step in zip(shape, strides, strict=True):
        if size == 1:
            axes.append(-1)
            continue
        dim = _dim_of(step, buffer_shape, units) if step > 0 else -1
        if dim < 0 or dim in axes:
            return None
        stride = step // units[dim]
        start = index[dim].start
        last = start + (size - 1) * stride
        if last >= buffer_shape[dim]:
            return None
        index[dim] = slice(start, last + 1, stride)
        axes.append(dim)
    return Slices(tuple(index), tuple(axes))


def take(array: np.ndarray[Any, Any], slices: Slices, shape: Sizes) -> np.ndarray[Any, Any]:
    """The view of `array`, an array of the buffer's shape, that `slices` describes, in the view's own `shape`."""
    part = array[slices.ranges]
    kept = [axis for axis in slices.axes if axis >= 0]
    if kept != sorted(kept):
        rest = [axis for axis in range(part.ndim) if axis not in kept]
        part = part.transpose(kept + rest)
    return part if part.shape == shape else part.reshape(shape)


def storage_shape(shape: Sizes, nbytes: int, unit: int) -> Sizes | None:
    """A buffer's shape counted in elements of `unit` bytes instead of `nbytes`; None where its rows do not divide."""
    if nbytes == unit:
        return shape
    last, odd = divmod(shape[-1] * nbytes, unit)
    if odd or last == 0:
        total, odd = divmod(math.prod(shape[1:]) * nbytes, unit)
        return None if odd or len(shape) == 1 else (shape[0], total)
    return (*shape[:-1], last)
