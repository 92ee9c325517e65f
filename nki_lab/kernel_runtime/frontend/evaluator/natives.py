"""Builtins and library functions that are computed: an allow-list, each with a bound on what it costs."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.frontend.evaluator import attributes, calls, conditions, methods, objects
from nki_lab.kernel_runtime.frontend.evaluator.limits import TooLarge
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.operations import formatted, power, unwrapped
from nki_lab.kernel_runtime.frontend.evaluator.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    EnumMember,
    Frame,
    Function,
    Instance,
    NativeMethod,
    Partial,
    Special,
    Super,
    UserClass,
    has_unknown,
)

Run = Callable[[Machine, Frame, ast.AST, list[Any], dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Native:
    """A function that is computed. Unknown arguments, in containers too where `deep`, make the result unknown.

    With `reads`, so do containers whose contents are in doubt; without `own`, so do objects of the user's classes.
    """

    run: Run
    deep: bool = False
    shallow: bool = True
    reads: bool = True
    own: bool = False


NATIVES: Final[dict[int, Native]] = {}
"""By id of the function or class; all of them live as long as the process."""


def native(
    *functions: Any, deep: bool = False, shallow: bool = True, reads: bool = True, own: bool = False
) -> Callable[[Run], Run]:
    """Enter an implementation for `functions`."""

    def enter(run: Run) -> Run:
        for function in functions:
            NATIVES[id(function)] = Native(run, deep, shallow, reads, own)
        return run

    return enter


def _plainly(function: Callable[..., Any], *, walks: bool = True) -> None:
    """Enter a function that is called as it is, on known arguments whose containers are paid for."""

    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        values = [unwrapped(value) for value in args]
        if walks:
            for value in (*values, *kwargs.values()):
                m.meter.walked(value)
        return function(*values, **kwargs)

    native(function, deep=True)(run)


@native(len, own=True)
def _len(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value = args[0] if len(args) == 1 else UNKNOWN
    if isinstance(value, UserClass):
        return len(value.members) if value.members else UNKNOWN
    if isinstance(value, Instance):
        if value.cls.kind == "namedtuple":
            return len(value.fields)
        method = value.cls.find("__len__")
        if method is MISSING and value.cls.kind != "unknown":
            raise TypeError(f"object of type {value.cls.name!r} has no len()")
        return UNKNOWN if method is MISSING else calls.call(m, frame, node, method, [value], {})
    return UNKNOWN if value is UNKNOWN and args else len(*args, **kwargs)


@native(bool, own=True)
def _bool(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return conditions.truth(frame, node, args[0]) if len(args) == 1 and not kwargs else bool(*args, **kwargs)


for _function in (abs, divmod, chr, ord, float, bin, hex, complex):
    _plainly(_function, walks=False)
for _name in (
    "acos", "asin", "atan", "atan2", "ceil", "copysign", "cos", "cosh", "degrees", "dist", "erf", "erfc", "exp",
    "expm1", "fabs", "floor", "fmod", "frexp", "gamma", "gcd", "hypot", "isclose", "isfinite", "isinf", "isnan", "lcm",
    "isqrt",
    "lgamma", "log", "log10", "log1p", "log2", "modf", "pow", "radians", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    "fsum",
):  # fmt: skip
    _plainly(getattr(math, _name))


@native(print, shallow=False, reads=False, own=True)
def _print(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return None


@native(range)
def _range(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return range(*args, **kwargs)


@native(int, deep=True)
def _int(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value = int(*(unwrapped(item) for item in args), **kwargs)
    m.meter.bits(value.bit_length())
    return value


@native(str, format, deep=True, own=True)
def _str(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and isinstance(args[0], Instance | EnumMember):
        return objects.text(args[0])
    if kwargs or not args or isinstance(args[0], EnumMember | Instance):
        return UNKNOWN
    if len(args) == 1:
        return formatted(args[0], ord("s"), "", m.meter)
    return formatted(args[0], -1, args[1], m.meter) if isinstance(args[1], str) else UNKNOWN


@native(repr, deep=True, own=True)
def _repr(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args and isinstance(args[0], EnumMember):
        return objects.text(args[0], ord("r"))
    if any(isinstance(item, Instance) for item in args):
        return UNKNOWN
    return formatted(args[0], ord("r"), "", m.meter) if len(args) == 1 else repr(*args)


@native(round, deep=True)
def _round(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if any(isinstance(item, int) and abs(item) > 400 for item in (*args[1:], *kwargs.values())):
        raise TooLarge("a rounding beyond any digit")
    return round(*args, **kwargs)


@native(pow, deep=True)
def _pow(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2 and not kwargs:
        return power(args[0], args[1], m.meter)
    return pow(*args, **kwargs)


@native(math.factorial, math.comb, math.perm, deep=True)
def _counted(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return UNKNOWN  # grows beyond any bound, and no kernel needs it


@native(math.prod)
def _prod(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    items = m.meter.items(args[0]) if args else []
    if has_unknown(items):
        return UNKNOWN
    result = kwargs.get("start", 1)
    for item in items:
        if isinstance(result, int) and isinstance(item, int):
            m.meter.bits(result.bit_length() + item.bit_length())
        elif not isinstance(item, int | float | np.generic):
            return UNKNOWN
        result = result * item
    return result


def _make_container(kind: Callable[..., Any]) -> Run:
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs:
            return kind(*args, **kwargs)
        items = iterate(m, args[0])
        if items is UNKNOWN:
            return UNKNOWN
        found = m.meter.items(items)
        if kind in (set, frozenset) and has_unknown(m.meter.walked(found)):
            return UNKNOWN
        return kind(found)

    return run


for _kind in (list, tuple, set, frozenset):
    native(_kind, own=True)(_make_container(_kind))


@native(dict)
def _dict(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    parts = [item if isinstance(item, dict) else m.meter.items(item) for item in args]
    m.meter.sized(sum(len(part) for part in parts))
    for part in parts:
        m.meter.walked(part)
    return dict(*parts, **kwargs)


def iterate(m: Machine, value: Any) -> Any:
    """Something to loop over, which may be endless; UNKNOWN, or TypeError where a value cannot be iterated."""
    if value is UNKNOWN or m.is_doubtful(value):
        return UNKNOWN
    match value:
        case UserClass(kind="enum" | "intenum" | "strenum"):
            return iter(list(value.members.values()))
        case Instance(cls=UserClass(kind="namedtuple")):
            return iter(list(value.fields.values()))
        case UserClass() | Super():
            raise TypeError(f"{type(value).__name__!r} object is not iterable")
        case Instance():
            method = value.cls.find("__iter__")
            if isinstance(method, Function):
                made = calls.call_function(m, m.base, m.meter.node or method.node, method, [value], {})
                return UNKNOWN if isinstance(made, Instance) else iterate(m, made)
            if method is not MISSING or value.cls.kind == "unknown":
                return UNKNOWN
            raise TypeError(f"{value.cls.name!r} object is not iterable")
        case _:
            return iter(value)


def _make_stream(kind: Callable[..., Any], sources: int | None) -> Run:
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        streams = [iterate(m, item) for item in args[:sources]]
        if any(item is UNKNOWN for item in streams):
            return UNKNOWN
        return kind(*streams, *args[len(streams) :], **kwargs)

    return run


native(enumerate, own=True)(_make_stream(enumerate, 1))
native(zip, own=True)(_make_stream(zip, None))


@native(reversed)
def _reversed(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return reversed(*args, **kwargs)


@native(map, own=True)
def _map(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) < 2 or any(iterate(m, item) is UNKNOWN for item in args[1:]):
        return UNKNOWN
    rows = m.meter.items(zip(*(iterate(m, item) for item in args[1:]), strict=False))
    return [calls.call(m, frame, node, args[0], list(row), {}) for row in rows]


@native(filter, own=True)
def _filter(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or iterate(m, args[1]) is UNKNOWN:
        return UNKNOWN
    items = m.meter.items(iterate(m, args[1]))
    kept = [item if args[0] is None else calls.call(m, frame, node, args[0], [item], {}) for item in items]
    if has_unknown(kept):
        return UNKNOWN
    return [item for item, keep in zip(items, kept, strict=True) if keep]


@native(sorted, own=True)
def _sorted(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    items = iterate(m, args[0]) if args else UNKNOWN
    if items is UNKNOWN:
        return UNKNOWN
    values = m.meter.walked(m.meter.items(items))
    if has_unknown(values):
        return UNKNOWN
    return methods.sorted_values(m, frame, node, values, kwargs.get("key"), reverse=kwargs.get("reverse", False))


def _make_fold(function: Callable[..., Any]) -> Run:
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        source = iterate(m, args[0]) if len(args) == 1 or function is sum else iter(args)
        if source is UNKNOWN:
            return UNKNOWN
        values = [unwrapped(item) for item in m.meter.items(source)]
        m.meter.walked(values)
        if has_unknown(values):
            return UNKNOWN
        if function is sum:
            own = any(isinstance(item, list | tuple | Instance) for item in values)
            return UNKNOWN if own else sum(values, *args[1:], **kwargs)
        key = kwargs.pop("key", None)
        if key is None or not values:
            m.pin(node, frame)
            return function(values, **kwargs)
        keys = [calls.call(m, frame, node, key, [item], {}) for item in values]
        return UNKNOWN if has_unknown(keys) else values[function(range(len(keys)), key=keys.__getitem__)]

    return run


for _fold in (min, max, sum, any, all):
    native(_fold, own=True)(_make_fold(_fold))


@native(iter, own=True)
def _iter(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return iterate(m, args[0]) if len(args) == 1 else UNKNOWN


@native(next, own=True)
def _next(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) not in (1, 2) or args[0] is UNKNOWN:
        return UNKNOWN
    source = args[0]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.GeneratorExp):
        source = iterate(m, source)  # the items of a generator expression are given at once
    if source is UNKNOWN or isinstance(source, Instance):
        return UNKNOWN
    return next(source, *args[1:])


@native(issubclass, own=True)
def _issubclass(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or not all(isinstance(item, type | UserClass) for item in args):
        return UNKNOWN
    inner, outer = args
    if isinstance(inner, type) and isinstance(outer, type):
        return issubclass(inner, outer)
    known = isinstance(inner, UserClass) and inner.kind == "object"
    return outer is object or outer in inner.mro if known else UNKNOWN


@native(isinstance, own=True)
def _isinstance(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs:
        return isinstance(*args, **kwargs)
    wanted = args[1] if type(args[1]) is tuple else (args[1],)
    answers = [attributes.is_a(args[0], item) for item in wanted]
    if True in answers:
        return True
    return UNKNOWN if UNKNOWN in answers else False


@native(getattr, shallow=False, reads=False, own=True)
def _getattr(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) not in (2, 3) or kwargs or args[0] is UNKNOWN or not isinstance(args[1], str):
        return UNKNOWN
    if len(args) == 3 and attributes.has(m, frame, node, args[0], args[1]) is False:
        return args[2]
    return attributes.get(m, frame, node, args[0], args[1])


@native(hasattr, reads=False, own=True)
def _hasattr(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs or not isinstance(args[1], str):
        return UNKNOWN
    return attributes.has(m, frame, node, args[0], args[1])


@native(setattr, shallow=False, reads=False, own=True)
def _setattr(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 3 or kwargs or not isinstance(args[1], str):
        m.doubt(args)
        return UNKNOWN
    attributes.store(m, frame, node, args[0], args[1], args[2])
    return None


@native(callable, reads=False, own=True)
def _callable(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    (value,) = args
    if isinstance(value, Instance):
        return value.cls.find("__call__") is not MISSING
    own = (Function, BoundMethod, NativeMethod, Partial, UserClass, Special)
    return isinstance(value, own) or callable(value)


@native(type, reads=False, own=True)
def _type(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return UNKNOWN
    if isinstance(args[0], Instance | EnumMember):
        return args[0].cls
    kind = type(args[0])
    return kind if kind in (int, float, bool, str, tuple, list, dict, set, slice, range, type(None)) else UNKNOWN


@native(super)
def _super(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function = frame.function
    if args or function is None or function.owner is None or not isinstance(function.node, ast.FunctionDef):
        return UNKNOWN
    first = [*function.node.args.posonlyargs, *function.node.args.args][:1]
    return Super(frame.locals.get(first[0].arg, UNKNOWN), function.owner) if first else UNKNOWN


@native(slice)
def _slice(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return slice(*args)


@native(property, staticmethod, classmethod, shallow=False, own=True)
def _descriptor(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return UNKNOWN  # as decorators they are read off the tree


def _exception(kind: type[BaseException]) -> Run:
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return Raisable(kind, args)

    return run


class Raisable:
    """An exception object that the kernel made."""

    __slots__ = ("args", "kind")

    def __init__(self, kind: type[BaseException], args: list[Any]) -> None:
        self.kind = kind
        self.args = args


for _error in vars(builtins).values():
    if isinstance(_error, type) and issubclass(_error, BaseException):
        native(_error, shallow=False, reads=False, own=True)(_exception(_error))
