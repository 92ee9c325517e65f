"""Numbers as NKI stores them: arrays of every dtype read as float64, and float64 results rounded onto a dtype's grid.

Dtypes are named by strings, as kernels name them. Everything here follows the documentation of data types and casts:
a cast goes through float32; floats round to nearest even; integers round to nearest even, then stop at the ends of
their range.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
PACKED = {"float8_e5m2_x4": "uint32", "float8_e4m3fn_x4": "uint32", "float4_e2m1fn_x4": "uint16"}
EPSILON = 2.0**-24  # half a unit in the last place of a float32 near 1
SMALLEST = 2.0**-149  # the smallest float32 above zero


class Rounded(NamedTuple):
    """A result before its cast: what the documentation's formula gives, and how far float32 arithmetic may be from it.

    `slack` 0 asks for the very value, since each step is a correctly rounded float32 operation.
    """

    value: Array
    slack: Array | float = 0.0


class Stored(NamedTuple):
    """A result as it lies in memory: moved, not computed."""

    array: Array


Result = Rounded | Stored


class Operand(NamedTuple):
    """What an instruction gets for one operand: its elements in the view's shape, its dtype and memory.

    `start` is the first partition; `multiplied` tells for each element whether a matmul has written it before.
    """

    array: Array
    dtype: str
    space: str = "sbuf"
    start: int = 0
    multiplied: Array | None = None


def host(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype that an array of this NKI dtype has; packed types and tfloat32 by their storage."""
    if dtype in PACKED:
        return np.dtype(PACKED[dtype])
    if dtype == "tfloat32":
        return np.dtype(np.float32)
    return np.dtype(getattr(ml_dtypes, dtype, None) or getattr(np, dtype))


def single(x: Array) -> Array:
    """Float64 values rounded to float32."""
    with np.errstate(all="ignore"):
        return np.asarray(x, np.float64).astype(np.float32).astype(np.float64)


def wide(array: Array, dtype: str) -> Array:
    """The float32 that each element becomes on its way into an engine, as float64."""
    if dtype in PACKED:
        raise ValueError(f"{dtype} is moved, not computed with")
    with np.errstate(all="ignore"):
        return single(array.astype(np.float64))


def narrow(x: Array, dtype: str) -> Array:
    """Float64 results cast to a dtype through float32, in the dtype's NumPy type."""
    with np.errstate(all="ignore"):
        value = np.asarray(x, np.float64).astype(np.float32)
        if dtype == "bool_":
            return value != 0
        if dtype in INTEGERS:
            limits = np.iinfo(dtype)
            whole = np.clip(np.rint(value.astype(np.float64)), limits.min, limits.max)
            return np.where(np.isnan(value), 0, whole).astype(dtype)
        if dtype == "tfloat32":
            return _tfloat32(value.astype(np.float64))
        return value.astype(host(dtype))


def _tfloat32(x: Array) -> Array:
    """Eleven significant bits with float32's exponents, its smallest ones subnormal."""
    _, exponent = np.frexp(np.where(np.isfinite(x), x, 0))
    step = np.ldexp(1.0, np.maximum(exponent - 11, -136))
    return np.where(np.isfinite(x), np.rint(x / step) * step, x).astype(np.float32)
