"""How close results must be to the float64 references: the one place where that is said.

* A result of correctly rounded float32 steps (moves, casts, the four operations, comparisons, bits) must be the very
  value of the reference, NaN for NaN.
* Where a reference gives a slack (sums and products of many numbers, powers, activation functions), the value before
  the cast must lie within it. A cast never changes the order of values, so the stored result must lie between the
  casts of `value - slack` and `value + slack`.
* Sums of n float32 numbers: n halves of a unit in the last place of the sum of magnitudes, in whatever order they are
  added; matrix products likewise, with K + 2 for n.
* Activation functions: 2**-20 of the larger of 1 and the result. Tighter bounds, function by function, are those of
  tests/isa/test_activation.py.
* What a call computed may be any value of its interval in the next one: the references are asked at both ends too, and
  all that lies between their answers is right. An error d of z is one by the factor exp(d) of exp(z), however exact exp is.
* `matmul_order` "slab" and "free" against "tile": `slab.ULP_BOUND` units in the last place of the largest partial sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reference.grid import Array, Result, Stored, narrow


def bounds(result: Result, dtype: str) -> tuple[Array, Array]:
    """The least and the greatest stored value that count as right, in the dtype's NumPy type."""
    if isinstance(result, Stored):
        return result.array, result.array
    value, slack = result
    if not np.any(slack):
        exact = narrow(value, dtype)
        return exact, exact
    if dtype == "bool_":
        # Every number but 0 is true, NaN as well: the one cast that does not keep the order.
        size = np.abs(value)
        return ~np.asarray(size <= slack), ~np.asarray(size + slack == 0)
    with np.errstate(all="ignore"):
        room = np.where(np.isfinite(value), slack, 0)
        return narrow(value - room, dtype), narrow(value + room, dtype)


def within(got: Array, low: Array, high: Array, *, bits: bool = False) -> Array:
    """Which elements are right. A bound that is NaN, as beyond the range of a dtype without infinity, lets NaN through
    and does not bound; `bits` also tells 0.0 from -0.0."""
    if got.dtype.kind in "iub" and low.dtype.kind in "iub":
        return (got >= low) & (got <= high)
    with np.errstate(all="ignore"):
        a, b, c = (np.asarray(x).astype(np.float64) for x in (got, low, high))
        odd_low, odd_high = np.isnan(b), np.isnan(c)
        right = ((a >= b) | odd_low) & ((a <= c) | odd_high) & ~(odd_low & odd_high)
        right |= np.isnan(a) & (odd_low | odd_high)
        if bits:
            right &= np.isnan(a) | (np.signbit(a) == np.signbit(b))
    return np.asarray(right)


def ulps(a: Array, b: Array, scale: Array | None = None) -> Any:
    """The largest difference of two float32 arrays in units in the last place of `scale` (default: the larger one)."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    size = np.maximum(np.abs(a64), np.abs(b64)) if scale is None else np.asarray(scale, np.float64)
    unit = np.spacing(np.maximum(size, 2.0**-126).astype(np.float32)).astype(np.float64)
    return (np.abs(a64 - b64) / unit).max(initial=0)
