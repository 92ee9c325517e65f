"""tensor_copy, memset, iota and dma_copy by their documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference.grid import INTEGERS, PACKED, Operand, Result, Rounded, Stored, host, single, wide


def _cast(source: Operand, dst: Operand) -> Result:
    """Equal dtypes are moved bit by bit, others go through float32."""
    if source.dtype == dst.dtype:
        return Stored(source.array)
    return Rounded(wide(source.array, source.dtype))


def tensor_copy(ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    return {"dst": _cast(ins["src"], ins["dst"])}


def dma_copy(ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    """Element by element in row-major order of the views; skipped rows are the caller's."""
    return {"dst": _cast(ins["src"], ins["dst"])}


AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_transpose(ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    """First and last dimension swapped, bit by bit."""
    array = ins["src"].array
    return {"dst": Stored(np.ascontiguousarray(array.transpose(AXES[array.ndim])))}


def dma_compute(ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    """The sum of the sources in float32, in the order of the list."""
    terms = [wide(ins[name].array.reshape(-1), ins[name].dtype) for name in ins if name.startswith("src")]
    with np.errstate(all="ignore"):
        total = terms[0]
        for term in terms[1:]:
            total = single(total + term)
    return {"dst": Rounded(total.reshape(ins["dst"].array.shape))}


def memset(ins: Mapping[str, Operand], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    dst, value = ins["dst"], attrs["value"]
    if dst.dtype in INTEGERS or dst.dtype in PACKED:
        return {"dst": Stored(np.full(dst.array.shape, value, host(dst.dtype)))}
    return {"dst": Rounded(np.full(dst.array.shape, single(np.float64(value))))}


def iota(ins: Mapping[str, Operand], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    """offset + p * channel_multiplier + the pattern, as a 32-bit integer, cast to dst."""
    dst = ins["dst"]
    values = np.zeros(1, np.int64)
    for step, count in attrs["pattern"]:
        values = np.add.outer(values, step * np.arange(count, dtype=np.int64)).reshape(-1)
    lanes = attrs.get("channel_multiplier", 0) * np.arange(dst.array.shape[0], dtype=np.int64)
    wide_grid = attrs.get("offset", 0) + np.add.outer(lanes, values)
    grid = (wide_grid + 2**31) % 2**32 - 2**31
    if dst.dtype in INTEGERS:
        limits = np.iinfo(dst.dtype)
        return {"dst": Stored(np.clip(grid, limits.min, limits.max).astype(dst.dtype))}
    return {"dst": Rounded(single(grid))}
