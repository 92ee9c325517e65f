"""How far values are from exact ones, relative to the size of their rows."""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.kernel_runtime.numerics.rounding import Array

FLOOR: Final = 1e-2
"""The scale of a row is at least this share of the tensor's: a row of nearly nothing has no precision of its own."""

HUGE: Final = 1e30
"""Magnitude from which on numbers stand for infinity, as masks use them: they differ from no other of their sign."""

_SHORT: Final = 8  # elements of a row up to which its own mean square says little


def relative_errors(actual: Array, exact: Array, rows: int) -> Array:
    """Return |actual - exact| / (|exact| + scale) of each element, float64, in the shape of `exact`.

    The scale is the root mean square of the element's row, of all rows where these are short, and at least `FLOOR` of
    that. The elements form `rows` rows of equal length. 0 where both are NaN, the same infinity or both huge; infinity
    where just one of them is no finite number.
    """
    goal = np.asarray(exact, np.float64)
    have = np.asarray(actual, np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(have - goal)
        size = np.abs(goal)
        errors: Array = difference / (size + scales(goal, rows).reshape(goal.shape))
        same = (have == goal) | (np.isnan(have) & np.isnan(goal))
        if not size.max(initial=0) < HUGE:
            same |= (np.abs(have) >= HUGE) & (size >= HUGE) & (np.signbit(have) == np.signbit(goal))
        errors[same] = 0.0
        errors[np.isnan(errors)] = np.inf
    return errors


def scales(exact: Array, rows: int) -> Array:
    """Return the scale of each element's row, in an array of `rows` rows; tiny where all elements are 0."""
    table = exact.reshape(rows, -1)
    squares = np.square(table)
    if not squares.max(initial=0) < HUGE**2:  # NaN too
        squares = np.where(np.abs(table) < HUGE, squares, 0.0)
    of_rows = squares.mean(axis=1, keepdims=True)
    of_all = np.sqrt(of_rows.mean())
    scale = np.full(of_rows.shape, of_all) if table.shape[1] <= _SHORT else np.maximum(np.sqrt(of_rows), FLOOR * of_all)
    out: Array = np.broadcast_to(np.maximum(scale, np.finfo(np.float32).tiny), table.shape)
    return out


def largest(errors: Array) -> tuple[float, tuple[int, ...]]:
    """Return the largest error and its index; 0 and no index of no elements."""
    if not errors.size:
        return 0.0, ()
    place = int(np.argmax(errors))
    return float(errors.reshape(-1)[place]), tuple(int(i) for i in np.unravel_index(place, errors.shape))
