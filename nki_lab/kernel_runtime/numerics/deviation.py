"""How far values are from exact ones, relative to the size of their rows."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.numerics.rounding import Array

FLOOR: Final = 1e-2
"""The scale of a row is at least this share of the tensor's: a row of nearly nothing has no precision of its own."""

HUGE: Final = 1e30
"""Magnitude from which on numbers stand for infinity, as masks use them: they differ from no other of their sign."""

_SHORT: Final = 8  # elements of a row up to which its own mean square says little
_TINY: Final = float(np.finfo(np.float32).tiny)


class Yardstick:
    """Exact values, in `rows` rows of equal length, by which others are measured.

    The scale of a row is the root mean square of its elements, of all rows where these are short, and at least `FLOOR`
    of that. NaN, infinite and huge elements have no part in it.
    """

    def __init__(self, exact: Array, rows: int) -> None:
        self._exact = np.asarray(exact, np.float64)
        with np.errstate(all="ignore"):
            self._size = np.abs(self._exact)
            self._is_plain = bool(self._size.max(initial=0) < HUGE)  # neither NaN nor huge
            self._units = self._size + self._scales(max(rows, 1))

    def _scales(self, rows: int) -> Array:
        table = self._size.reshape(rows, -1)
        counted = table if self._is_plain else np.where(table < HUGE, table, 0.0)
        of_rows = np.einsum("rf,rf->r", counted, counted) / max(table.shape[1], 1)
        of_all = math.sqrt(float(of_rows.mean()))
        scale = np.full(rows, of_all) if table.shape[1] <= _SHORT else np.maximum(np.sqrt(of_rows), FLOOR * of_all)
        out: Array = np.broadcast_to(np.maximum(scale, _TINY)[:, None], table.shape).reshape(self._size.shape)
        return out

    def errors(self, actual: Array) -> Array:
        """Return |actual - exact| / (|exact| + scale) of each element, float64.

        0 where both are NaN, the same infinity or both huge; infinity where just one of them is no finite number.
        """
        with np.errstate(all="ignore"):
            out: Array = actual - self._exact
            np.abs(out, out=out)
            out /= self._units
            if self._is_plain and math.isfinite(out.max(initial=0)):
                return out
            goal, have = self._exact, np.asarray(actual, np.float64)
            same = (have == goal) | (np.isnan(have) & np.isnan(goal))
            same |= (np.abs(have) >= HUGE) & (self._size >= HUGE) & (np.signbit(have) == np.signbit(goal))
            out[same] = 0.0
            out[np.isnan(out)] = np.inf
            return out


def relative_errors(actual: Array, exact: Array, rows: int) -> Array:
    """Return the errors of `actual` by the yardstick of exact values."""
    return Yardstick(exact, rows).errors(np.asarray(actual, np.float64))


def largest(errors: Array) -> tuple[float, tuple[int, ...]]:
    """Return the largest error and its index; 0 and no index of no elements."""
    if not errors.size:
        return 0.0, ()
    place = int(np.argmax(errors))
    return float(errors.reshape(-1)[place]), tuple(int(i) for i in np.unravel_index(place, errors.shape))
