"""The algebra of sizes and strides, held equal to enumeration on small shapes."""

from __future__ import annotations

import math
import time

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.tensor import (
    extent,
    is_dense,
    normalise,
    reshape_strides,
)


def reached(offset, shape, strides):
    """Element numbers, in the pattern's order."""
    out = np.full(shape, offset, dtype=np.int64)
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        out += np.arange(size).reshape([-1 if k == axis else 1 for k in range(len(shape))]) * step
    return out


patterns = st.lists(st.tuples(st.integers(1, 4), st.integers(-6, 12)), min_size=1, max_size=5)


@given(patterns)
def test_a_normalised_pattern_reads_the_same_elements_in_the_same_order(pattern) -> None:
    shape, strides = [size for size, _ in pattern], [step for _, step in pattern]
    merged, steps = normalise(shape, strides)
    assert np.array_equal(reached(0, merged, steps).ravel(), reached(0, shape, strides).ravel())
    assert all(size > 1 for size in merged)
    assert all(steps[k] != steps[k + 1] * merged[k + 1] for k in range(len(merged) - 1))


@given(patterns)
def test_a_normalised_pattern_keeps_its_first_dimension_apart(pattern) -> None:
    shape, strides = [size for size, _ in pattern], [step for _, step in pattern]
    merged, steps = normalise(shape, strides, keep_first=True)
    assert (merged[0], steps[0]) == (shape[0], strides[0])
    assert (merged[1:], steps[1:]) == normalise(shape[1:], strides[1:])
    assert np.array_equal(reached(0, merged, steps).ravel(), reached(0, shape, strides).ravel())


def test_one_element_normalises_to_nothing() -> None:
    assert normalise((1, 1), (7, 3)) == ((), ())
    assert normalise((1, 1), (7, 3), keep_first=True) == ((1,), (7,))
    assert normalise((2, 3, 4), (12, 4, 1)) == ((24,), (1,))
    assert normalise((4, 5), (0, 0)) == ((20,), (0,))


@given(patterns, st.integers(-5, 5))
def test_the_extent_is_the_lowest_and_highest_element(pattern, offset) -> None:
    shape, strides = [size for size, _ in pattern], [step for _, step in pattern]
    elements = reached(offset, shape, strides)
    assert extent(offset, shape, strides) == (elements.min(), elements.max())


@given(patterns)
def test_dense_means_one_after_the_other(pattern) -> None:
    shape, strides = [size for size, _ in pattern], [step for _, step in pattern]
    elements = reached(0, shape, strides).ravel()
    assert is_dense(shape, strides) == np.array_equal(elements, np.arange(elements.size))


@st.composite
def reshapes(draw):
    """A pattern and another shape with the same number of elements."""
    factors = draw(st.lists(st.sampled_from([2, 2, 3, 5]), max_size=5))

    def grouped():
        groups = draw(st.lists(st.integers(0, 3), min_size=len(factors), max_size=len(factors)))
        return tuple(math.prod(f for f, g in zip(factors, sorted(groups), strict=True) if g == k) for k in range(4))

    shape = grouped()
    step = draw(st.integers(1, 3))
    strides = []
    for size in reversed(shape):
        strides.append(step)
        step = draw(st.sampled_from([step * size, step * size, step * size, 0, 7, step * size + 1]))
    return shape, tuple(reversed(strides)), grouped()


@given(reshapes())
@example(((2, 1, 3), (3, 99, 1), (6,)))
@example(((2, 3), (0, 0), (3, 2)))
def test_a_reshape_is_a_view_exactly_where_numpy_needs_no_copy(case) -> None:
    shape, strides, new = case
    found = reshape_strides(shape, strides, new)
    storage = np.arange(extent(0, shape, strides)[1] + 1)
    array = np.lib.stride_tricks.as_strided(storage, shape, [step * 8 for step in strides])
    try:
        wanted = array.reshape(new, copy=False)
    except ValueError:
        assert found is None
    else:
        assert found is not None
        assert np.array_equal(reached(0, new, found), wanted)


def test_nothing_costs_more_for_large_dimensions() -> None:
    shape = (1 << 20, 1 << 20)
    start = time.perf_counter()
    for _ in range(1000):
        assert reshape_strides(shape, (1 << 20, 1), (1 << 10, 1 << 30)) == (1 << 30, 1)
    assert time.perf_counter() - start < 1.0
