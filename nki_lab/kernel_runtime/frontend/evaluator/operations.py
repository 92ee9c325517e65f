"""Python's operators on known values, with bounds on what they may produce."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.frontend.evaluator.limits import Meter, TooLarge
from nki_lab.kernel_runtime.frontend.evaluator.values import EnumMember

Operation = Callable[[Any, Any, Meter], Any]

_TEXTS: Final = (str, bytes)
_SEQUENCES: Final = (list, tuple)
_WIDTH: Final = re.compile(r"\d{4,}|\*")  # a width or precision that makes a format specification a memory bomb


LARGEST_ARRAY: Final = 1 << 16
"""Elements of an array that is computed: constants of kernels are small."""


def add(a: Any, b: Any, meter: Meter) -> Any:
    """`a + b`."""
    if isinstance(a, _TEXTS) and isinstance(b, _TEXTS):
        meter.text(len(a) + len(b))
    elif isinstance(a, _SEQUENCES) and isinstance(b, _SEQUENCES):
        meter.sized(len(a) + len(b))
    elif type(a) is int and type(b) is int:
        meter.bits(max(a.bit_length(), b.bit_length()))
    return a + b


def multiply(a: Any, b: Any, meter: Meter) -> Any:
    """`a * b`."""
    if isinstance(a, int) and isinstance(b, int):
        meter.bits(a.bit_length() + b.bit_length() - 1)
    else:
        for value, count in ((a, b), (b, a)):
            if isinstance(value, _TEXTS) and isinstance(count, int):
                meter.text(len(value) * max(count, 0))
            elif isinstance(value, _SEQUENCES) and isinstance(count, int):
                meter.sized(len(value) * max(count, 0))
    return a * b


def power(a: Any, b: Any, meter: Meter) -> Any:
    """`a ** b`."""
    if isinstance(a, int) and isinstance(b, int) and b > 0:
        meter.bits((a.bit_length() - 1) * b + 1)  # the least that it can have; at most twice as many
    return a**b


def shift_left(a: Any, b: Any, meter: Meter) -> Any:
    """`a << b`."""
    if isinstance(a, int) and isinstance(b, int) and b > 0:
        meter.bits(a.bit_length() + b)
    return a << b


def modulo(a: Any, b: Any, meter: Meter) -> Any:
    """`a % b`; for a text, formatting."""
    if isinstance(a, _TEXTS):
        if _WIDTH.search(a if isinstance(a, str) else a.decode("latin-1")):
            raise TooLarge("a text of formatted width")
        meter.walked(b)
    return a % b


def union(a: Any, b: Any, meter: Meter) -> Any:
    """`a | b`; for sets and dictionaries, their union."""
    if isinstance(a, set | frozenset | dict) and isinstance(b, set | frozenset | dict):
        meter.sized(len(a) + len(b))
    return a | b


def _plain(function: Callable[[Any, Any], Any]) -> Operation:
    def apply(a: Any, b: Any, meter: Meter) -> Any:
        return function(a, b)

    return apply


BINARY: Final[dict[type[ast.operator], Operation]] = {
    ast.Add: add,
    ast.Sub: _plain(operator.sub),
    ast.Mult: multiply,
    ast.Div: _plain(operator.truediv),
    ast.FloorDiv: _plain(operator.floordiv),
    ast.Mod: modulo,
    ast.Pow: power,
    ast.LShift: shift_left,
    ast.RShift: _plain(operator.rshift),
    ast.BitAnd: _plain(operator.and_),
    ast.BitOr: union,
    ast.BitXor: _plain(operator.xor),
    ast.MatMult: _plain(operator.matmul),
}

METHODS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.MatMult: "matmul",
}  # fmt: skip

UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}

ORDER: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

ORDER_METHODS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "__eq__", ast.NotEq: "__ne__", ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__", ast.GtE: "__ge__",
}  # fmt: skip


def contains(container: Any, item: Any, meter: Meter) -> Any:
    """`item in container`; a range is asked by arithmetic only, never walked."""
    kind = type(container)
    if kind is range and type(item) is not int:
        number = getattr(item, "__index__", None)
        return number is not None and number() in container
    if kind in (list, tuple, set, frozenset, dict):
        meter.walked(container)
        meter.walked(item)
    return item in container


def unwrapped(value: Any) -> Any:
    """A member of an integer or text enumeration as its value."""
    if type(value) is EnumMember and value.cls.kind in ("intenum", "strenum"):
        return value.value
    return value


def formatted(value: Any, conversion: int, specification: str, meter: Meter) -> str:
    """`f"{value!conversion:specification}"`."""
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


def fits(*values: Any) -> bool:
    """Whether what an operator makes of small arrays is small."""
    try:
        shape = np.broadcast_shapes(*(getattr(value, "shape", ()) for value in values))
    except ValueError:
        return True  # the operator itself says so
    return math.prod(shape) <= LARGEST_ARRAY
