"""nc_matmul and nc_transpose by their documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference.grid import EPSILON, Array, Operand, Result, Rounded, Stored, wide


def nc_matmul(ins: Mapping[str, Operand], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    """y[m, n] = sum over k of stationary[k, m] * moving[k, n]; free dimensions flattened, double rows both summed."""
    left, right = (_contraction(ins[name], attrs) for name in ("stationary", "moving"))
    dst = ins["dst"]
    if attrs.get("is_transpose") and attrs["generation"] >= 3:
        return {"dst": Rounded(left.T)}
    with np.errstate(all="ignore"):
        value, size = left.T @ right, np.abs(left).T @ np.abs(right)
        old = wide(dst.array, dst.dtype).reshape(value.shape)
        add = _added(attrs.get("accumulate"), dst, value.shape)
        value = value + np.where(add, old, 0)
        slack = (left.shape[0] + 2) * EPSILON * (size + np.where(add, np.abs(old), 0))
    return {"dst": Rounded(value, slack)}


def _contraction(operand: Operand, attrs: Mapping[str, Any]) -> Array:
    values = wide(operand.array, operand.dtype)
    if attrs.get("perf_mode") == "double_row":
        pairs = values.reshape(values.shape[0], 2, -1)
        return np.concatenate((pairs[:, 0], pairs[:, 1]))
    return values.reshape(values.shape[0], -1)


def _added(accumulate: bool | None, dst: Operand, shape: tuple[int, ...]) -> Array:
    """Which elements of dst the product is added to."""
    if accumulate is not None:
        return np.full(shape, accumulate)
    if dst.multiplied is None:
        return np.zeros(shape, bool)
    return dst.multiplied.reshape(shape)


def nc_transpose(ins: Mapping[str, Operand], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data, dst = ins["data"], ins["dst"]
    flat = data.array.reshape(data.array.shape[0], -1)
    engine = attrs.get("engine", "unknown")
    tensor = engine == "tensor" or (engine == "unknown" and dst.space == "psum" and data.space == "sbuf")
    if tensor and attrs["generation"] == 2 and data.dtype not in ("bool_",) and "int" not in data.dtype:
        # A real product with an identity matrix: 0 * inf is NaN, and NaN spreads along the row of the result.
        values = wide(flat, data.dtype)
        with np.errstate(all="ignore"):
            product = values.T @ np.eye(values.shape[0])
        return {"dst": Rounded(product)}
    return {"dst": Stored(flat.T)}
