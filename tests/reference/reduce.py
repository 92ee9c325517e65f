"""tensor_reduce by its documentation: a fold over trailing dimensions in float32, or over raw integers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference.elementwise import BITS, cut
from tests.reference.grid import EPSILON, SMALLEST, Array, Operand, Result, Rounded, wide


def total(data: Array, axes: tuple[int, ...]) -> Rounded:
    """A sum of float32 numbers in any order of float32 additions."""
    with np.errstate(all="ignore"):
        count = math.prod(data.shape[axis] for axis in axes)
        return Rounded(data.sum(axis=axes), count * EPSILON * np.abs(data).sum(axis=axes))


def tensor_reduce(ins: Mapping[str, Operand], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    given = attrs["axis"]
    source = ins["data"].array
    axes = tuple(axis % source.ndim for axis in (given if isinstance(given, (tuple, list)) else (given,)))
    op = attrs["op"]
    if op in BITS:
        fold = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}[op]
        flat = np.moveaxis(source.view(f"u{source.dtype.itemsize}"), axes, range(-len(axes), 0))
        kept = flat.shape[: flat.ndim - len(axes)]
        return {"dst": cut(fold.reduce(flat.reshape(*kept, -1), axis=-1), ins["dst"].array)}
    result = _fold(op, wide(source, ins["data"].dtype), axes)
    sign = -1.0 if attrs.get("negate") else 1.0
    return {"dst": Rounded(sign * result.value, result.slack)}


def _fold(op: str, data: Array, axes: tuple[int, ...]) -> Rounded:
    with np.errstate(all="ignore"):
        if op == "add":
            return total(data, axes)
        if op == "subtract":
            flat = data.reshape(*data.shape[: data.ndim - len(axes)], -1)
            rest = flat[..., 1:].sum(axis=-1)
            return Rounded(flat[..., 0] - rest, total(data, axes).slack)
        if op == "multiply":
            value = data.prod(axis=axes)
            count = math.prod(data.shape[axis] for axis in axes)
            return Rounded(value, count * (2 * EPSILON * np.abs(value) + SMALLEST))
        if op in ("maximum", "minimum"):
            return Rounded(getattr(np, op).reduce(data, axis=axes))
        truth = np.not_equal(data, 0)
        return Rounded(getattr(np, op).reduce(truth, axis=axes).astype(np.float64))
