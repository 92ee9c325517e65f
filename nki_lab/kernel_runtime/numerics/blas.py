"""Single-precision matrix products into place: NumPy's own BLAS where it can be called, else NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_ROW_MAJOR: Final = 101
_NO_TRANSPOSE: Final = 111
_TRANSPOSE: Final = 112
_BLOCK: Final = 1024  # rows and columns of the product of one call without BLAS: it stays in the last-level cache


def _libraries() -> list[Path]:
    """The BLAS libraries that NumPy's wheel carries."""
    return sorted((Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64*"))


@cache
def _sgemm() -> Callable[..., None] | None:
    """cblas_sgemm with 64-bit sizes from the library that NumPy's wheels carry; None where there is none."""
    for path in _libraries():
        try:
            function = ctypes.CDLL(str(path)).scipy_cblas_sgemm64_
        except (OSError, AttributeError):
            continue
        size, scalar, pointer = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
        kinds: list[Any] = [ctypes.c_int] * 3 + [size] * 3
        function.argtypes = [*kinds, scalar, pointer, size, pointer, size, scalar, pointer, size]
        function.restype = None
        return function
    return None


def _pitch(array: Array) -> int | None:
    """Elements from row to row of a matrix whose rows are dense; None for another layout."""
    rows, columns = array.strides
    if columns != array.itemsize or rows % array.itemsize or rows < array.shape[1] * array.itemsize:
        return None
    return rows // array.itemsize


def accumulate(left: Array, right: Array, out: Array, *, add: bool) -> None:
    """out = left.T @ right, or out += left.T @ right; left [K, M], right [K, N], out [M, N] float32."""
    function = _sgemm()
    pitches = (_pitch(left), _pitch(right), _pitch(out))
    if function is not None and None not in pitches and min(out.shape) > 0:
        k, m = left.shape
        n = right.shape[1]
        function(_ROW_MAJOR, _TRANSPOSE, _NO_TRANSPOSE, m, n, k, 1.0, left.ctypes.data, pitches[0], right.ctypes.data,
                 pitches[1], 1.0 if add else 0.0, out.ctypes.data, pitches[2])  # fmt: skip
        return
    for row in range(0, out.shape[0], _BLOCK):
        for column in range(0, out.shape[1], _BLOCK):
            target = out[row : row + _BLOCK, column : column + _BLOCK]
            product = left[:, row : row + _BLOCK].T @ right[:, column : column + _BLOCK]
            if add:
                np.add(target, product, out=target)
            else:
                np.copyto(target, product)


def available() -> bool:
    """Whether products accumulate in place."""
    return _sgemm() is not None


def library() -> str:
    """What multiplies matrices here, for `nki-lab doctor`."""
    config: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    blas = config.get("Build Dependencies", {}).get("blas", {})
    name = f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
    return f"{name}, {'in place' if available() else 'through NumPy'}"


def threads() -> int:
    """The threads that a product may take, 0 where the library does not say."""
    for path in _libraries():
        try:
            count = ctypes.CDLL(str(path)).scipy_openblas_get_num_threads64_
        except (OSError, AttributeError):
            continue
        count.restype = ctypes.c_int
        return int(count())
    return 0
