"""The algebra of sizes and strides, held equal to enumeration on small shapes."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.tensor import (
    as_slices,
    box,
    box_of,
    extent,
    free_pattern,
    is_dense,
    normalise,
    reshape_strides,
    slices_of,
    storage_shape,
    take,
)


def reached(offset, shape, strides):
    """Element numbers, in the pattern's order."""
    out = np.full(shape, offset, dtype=np.int64)
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        out += np.arange(size).reshape([-1 if k == axis else 1 for k in range(len(shape))]) * step
    return out


def product_of(buffer_shape, ranges):
    """Element numbers that a product of (start, stop, step) addresses in a row-major buffer."""
    return np.arange(math.prod(buffer_shape)).reshape(buffer_shape)[tuple(slice(*r) for r in ranges)]


patterns = st.lists(st.tuples(st.integers(1, 4), st.integers(-6, 12)), min_size=1, max_size=5)
buffers = st.lists(st.sampled_from([1, 2, 2, 3, 4, 6, 8]), min_size=1, max_size=4).map(tuple)


@st.composite
def placed(draw):
    """A buffer and a pattern whose elements all lie in it."""
    buffer = draw(buffers)
    total = math.prod(buffer)
    steps = st.integers(-6, 30)
    units = [math.prod(buffer[k + 1 :]) for k in range(len(buffer))]
    near = st.one_of(
        steps, st.sampled_from(units), st.builds(lambda a, b: a * b, st.sampled_from(units), st.integers(1, 4))
    )
    low = high = 0
    shape, strides = [], []
    for _ in range(draw(st.integers(1, 4))):
        size, step = draw(st.sampled_from([1, 2, 2, 3, 4, 8])), draw(near)
        if high - low + abs((size - 1) * step) < total:
            shape.append(size)
            strides.append(step)
            low += min(0, (size - 1) * step)
            high += max(0, (size - 1) * step)
    offset = draw(st.integers(-low, total - 1 - high))
    return buffer, offset, tuple(shape), tuple(strides)


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
    assert (merged[1:], steps[1:]) == normalise(shape[1:], strides[1:]) == free_pattern(shape, strides)
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


@given(placed())
@example(((4, 6), 0, (4, 2, 3), (6, 3, 1)))
@example(((4, 6), 5, (2,), (5,)))
@example(((4, 6), 1, (8,), (3,)))
@example(((8,), 0, (3, 2), (2, 2)))
@example(((8,), 0, (2, 2, 2), (1, 4, 2)))
@example(((2, 1, 4), 3, (2,), (4,)))
@example(((2, 3, 4), 0, (24,), (1,)))
@example(((2, 3, 4), 8, (2, 3), (12, 1)))
def test_a_box_is_found_exactly_where_the_elements_are_a_product_of_slices(case) -> None:
    buffer, offset, shape, strides = case
    found = box_of(buffer, offset, shape, strides)
    elements = np.unique(reached(offset, shape, strides))
    if found is not None:
        assert np.array_equal(np.sort(product_of(buffer, found).ravel()), elements)
        assert all(
            0 <= start < stop <= size and step > 0 for (start, stop, step), size in zip(found, buffer, strict=True)
        )
        assert all((stop - 1 - start) % step == 0 for start, stop, step in found)
        return
    places = [np.unique(place) for place in np.unravel_index(elements, buffer)]
    is_product = math.prod(map(len, places)) == len(elements)
    assert not (is_product and all(len(np.unique(np.diff(place))) <= 1 for place in places))


@given(placed())
@example(((2, 3, 4), 5, (4, 1, 2), (1, 9, 12)))
@example(((2, 1, 4), 0, (2, 1, 4), (4, 4, 1)))
def test_slices_read_the_same_elements_in_the_same_order(case) -> None:
    buffer, offset, shape, strides = case
    found = slices_of(buffer, offset, shape, strides)
    if found is None:
        return
    base = np.arange(math.prod(buffer)).reshape(buffer)
    part = take(base, found, shape)
    assert np.array_equal(part, reached(offset, shape, strides))
    assert np.shares_memory(part, base)
    assert len(found.axes) == len(shape)
    assert all(
        base[found.ranges].shape[axis] == size for axis, size in zip(found.axes, shape, strict=True) if axis >= 0
    )


@given(data=st.data())
def test_slicing_and_permuting_is_always_slices(data, in_hbm) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple))
    key = []
    for size in shape:
        start = data.draw(st.integers(0, size - 1))
        stop = data.draw(st.integers(start + 1, size))
        key.append(data.draw(st.sampled_from([start, slice(start, stop), slice(start, stop, 2)])))
    view = in_hbm(*shape)[tuple(key)]
    view = view.permute(data.draw(st.permutations(range(view.ndim)).map(tuple)))
    view = view.expand_dim(data.draw(st.integers(0, view.ndim)))
    found = as_slices(view)
    assert found is not None
    assert box(view) is not None
    base = np.arange(math.prod(shape)).reshape(shape)
    assert np.array_equal(take(base, found, view._shape), reached(view.offset, view._shape, view.strides))


def test_more_than_slicing_is_no_slices(in_hbm, on_chip) -> None:
    tensor = in_hbm(8, 16)
    assert as_slices(tensor.reshape((8, 4, 4))) is None
    assert as_slices(tensor.reshape((128,))) is None
    assert as_slices(tensor[0:1].broadcast(0, 4)) is None
    assert as_slices(tensor.ap([[-1, 8]], 7)) is None
    assert as_slices(tensor[2].expand_dim(0)).axes == (-1, 1)
    assert as_slices(on_chip(128, 16)[0:64, 4:8]) == ((slice(0, 64, 1), slice(4, 8, 1)), (0, 1))


def test_a_run_time_index_is_neither_box_nor_slices(in_hbm, on_chip) -> None:
    view = in_hbm(4, 8, 8).select(0, on_chip(1, 1, dtype="int32"))
    assert box(view) is None
    assert as_slices(view) is None


def test_boxes_of_other_dtypes_count_their_elements(on_chip, in_hbm) -> None:
    assert box(on_chip(128, 64)[:, 8:16].view("uint8")) == ((0, 128, 1), (32, 64, 1))
    assert box(on_chip(128, 64, dtype="uint8")[4:8, 8:16].view("float32")) == ((4, 8, 1), (2, 4, 1))
    assert box(on_chip(128, 2, 6, dtype="uint8").view("float16")) == ((0, 128, 1), (0, 2, 1), (0, 3, 1))
    assert box(on_chip(128, 4, 3, dtype="uint8").ap([[3, 128], [1, 2]], dtype="float32")) == ((0, 128, 1), (0, 2, 1))
    assert box(in_hbm(5, 3, dtype="uint8").ap([[1, 7]], dtype="float16")) is None


def test_storage_is_counted_in_other_units_where_rows_divide() -> None:
    assert storage_shape((4, 6), 4, 4) == (4, 6)
    assert storage_shape((4, 6), 4, 1) == (4, 24)
    assert storage_shape((4, 6), 1, 2) == (4, 3)
    assert storage_shape((4, 2, 3), 1, 2) == (4, 3)
    assert storage_shape((4, 3), 1, 2) is None
    assert storage_shape((8,), 1, 4) == (2,)
    assert storage_shape((6,), 1, 4) is None
    assert storage_shape((6, 1), 2, 4) is None


def test_nothing_costs_more_for_large_dimensions() -> None:
    shape = (1 << 20, 1 << 20)
    start = time.perf_counter()
    for offset in range(1000):
        assert box_of(shape, offset, (1 << 19, 1 << 10), (2 << 20, 1)) is not None
        assert slices_of(shape, offset, (1 << 10, 1 << 19), (1, 2 << 20)) is not None
        assert reshape_strides(shape, (1 << 20, 1), (1 << 10, 1 << 30)) == (1 << 30, 1)
    assert time.perf_counter() - start < 1.0


def test_all_small_patterns_over_a_small_buffer_are_boxed_rightly() -> None:
    buffer = (2, 3, 2)
    for count, step, count2, step2 in itertools.product(range(1, 4), range(7), range(1, 4), range(7)):
        span = (count - 1) * step + (count2 - 1) * step2
        for offset in range(12 - span):
            found = box_of(buffer, offset, (count, count2), (step, step2))
            elements = set(reached(offset, (count, count2), (step, step2)).ravel().tolist())
            places = [sorted(set(place.tolist())) for place in np.unravel_index(sorted(elements), buffer)]
            product = math.prod(map(len, places)) == len(elements)
            assert (found is not None) == product
            assert found is None or set(product_of(buffer, found).ravel().tolist()) == elements
