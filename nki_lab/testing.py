"""Comparing results of kernels with references, as closely as their dtypes allow.

| dtype | unit roundoff u | growth | rtol |
|-|-|-|-|
| float32 | 2^-24 | 64 | 3.8e-6 |
| tfloat32, float16 | 2^-11 | 4 | 2.0e-3 |
| bfloat16 | 2^-8 | 4 | 1.6e-2 |
| float8_e4m3, float8_e4m3fn | 2^-4 | 2 | 0.125 |
| float8_e5m2 | 2^-3 | 2 | 0.25 |
| integers, bool, packed | | | exact |

rtol is growth times u. A kernel computes in float32 and rounds where it writes: a result that is stored two or three
times in a narrow dtype is some u off, and a float32 sum of n products in another order some sqrt(n) u, which is 64 for
n = 4096. The absolute tolerance is rtol times the root mean square of the expected values, because the error of a sum
is relative to its terms and not to what they cancel to.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from nki_lab.isa.dtype import BF16, F16, F32, FP8_E4M3, FP8_E4M3FN, FP8_E5M2, TF32, DType, dtype_of
from nki_lab.session.arrays import Array, kind_of, plain

GROWTH: Final = {F32: 64, TF32: 4, F16: 4, BF16: 4, FP8_E4M3: 2, FP8_E4M3FN: 2, FP8_E5M2: 2}
"""Rounding errors that a result may have gathered, in unit roundoffs of its dtype."""


def tolerance(dtype: Any) -> float:
    """Return the relative tolerance for results of `dtype`; 0 for dtypes that are compared exactly."""
    kind = dtype_of(dtype)
    return GROWTH[kind] * 2.0 ** -(kind.mantissa_bits + 1) if kind in GROWTH else 0.0


def assert_close(
    actual: Any, expected: Any, dtype: Any = None, rtol: float | None = None, atol: float | None = None
) -> None:
    """Raise AssertionError where an element of `actual` is further from `expected` than rounding explains.

    Arrays are NumPy's (ml_dtypes included), torch's or jax's, or numbers. `dtype` is the precision in which the kernel
    computed; it is that of `actual` where not given. An element is close where |actual - expected| <= atol + rtol *
    |expected|, or where it is `expected` rounded to `dtype`. NaN is close to NaN, an infinity to itself.
    The message names the worst element, its values, and its error in units in the last place.
    """
    __tracebackhide__ = True
    have, want = plain_array(actual, "actual"), plain_array(expected, "expected")
    if have.shape != want.shape:
        raise AssertionError(f"shapes differ: actual is {have.shape}, expected {want.shape}")
    kind = _precision(have, dtype)
    if kind is not None and kind.kind == "packed":
        have, want = _bits(have), _bits(want)
    if kind is None or kind not in GROWTH:
        _assert_equal(have, want, rtol, atol)
        return
    found = _distances(have, want, kind, rtol, atol)
    if not found.close.all():
        raise AssertionError(_message(found, kind))


class KernelWarning(UserWarning):
    """A finding of severity warning in a kernel that a test called, as `pytest --nki-check` reports it."""


class Comparison(NamedTuple):
    """The element of an array that is furthest from its reference, by what is allowed.

    `place` is its index, `error` is |actual - expected| there and `allowed` how large it may be; `bad` of `size`
    elements are further off.
    """

    place: tuple[int, ...]
    actual: float
    expected: float
    error: float
    allowed: float
    bad: int
    size: int

    @property
    def close(self) -> bool:
        """Whether all elements are as close as their dtype allows."""
        return self.bad == 0


def compare(actual: Any, expected: Any, dtype: Any = None) -> Comparison:
    """Compare as `assert_close` does, and return the worst element; ValueError where shapes differ or are empty."""
    have, want = plain_array(actual, "actual"), plain_array(expected, "expected")
    if have.shape != want.shape or not have.size:
        raise ValueError(f"shapes differ: actual is {have.shape}, expected {want.shape}")
    kind = _precision(have, dtype)
    if kind is not None and kind.kind == "packed":
        have, want = _bits(have), _bits(want)
    precision = kind if kind in GROWTH else None
    found = _distances(have, want, precision, None, None)
    with np.errstate(all="ignore"):
        relative = found.difference / np.maximum(found.allowed, np.finfo(np.float64).tiny)
        index = _worst(relative if found.close.all() else np.where(found.close, -1.0, relative))
    return Comparison(
        place=index,
        actual=float(found.wide[index]),
        expected=float(found.goal[index]),
        error=float(found.difference[index]),
        allowed=float(found.allowed[index]),
        bad=int(np.count_nonzero(~found.close)),
        size=int(have.size),
    )


class _Distances(NamedTuple):
    """Two arrays in float64, their difference, how large it may be, and where they are close."""

    wide: Array
    goal: Array
    difference: Array
    allowed: Array
    close: Array
    rtol: float
    atol: float


def _distances(have: Array, want: Array, kind: DType | None, rtol: float | None, atol: float | None) -> _Distances:
    wide, goal = have.astype(np.float64), want.astype(np.float64)
    if rtol is None:
        rtol = 0.0 if kind is None else tolerance(kind)
    if atol is None:
        finite = goal[np.isfinite(goal)]
        atol = rtol * math.sqrt(float(np.mean(finite**2))) if finite.size else 0.0
    with np.errstate(all="ignore"):
        difference = np.abs(wide - goal)
        allowed = atol + rtol * np.abs(goal)
        close = (difference <= allowed) & np.isfinite(goal)
        close |= (wide == goal) | (np.isnan(wide) & np.isnan(goal))
        if kind is not None:
            rounded = want.astype(np.dtype(kind.host)) if isinstance(kind.host, np.dtype) else want
            close |= wide == rounded.astype(np.float64)
        difference = np.where((wide == goal) | (np.isnan(wide) & np.isnan(goal)), 0.0, difference)
    return _Distances(wide, goal, difference, allowed, close, rtol, atol)


def plain_array(value: Any, name: str = "array") -> Array:
    """Return an array of any library, or a number, as one of NumPy."""
    kind = kind_of(value)
    return np.asarray(value) if kind is None else plain(value, kind, name)


def _precision(array: Array, dtype: Any) -> DType | None:
    """Return the NKI dtype to compare in; None for arrays of other numbers, compared exactly unless they are floats."""
    if dtype is not None:
        return dtype_of(dtype)
    if array.dtype == np.float64:  # a kernel's results widened by the caller
        return F32
    if array.dtype.kind in "iub" and array.dtype.itemsize == 8:
        return None
    return dtype_of(array.dtype)


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.fields else array


def _assert_equal(have: Array, want: Array, rtol: float | None, atol: float | None) -> None:
    __tracebackhide__ = True
    wide, goal = have.astype(np.float64), want.astype(np.float64)
    difference = np.abs(wide - goal)
    close = difference <= (atol or 0.0) + (rtol or 0.0) * np.abs(goal)
    if not close.all():
        index = _worst(np.where(close, -1.0, difference))
        raise AssertionError(
            f"{np.count_nonzero(~close)} of {have.size} elements differ; the worst at {_place(index)}: "
            f"actual {have[index]}, expected {want[index]}"
        )


def _worst(badness: Array) -> tuple[int, ...]:
    flat = np.where(np.isnan(badness), np.inf, badness)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(flat)), flat.shape))


def _place(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else "the only element"


_MX: Final = {FP8_E5M2: 15, FP8_E4M3FN: 8}  # the largest exponent of each element format


def quantize_mx(values: Any, dtype: Any, algorithm: Literal["nki", "ocp"] = "nki") -> tuple[Array, Array]:
    """Return elements and scale bytes of a (partitions, columns) array quantized to an MX format, in blocks of 8 x 4.

    `dtype` is that of the elements: float8_e5m2 or float8_e4m3fn. `nki` is what `nisa.quantize_mx` computes: a block's
    scale is 2 to floor(log2(largest magnitude)) less the format's largest exponent plus one, so that no element
    overflows. `ocp` is the algorithm of the OCP Microscaling specification, which does not add that one: its scales are
    half as large, and its elements, twice as large, saturate. The scale byte of a block of zeros is 0 in both.
    Scales have a row for 8 partitions and a column for 4 columns, as values and not at their places in a tile.
    """
    kind = dtype_of(dtype)
    if kind not in _MX or algorithm not in ("nki", "ocp"):
        raise ValueError(f"{kind.name}, {algorithm!r}: choose float8_e5m2 or float8_e4m3fn, and nki or ocp")
    wide = plain_array(values, "values").astype(np.float64)
    rows, columns = wide.shape
    blocks = wide.reshape(rows // 8, 8, columns // 4, 4)
    largest = np.abs(blocks).max(axis=(1, 3))
    exponent = np.frexp(largest)[1] - 1 - _MX[kind] + (algorithm == "nki")
    power = np.where(largest > 0, exponent, -127).clip(-127, 127)
    limit = kind.max_finite
    scaled = (blocks * np.ldexp(1.0, -power)[:, None, :, None]).clip(-limit, limit)
    return scaled.reshape(wide.shape).astype(np.dtype(kind.host)), (power + 127).astype(np.uint8)


def ulp(value: float, dtype: DType) -> float:
    """Return the distance between neighbours of `value` in `dtype`."""
    if not math.isfinite(value):
        return math.nan
    exponent = math.frexp(value)[1] - 1 if value else dtype.smallest_exponent
    return 2.0 ** max(exponent - dtype.mantissa_bits, dtype.smallest_exponent)


def _message(found: _Distances, kind: DType) -> str:
    close = found.close
    with np.errstate(all="ignore"):
        relative = found.difference / np.where(found.allowed > 0, found.allowed, np.finfo(np.float64).tiny)
        index = _worst(np.where(close, -1.0, relative))
    actual, expected = float(found.wide[index]), float(found.goal[index])
    bad = int(np.count_nonzero(~close))
    lines = [
        f"{bad} of {close.size} elements ({100 * bad / close.size:.3g} %) are further off than {kind.name} explains",
        f"  worst at {_place(index)}: actual {actual:.9g}, expected {expected:.9g}",
    ]
    error = abs(actual - expected)
    if math.isfinite(error):
        lines.append(
            f"  difference {error:.3g}, which is {error / ulp(expected, kind):.3g} ulp; allowed {found.atol:.3g} + "
            f"{found.rtol:.3g} * |expected| = {found.atol + found.rtol * abs(expected):.3g}"
        )
    return "\n".join(lines)


__all__ = ["GROWTH", "Comparison", "KernelWarning", "assert_close", "compare", "quantize_mx", "tolerance", "ulp"]
