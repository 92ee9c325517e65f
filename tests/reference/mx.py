"""Microscaling formats by their documentation: block by block, element by element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from tests.reference.grid import EPSILON, SMALLEST, Array, Operand, Result, Rounded, Stored

FORMATS: dict[str, tuple[Any, int, int]] = {
    "float8_e5m2_x4": (ml_dtypes.float8_e5m2, 15, 8),
    "float8_e4m3fn_x4": (ml_dtypes.float8_e4m3fn, 8, 8),
    "float4_e2m1fn_x4": (ml_dtypes.float4_e2m1fn, 2, 4),
}


def numbers(operand: Operand) -> Array:
    """(partitions, elements, 4) numbers of packed elements."""
    kind, _, bits = FORMATS[operand.dtype]
    packed = operand.array.reshape(operand.array.shape[0], -1).astype(np.uint64)
    parts = np.stack([(packed >> np.uint64(bits * place)) & np.uint64(2**bits - 1) for place in range(4)], axis=-1)
    return parts.astype(np.uint8).view(kind).astype(np.float64)


def row_of(partition: int) -> int:
    """The row of a scale tile for a partition: four rows at the beginning of each quadrant."""
    return partition // 32 * 32 + partition % 32 // 8


def scales(operand: Operand) -> Array:
    """Scales as numbers."""
    array = operand.array.reshape(operand.array.shape[0], -1)
    if operand.dtype == "uint8":
        return np.where(array == 255, np.nan, np.exp2(array.astype(np.float64) - 127))
    return array.astype(np.float64)


def _scaled(ins: Mapping[str, Operand], name: str) -> Array:
    values, factors = numbers(ins[name]), scales(ins[f"{name}_scale"])
    rows = [values[k] * factors[row_of(k)][:, None] for k in range(len(values))]
    return np.concatenate([row.T for row in rows])


def nc_matmul_mx(ins: Mapping[str, Operand], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    left, right = _scaled(ins, "stationary"), _scaled(ins, "moving")
    with np.errstate(all="ignore"):
        product = left.T @ right
        size = np.abs(left).T @ np.abs(right)
        dst = ins["dst"]
        former = dst.array.reshape(product.shape).astype(np.float64)
        accumulate = attrs.get("accumulate")
        assert dst.multiplied is not None
        added = dst.multiplied.reshape(product.shape) if accumulate is None else bool(accumulate)
        former = np.where(added, former, 0.0)
        slack = (len(left) + 2) * EPSILON * (size + np.abs(former)) + len(left) * SMALLEST
        return {"dst": Rounded(product + former, slack)}


def quantize_mx(ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data = ins["src"].array.astype(np.float64).reshape(ins["src"].array.shape[0], -1)
    kind, largest, _ = FORMATS[ins["dst"].dtype]
    packed = np.zeros((len(data), data.shape[1] // 4), np.uint32)
    kept = ins["dst_scale"].array.reshape(ins["dst_scale"].array.shape[0], -1).copy()
    for row in range(0, len(data), 8):
        for column in range(0, data.shape[1], 4):
            block = data[row : row + 8, column : column + 4]
            top = np.abs(block).max()
            power = -127 if top == 0 else max(int(np.floor(np.log2(top))) - (largest - 1), -127)
            quantized = (block * 2.0**-power).astype(np.float32).astype(kind).view(np.uint8).astype(np.uint32)
            packed[row : row + 8, column // 4] = quantized @ np.array([1, 2**8, 2**16, 2**24], np.uint32)
            byte = np.array(power + 127, np.uint8)
            kept[row_of(row), column // 4] = byte if kept.dtype == np.uint8 else byte.view(kept.dtype)
    return {"dst": Stored(packed), "dst_scale": Stored(kept)}


__all__ = ["nc_matmul_mx", "quantize_mx"]
