"""Python's operators on known values, with bounds on what they may produce."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.interpreter.limits import Meter, TooLarge
from nki_lab.kernel_runtime.interpreter.values import EnumMember, Value

_TEXTS: Final = (str, bytes)
_SIZED: Final = (str, bytes, list, tuple)
_TABLES: Final = (set, frozenset, dict)
_WIDTH: Final = re.compile(r"\d{4,}|\*")  # a width or precision that makes a format specification a memory bomb


LARGEST_ARRAY: Final = 1 << 16
"""Elements of an array that is computed: constants of kernels are small."""


def _bound(kind: type[ast.operator], a: Value, b: Value, meter: Meter) -> None:
    """Raise TooLarge where `a <operator> b` is beyond the budget."""
    if isinstance(a, int) and isinstance(b, int):
        bits = a.bit_length()
        match kind:
            case ast.Add:
                meter.bits(max(bits, b.bit_length()))
            case ast.Mult:
                meter.bits(bits + b.bit_length() - 1)
            case ast.Pow if b > 0:
                meter.bits((bits - 1) * b + 1)  # the least that it can have; at most twice as many
            case ast.LShift if b > 0:
                meter.bits(bits + b)
        return
    pay = meter.text if isinstance(a, _TEXTS) or isinstance(b, _TEXTS) else meter.sized
    match kind:
        case ast.Add if isinstance(a, _SIZED) and isinstance(b, _SIZED):
            pay(len(a) + len(b))
        case ast.Mult if isinstance(a, _SIZED) and isinstance(b, int):
            pay(len(a) * max(b, 0))
        case ast.Mult if isinstance(a, int) and isinstance(b, _SIZED):
            pay(len(b) * max(a, 0))
        case ast.Mod if isinstance(a, _TEXTS):
            if _WIDTH.search(a if isinstance(a, str) else a.decode("latin-1")):
                raise TooLarge("a text of formatted width")
            meter.walked(b)
        case ast.BitOr if isinstance(a, _TABLES) and isinstance(b, _TABLES):
            pay(len(a) + len(b))


BINARY: Final[dict[type[ast.operator], Callable[[Value, Value], Value]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}  # fmt: skip
UNARY: Final[dict[type[ast.unaryop], Callable[[Value], Value]]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
ORDER: Final[dict[type[ast.cmpop], Callable[[Value, Value], Value]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip


def apply(kind: type[ast.operator], a: Value, b: Value, meter: Meter) -> Value:
    """Return `a <operator> b`; TooLarge where the result is beyond the budget."""
    _bound(kind, a, b, meter)
    return BINARY[kind](a, b)


def contains(container: Value, item: Value, meter: Meter) -> Value:
    """Return `item in container`; a range is asked by arithmetic only, never walked."""
    kind = type(container)
    if kind is range and type(item) is not int:
        number = getattr(item, "__index__", None)
        return number is not None and number() in container
    if kind in (list, tuple, set, frozenset, dict):
        meter.walked(container)
        meter.walked(item)
    return item in container


def unwrapped(value: Value) -> Value:
    """Return a member of an integer or text enumeration as its value."""
    if type(value) is EnumMember and value.cls.kind in ("intenum", "strenum"):
        return value.value
    return value


_CONVERSIONS: Final[dict[int, Callable[[Value], Value]]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}


def formatted(value: Value, conversion: int, specification: str, meter: Meter) -> str:
    """Return `f"{value!conversion:specification}"`."""
    if _WIDTH.search(specification):
        raise TooLarge("a text of formatted width")
    meter.walked(value)
    text = format(_CONVERSIONS.get(conversion, lambda value: value)(value), specification)
    meter.text(len(text))
    return text


def fits(*values: Value) -> bool:
    """Return whether an operator makes a small array of small ones."""
    try:
        shape = np.broadcast_shapes(*(getattr(value, "shape", ()) for value in values))
    except ValueError:
        return True  # the operator itself says so
    return math.prod(shape) <= LARGEST_ARRAY
