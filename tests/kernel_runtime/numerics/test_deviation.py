"""Errors relative to elements and the scales of their rows."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.kernel_runtime.numerics.deviation import FLOOR, largest, relative_errors


def test_an_error_counts_relative_to_the_element_and_its_row() -> None:
    exact = np.full((1, 100), 2.0)
    actual = exact.copy()
    actual[0, 7] += 0.4
    errors = relative_errors(actual, exact, 1)
    assert largest(errors) == (pytest.approx(0.4 / (2 + 2)), (0, 7))
    assert np.count_nonzero(errors) == 1


def test_rows_have_scales_of_their_own_down_to_a_floor() -> None:
    exact = np.array([[1000.0] * 16, [1.0] * 16, [1e-9] * 16])
    errors = relative_errors(exact + 1e-3, exact, 3)[:, 0]
    of_all = np.sqrt((1000.0**2 + 1) / 3)
    assert errors == pytest.approx([1e-3 / 2000, 1e-3 / (1 + FLOOR * of_all), 1e-3 / (FLOOR * of_all)])


def test_short_rows_share_a_scale() -> None:
    exact = np.array([[10.0], [0.0]])
    assert relative_errors(exact + 1, exact, 2)[1, 0] == pytest.approx(1 / np.sqrt(50))


@pytest.mark.parametrize(
    ("actual", "exact", "error"),
    [
        (np.nan, np.nan, 0.0),
        (np.inf, np.inf, 0.0),
        (-np.inf, -3.4e38, 0.0),  # a mask's lowest number, rounded to bfloat16
        (-1e30, -2e35, 0.0),
        (np.inf, -np.inf, np.inf),
        (np.nan, 1.0, np.inf),
        (1.0, np.nan, np.inf),
        (np.inf, 65500.0, np.inf),
        (1.0, np.inf, np.inf),
    ],
)
def test_numbers_that_are_not_finite(actual: float, exact: float, error: float) -> None:
    have, want = np.ones((2, 20)), np.ones((2, 20))
    have[1, 3], want[1, 3] = actual, exact
    errors = relative_errors(have, want, 2)
    assert errors[1, 3] == error
    assert errors.sum() == error
    assert errors[1, 4] == 0.0


def test_masked_elements_have_no_part_in_the_scale() -> None:
    exact = np.ones((1, 32))
    exact[0, :16] = -3e38
    off = exact.copy()
    off[0, 20] += 0.5
    assert relative_errors(off, exact, 1)[0, 20] == pytest.approx(0.5 / (1 + np.sqrt(0.5)))


def test_zeros_are_compared_with_zeros() -> None:
    zero = np.zeros((4, 16))
    assert not relative_errors(zero, zero, 4).any()
    assert relative_errors(zero + 1e-3, zero, 4).min() > 1


def test_nothing_has_no_error() -> None:
    empty = np.zeros((0, 4))
    assert largest(relative_errors(empty, empty, 0)) == (0.0, ())
