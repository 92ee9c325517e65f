"""The shim of `neuron_dtypes`: the dtypes of kernels in NumPy arrays, as tests of kernel libraries use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.frameworks.entries import Entries
from nki_lab.isa.dtype import DTYPES, FP4_E2M1FN_X4, FP8_E4M3FN_X4, FP8_E5M2_X4, DType, dtype_of

Array = np.ndarray[Any, Any]

_ELEMENTS: Final[Mapping[DType, type]] = {
    FP8_E5M2_X4: ml_dtypes.float8_e5m2,
    FP8_E4M3FN_X4: ml_dtypes.float8_e4m3fn,
    FP4_E2M1FN_X4: ml_dtypes.float4_e2m1fn,
}
"""The dtype of one of the four elements of a packed one."""
_NIBBLE: Final = 4  # bits of an element of float4_e2m1fn_x4


def static_cast(array: Any, dtype: Any) -> Array:
    """Return an array with its values rounded to a dtype; four neighbours become one element of a packed dtype.

    A packed array cast to another dtype gives its elements, four times as many in the last dimension. Integers of a
    packed dtype's width are taken for its bits.
    """
    given = np.asarray(array)
    source, wanted = _kind(given.dtype), _kind(dtype)
    if source is not None and source in _ELEMENTS:
        return given if source is wanted else static_cast(_unpacked(given, _ELEMENTS[source]), dtype)
    if wanted is None:
        return given.astype(np.dtype(dtype))
    if wanted not in _ELEMENTS:
        return given.astype(np.dtype(wanted.host))
    host = np.dtype(wanted.host)
    if given.dtype.kind in "iu":
        return np.ascontiguousarray(given).view(host)
    return _packed(given.astype(_ELEMENTS[wanted]), wanted).view(host)


def _kind(dtype: Any) -> DType | None:
    """Return the dtype of kernels that is meant; None for one that only NumPy has."""
    try:
        return dtype_of(dtype)
    except NkiError:
        np.dtype(dtype)  # TypeError for what is no dtype at all
        return None


def _packed(elements: Array, kind: DType) -> Array:
    if kind is not FP4_E2M1FN_X4:
        return np.ascontiguousarray(elements).view(kind.storage)
    bits = elements.view(np.uint8).astype(np.uint16).reshape(*elements.shape[:-1], -1, 4)
    return np.bitwise_or.reduce(bits << (_NIBBLE * np.arange(4, dtype=np.uint16)), axis=-1, dtype=np.uint16)


def _unpacked(array: Array, element: type) -> Array:
    words = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    if element is not ml_dtypes.float4_e2m1fn:
        return words.view(element)
    bits = (words[..., None] >> (_NIBBLE * np.arange(4, dtype=np.uint16))) & 0xF
    return bits.astype(np.uint8).view(element).reshape(*words.shape[:-1], -1)


def sizeinbytes(dtype: Any) -> int:
    """Return the bytes of an element."""
    kind = _kind(dtype)
    return np.dtype(dtype).itemsize if kind is None else kind.nbytes


def is_float_type(dtype: Any) -> bool:
    """Return whether a dtype is one of floating-point numbers."""
    kind = _kind(dtype)
    return np.dtype(dtype).kind == "f" if kind is None else kind.is_float


def finfo(dtype: Any) -> Any:
    """Return the limits of a floating-point dtype, as `ml_dtypes.finfo` gives them."""
    kind = _kind(dtype)
    return ml_dtypes.finfo(np.dtype(dtype if kind is None else kind.host))


def modules(entries: Entries) -> dict[str, dict[str, Any]]:
    """Return the names of the module."""
    functions = {function.__name__: function for function in (static_cast, sizeinbytes, is_float_type, finfo)}
    return {"neuron_dtypes": {name: kind.host for name, kind in DTYPES.items()} | functions}
