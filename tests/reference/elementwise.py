"""tensor_tensor, tensor_scalar, scalar_tensor_tensor and reciprocal by their documentation.

Every operator is evaluated in float32: computed in float64 and rounded to float32 once, which for the four basic
operations and the square root is the correctly rounded float32 result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.reference.grid import EPSILON, SMALLEST, Array, Operand, Result, Rounded, Stored, single, wide

BITS = frozenset({"invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"})
UNARY = frozenset({"invert", "abs", "square", "relu", "rsqrt", "reciprocal", "logical_not"})


def _truth(x: Array) -> Array:
    return np.not_equal(x, 0)


FORMULAS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
    "logical_and": lambda a, b: _truth(a) & _truth(b),
    "logical_or": lambda a, b: _truth(a) | _truth(b),
    "logical_xor": lambda a, b: _truth(a) ^ _truth(b),
    "power": np.power,
    "abs_max": lambda a, b: np.where(np.abs(a) > np.abs(b), a, b),
    "abs_min": lambda a, b: np.where(np.abs(a) < np.abs(b), a, b),
    "abs": lambda a, _: np.abs(a),
    "square": lambda a, _: a * a,
    "relu": lambda a, _: np.maximum(a, 0),
    "rsqrt": lambda a, _: 1 / np.sqrt(a),
    "reciprocal": lambda a, _: 1 / a,
    "logical_not": lambda a, _: a == 0,
}
# Not one correctly rounded operation: units of relative error that a float32 evaluation may have.
LOOSE = {"power": 16, "rsqrt": 4}


def arithmetic(op: str, a: Rounded, b: Rounded) -> Rounded:
    """One operator in float32. An inexact input may only be multiplied: nothing else bounds what its error becomes."""
    with np.errstate(all="ignore"):
        value = single(np.asarray(FORMULAS[op](a.value, b.value), np.float64))
        if op in LOOSE:
            return Rounded(value, LOOSE[op] * 2 * EPSILON * np.abs(value) + SMALLEST)
        if not np.any(a.slack) and not np.any(b.slack):
            return Rounded(value)
        assert op == "multiply"
        slack = np.abs(a.value) * b.slack + np.abs(b.value) * a.slack
        return Rounded(value, 1.01 * slack + 2 * EPSILON * np.abs(value) + SMALLEST)


def widest(*arrays: Any) -> list[Any]:
    """Unsigned integers of several widths in the widest: what bit operators on mixed widths are taken to see."""
    wide = max((a.dtype for a in arrays if a is not None), key=lambda kind: kind.itemsize)
    return [None if a is None else a.astype(wide) for a in arrays]


def cut(bits: Array, like: Array) -> Stored:
    """The low bits that fit the destination."""
    return Stored(bits.astype(f"u{like.dtype.itemsize}").view(like.dtype))


def bitwise(op: str, a: Array, b: Array) -> Array:
    """One operator on unsigned integers of one width; a shift by the width or more leaves no bit."""
    if op == "invert":
        return np.invert(a)
    if op in ("left_shift", "right_shift"):
        width = 8 * a.dtype.itemsize
        inside = b < width
        amount = np.where(inside, b, 0).astype(a.dtype)
        moved = np.left_shift(a, amount) if op == "left_shift" else np.right_shift(a, amount)
        return np.where(inside, moved, 0).astype(a.dtype)
    return {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}[op](a, b)


def _flat(operand: Operand) -> Array:
    """Partitions by elements of a partition: the shape in which operands of different free shapes meet."""
    return operand.array.reshape(operand.array.shape[0], -1)


def _unsigned(operand: Operand) -> Array:
    return _flat(operand).view(f"u{operand.array.dtype.itemsize}")


def _float(operand: Operand) -> Rounded:
    return Rounded(wide(_flat(operand), operand.dtype))


def tensor_tensor(ins: Mapping[str, Operand], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    op, dst = attrs["op"], ins["dst"]
    if op in BITS:
        a, b, _ = widest(_unsigned(ins["data1"]), _unsigned(ins["data2"]), _unsigned(dst))
        return {"dst": cut(bitwise(op, a, b), dst.array)}
    whole = all(ins[name].dtype in ("int32", "uint32") for name in ("dst", "data1", "data2"))
    in_psum = any(ins[name].space == "psum" for name in ("dst", "data1", "data2"))
    native = op not in ("power", "abs_max", "abs_min")
    if whole and native and not in_psum and attrs.get("engine", "unknown") != "vector":
        # Python's integers: exact, and cut to 32 bits.
        a, b = _flat(ins["data1"]).astype(object), _flat(ins["data2"]).astype(object)
        exact = np.asarray(FORMULAS[op](a, b)).astype(object) & 0xFFFFFFFF
        return {"dst": Stored(exact.astype(np.uint32).view(dst.array.dtype))}
    return {"dst": arithmetic(op, _float(ins["data1"]), _float(ins["data2"]))}


def _scalar(given: Any) -> Rounded:
    """A number, or a tile of one column, against the free dimension."""
    if isinstance(given, Operand):
        return _float(given)
    return Rounded(single(np.float64(given)))


def _bit_stages(ins: Mapping[str, Any], ops: list[Any]) -> Array:
    tiles = [_unsigned(other) if isinstance(other, Operand) else None for _, other, _ in ops]
    bits, *tiles, _ = widest(_unsigned(ins["data"]), *tiles, _unsigned(ins["dst"]))
    for (op, other, reverse), given in zip(ops, tiles, strict=True):
        if op is None:
            continue
        tile = given
        if tile is None:
            tile = np.array(int(other or 0) & (2 ** (8 * bits.dtype.itemsize) - 1), bits.dtype)
        sides = (bits, np.broadcast_to(tile, bits.shape))
        bits = bitwise(op, *(reversed(sides) if reverse and op != "invert" else sides))
    return bits


def tensor_scalar(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    ops = [(attrs.get("op0"), ins.get("operand0"), attrs.get("reverse0", False)),
           (attrs.get("op1"), ins.get("operand1"), attrs.get("reverse1", False))]  # fmt: skip
    if any(op in BITS for op, _, _ in ops):
        return {"dst": cut(_bit_stages(ins, ops), ins["dst"].array)}
    stage = _float(ins["data"])
    for op, other, reverse in ops:
        if op is not None:
            second = stage if op in UNARY else _scalar(other)
            first, second = (second, stage) if reverse and op not in UNARY else (stage, second)
            stage = arithmetic(op, first, second)
    return {"dst": stage}


def scalar_tensor_tensor(ins: Mapping[str, Any], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    data = _float(ins["data"])
    sides = [data, _scalar(ins["operand0"])]
    stage = arithmetic(attrs["op0"], *(reversed(sides) if attrs.get("reverse0") else sides))
    sides = [stage, _float(ins["operand1"])]
    return {"dst": arithmetic(attrs["op1"], *(reversed(sides) if attrs.get("reverse1") else sides))}


def reciprocal(ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    with np.errstate(all="ignore"):
        return {"dst": Rounded(single(1 / _float(ins["data"]).value))}
