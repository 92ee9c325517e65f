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
_SEQUENCES: Final = (list, tuple)
_WIDTH: Final = re.compile(r"\d{4,}|\*")  # a width or precision that makes a format specification a memory bomb


LARGEST_ARRAY: Final = 1 << 16
"""Elements of an array that is computed: constants of kernels are small."""


def _bound_sum(a: Value, b: Value, meter: Meter) -> None:
    if isinstance(a, _TEXTS) and isinstance(b, _TEXTS):
        meter.text(len(a) + len(b))
    elif isinstance(a, _SEQUENCES) and isinstance(b, _SEQUENCES):
        meter.sized(len(a) + len(b))
    elif type(a) is int and type(b) is int:
        meter.bits(max(a.bit_length(), b.bit_length()))


def _bound_product(a: Value, b: Value, meter: Meter) -> None:
    if isinstance(a, int) and isinstance(b, int):
        meter.bits(a.bit_length() + b.bit_length() - 1)
        return
    for value, count in ((a, b), (b, a)):
        if isinstance(value, _TEXTS) and isinstance(count, int):
            meter.text(len(value) * max(count, 0))
        elif isinstance(value, _SEQUENCES) and isinstance(count, int):
            meter.sized(len(value) * max(count, 0))


def _bound_power(a: Value, b: Value, meter: Meter) -> None:
    if isinstance(a, int) and isinstance(b, int) and b > 0:
        meter.bits((a.bit_length() - 1) * b + 1)  # the least that it can have; at most twice as many


def _bound_shift(a: Value, b: Value, meter: Meter) -> None:
    if isinstance(a, int) and isinstance(b, int) and b > 0:
        meter.bits(a.bit_length() + b)


def _bound_formatted(a: Value, b: Value, meter: Meter) -> None:
    if isinstance(a, _TEXTS):
        if _WIDTH.search(a if isinstance(a, str) else a.decode("latin-1")):
            raise TooLarge("a text of formatted width")
        meter.walked(b)


def _bound_union(a: Value, b: Value, meter: Meter) -> None:
    if isinstance(a, set | frozenset | dict) and isinstance(b, set | frozenset | dict):
        meter.sized(len(a) + len(b))


_BOUNDS: Final[dict[type[ast.operator], Callable[[Value, Value, Meter], None]]] = {
    ast.Add: _bound_sum, ast.Mult: _bound_product, ast.Pow: _bound_power, ast.LShift: _bound_shift,
    ast.Mod: _bound_formatted, ast.BitOr: _bound_union,
}  # fmt: skip
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
    if kind in _BOUNDS:
        _BOUNDS[kind](a, b, meter)
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


def formatted(value: Value, conversion: int, specification: str, meter: Meter) -> str:
    """Return `f"{value!conversion:specification}"`."""
    if _WIDTH.search(specification):
        raise TooLarge("a text of formatted width")
    meter.walked(value)
    if conversion == ord("r"):
        value = repr(value)
    elif conversion == ord("s"):
        value = str(value)
    elif conversion == ord("a"):
        value = ascii(value)
    text = format(value, specification)
    meter.text(len(text))
    return text


def fits(*values: Value) -> bool:
    """Return whether an operator makes a small array of small ones."""
    try:
        shape = np.broadcast_shapes(*(getattr(value, "shape", ()) for value in values))
    except ValueError:
        return True  # the operator itself says so
    return math.prod(shape) <= LARGEST_ARRAY
