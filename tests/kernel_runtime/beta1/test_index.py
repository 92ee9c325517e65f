"""Index expressions are affine grids: their algebra is NumPy's, and comparisons are bounds."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.beta1.index import Grid, Index, Mask, arange, mgrid
from nki_lab.kernel_runtime.beta1.masking import bounds_of


def values(index: Index) -> np.ndarray[Any, Any]:
    grid = np.full(index.shape, index.offset, np.int64)
    for dim, (size, step) in enumerate(zip(index.shape, index.steps, strict=True)):
        grid += (step * np.arange(size)).reshape([-1 if k == dim else 1 for k in range(index.ndim)])
    return grid


@st.composite
def pairs(draw: st.DrawFn, rank: int = 3) -> tuple[Index, np.ndarray[Any, Any]]:
    """An index expression over up to three dimensions, with NumPy's array of the same expression."""
    sizes = [draw(st.integers(1, 5)) for _ in range(rank)]
    leaves: list[tuple[Any, Any]] = []
    for dim, size in enumerate(sizes):
        key = tuple(slice(None) if k == dim else None for k in range(rank))
        start = draw(st.integers(-3, 3))
        leaves.append((arange(start, start + size)[key], np.arange(start, start + size)[key]))
    dense = mgrid[tuple(slice(0, size) for size in sizes)]
    leaves += list(zip(dense, np.mgrid[tuple(slice(0, size) for size in sizes)], strict=True))
    left, right = draw(st.sampled_from(leaves))
    for _ in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["scale", "shift", "add", "subtract", "reverse"])):
            case "scale":
                factor = draw(st.integers(-4, 4))
                left, right = (left * factor, right * factor) if factor % 2 else (factor * left, factor * right)
            case "shift":
                left, right = left + 7, right + 7
            case "reverse":
                left, right = 11 - left, 11 - right
            case name:
                other, theirs = draw(st.sampled_from(leaves))
                function = operator.add if name == "add" else operator.sub
                left, right = function(left, other), function(right, theirs)
    return left, right


@given(pairs())
def test_index_arithmetic_is_numpy_arithmetic(pair: Any) -> None:
    index, array = pair
    assert index.shape == array.shape
    np.testing.assert_array_equal(values(index), array)
    assert index.span() == (array.min(), array.max())


@given(pairs(), st.integers(1, 6))
def test_floor_division_and_remainder_are_numpys_or_refused(pair: Any, divisor: int) -> None:
    index, array = pair
    for function in (operator.floordiv, operator.mod):
        try:
            found = function(index, divisor)
        except NkiError as error:
            assert error.diagnostics[0].code == "NKI304"
        else:
            np.testing.assert_array_equal(values(found), function(array, divisor))


@given(pairs(), st.integers(-20, 20), st.sampled_from(["lt", "le", "gt", "ge", "eq"]))
def test_bounds_of_a_comparison_are_where_it_holds(pair: Any, number: int, name: str) -> None:
    index, array = pair
    truth = getattr(operator, name)(array, number)
    try:
        bounds = bounds_of(getattr(operator, name)(index, number))
    except NkiError as error:
        assert error.diagnostics[0].code == "NKI010"
        assert sum(step != 0 for step in index.steps) > 1
        return
    if bounds is None:
        assert not truth.any()
        return
    inside = np.ones(index.shape, bool)
    for bound in bounds:
        place = np.arange(bound.size).reshape([-1 if k == bound.dim else 1 for k in range(bound.rank)])
        inside &= (bound.low <= place) & (place <= bound.high)
    np.testing.assert_array_equal(inside, truth)


@pytest.mark.parametrize(
    ("compare", "limit"),
    [
        (operator.lt, 3.5),
        (operator.le, 3.5),
        (operator.gt, 3.5),
        (operator.ge, 3.5),
        (operator.lt, 3.0),
        (operator.ge, 3.0),
    ],
)
def test_a_fractional_limit_bounds_as_it_does_in_numpy(compare: Any, limit: float) -> None:
    bounds = bounds_of(compare(arange(8)[:, None], limit))
    assert bounds is not None
    (bound,) = bounds
    kept = np.flatnonzero(compare(np.arange(8), limit))
    assert (bound.low, bound.high) == (kept[0], kept[-1])


def test_numpy_integers_take_part_on_either_side() -> None:
    index = arange(4)[None, :]
    assert values(np.int64(3) * index + np.int32(2)).tolist() == [[2, 5, 8, 11]]
    assert isinstance(np.int64(2) > index, Mask)


def test_grid_unpacks_and_names_its_ranges() -> None:
    grid = mgrid[0:2, 1:4, 0:5]
    p, x, y = grid
    assert (grid.p, grid.x, grid.y) == (p, x, y) or (grid.p is p and grid.x is x and grid.y is y)
    assert p.shape == x.shape == y.shape == (2, 3, 5)
    assert isinstance(mgrid[0:4], Grid)
    with pytest.raises(AttributeError, match="no z"):
        grid.z


def test_and_of_masks_in_python_keeps_the_second() -> None:
    rows, columns = mgrid[0:8, 0:8]
    mask = rows < 3 and columns < 5
    bounds = bounds_of(mask)
    assert bounds is not None
    assert [(bound.dim, bound.high) for bound in bounds] == [(1, 4)]


def test_conjunction_with_plain_truth_values() -> None:
    mask = arange(8)[:, None] < 3
    assert (mask & True) is mask
    assert (True & mask) is mask
    assert (mask & False) is False
    assert bounds_of(False) is None
    assert bounds_of(True) == []
    assert bounds_of(np.False_) is None


def test_negation_of_one_comparison_is_its_complement() -> None:
    bounds = bounds_of(~(arange(8)[:, None] < 3))
    assert bounds is not None
    assert (bounds[0].low, bounds[0].high) == (3, 7)


@pytest.mark.parametrize(
    "mask",
    [
        lambda i, j: i <= j,
        lambda i, j: i != 3,
        lambda i, j: (i < 3) | (j < 3),
        lambda i, j: ~((i < 3) & (j < 3)),
    ],
)
def test_masks_that_are_no_box_are_unmodelled(mask: Any) -> None:
    with pytest.raises(NkiError, match="NKI010 this mask is no box"):
        bounds_of(mask(arange(8)[:, None], arange(8)[None, :]))


def test_a_diagonal_that_is_always_or_never_true_is_a_box() -> None:
    i, j = arange(8)[:, None], arange(8)[None, :]
    assert bounds_of(i <= j + 7) == []
    assert bounds_of(i > j + 7) is None


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (lambda i: i * i, "NKI304"),
        (lambda i: i * 0.5, "NKI304"),
        (lambda i: i + 0.5, "NKI304"),
        (list, "NKI304"),
        (lambda i: i // 0, "NKI304"),
        (lambda i: operator.setitem(i, 0, 1), "NKI304"),
        (range, "NKI304"),
        (lambda i: 1 if i else 0, "NKI017"),
        (lambda i: i + arange(3)[:, None], "NKI203"),
        (lambda i: arange(3, 3), "NKI307"),
        (lambda i: arange(1.5), "NKI012"),
        (lambda i: mgrid[5], "NKI304"),
        (lambda i: mgrid[0:4:0], "NKI304"),
        (lambda i: bounds_of("i < 3"), "NKI012"),
    ],
)
def test_what_is_not_affine_is_refused(expression: Any, code: str) -> None:
    with pytest.raises(NkiError) as caught:
        expression(arange(4)[:, None])
    assert caught.value.diagnostics[0].code == code
