"""Access patterns as pure functions on sizes and strides: merging, reshaping and extents.

A pattern is (offset, shape, strides) in elements; the element of index i lies at `offset + sum(strides[k] * i[k])`.
Nothing here enumerates elements: every function costs a few steps per dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

Sizes = tuple[int, ...]


def normalise(shape: Sequence[int], strides: Sequence[int], keep_first: bool = False) -> tuple[Sizes, Sizes]:
    """Return the element sequence in the fewest dimensions: size-1 dimensions dropped, neighbours merged.

    `keep_first` leaves dimension 0 as it is (the partition dimension). One element gives `((), ())`.
    """
    sizes: list[int] = []
    steps: list[int] = []
    fixed = 0
    start = 0
    if keep_first:
        sizes.append(shape[0])
        steps.append(strides[0])
        fixed = start = 1
    for k in range(start, len(shape)):
        size = shape[k]
        if size == 1:
            continue
        step = strides[k]
        if len(sizes) > fixed and steps[-1] == step * size:
            sizes[-1] *= size
            steps[-1] = step
        else:
            sizes.append(size)
            steps.append(step)
    return tuple(sizes), tuple(steps)


def extent(offset: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the lowest and highest element addressed, both inclusive."""
    low = high = offset
    for size, step in zip(shape, strides, strict=True):
        if step >= 0:
            high += (size - 1) * step
        else:
            low += (size - 1) * step
    return low, high


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the elements lie one after the other in row-major order; size-1 dimensions do not count."""
    expected = 1
    for k in range(len(shape) - 1, -1, -1):
        size = shape[k]
        if size != 1:
            if strides[k] != expected:
                return False
            expected *= size
    return True


def reshape_strides(shape: Sequence[int], strides: Sequence[int], new_shape: Sequence[int]) -> Sizes | None:
    """Return strides that read the same elements as `new_shape`, of equal count; None where a copy is needed."""
    if 0 in new_shape:
        return (0,) * len(new_shape)
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
