"""The numbers and the bits that arrays of any dtype hold, in dtypes that every NumPy function takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import DType
from nki_lab.isa.ops.mx import unpacked

Array = NDArray[Any]

PACKED: int = 4
"""Numbers of a packed element."""


def element_values(values: Array, dtype: DType) -> Array:
    """Return the numbers of an array of `dtype` in its shape: floats as float32, booleans as uint8, integers too.

    Packed elements become four numbers each, along the last dimension.
    """
    stored = _stored(values, dtype)
    if dtype.kind == "packed":
        numbers = unpacked(stored, dtype)
        return numbers.reshape(*stored.shape[:-1], -1) if stored.ndim else numbers
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return stored.astype(np.float32, copy=False)
    return stored.astype(np.uint8, copy=False) if dtype.kind == "bool" else stored


def element_bits(values: Array, dtype: DType) -> Array:
    """Return the bits of an array of `dtype` as unsigned integers, in the shape of `element_values`.

    Each of four packed numbers has its own: a byte, or half of one.
    """
    stored = np.ascontiguousarray(_stored(values, dtype))
    if dtype.kind != "packed":
        return stored.view(f"u{stored.dtype.itemsize}")
    width = 8 * dtype.nbytes // PACKED
    wide = stored.view(f"u{dtype.nbytes}")[..., None] >> np.arange(0, 8 * dtype.nbytes, width).astype(np.uint8)
    bits: Array = (wide & ((1 << width) - 1)).astype(np.uint8)
    return bits.reshape(*stored.shape[:-1], -1) if stored.ndim else bits


def _stored(values: Array, dtype: DType) -> Array:
    """Return the array without the field of a dtype that NumPy does not have."""
    if values.dtype.names:
        return values.view(dtype.storage)
    return values.view(np.uint8) if values.dtype.kind == "b" else values
