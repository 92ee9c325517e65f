"""What small helpers of the standard library mean to the evaluator: named tuples, reductions, products, copies."""

from __future__ import annotations

import ast
import itertools
import operator
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator import calls, natives
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.specials import meaning
from nki_lab.kernel_runtime.frontend.evaluator.values import (
    UNKNOWN,
    EnumMember,
    Frame,
    Instance,
    Special,
    UserClass,
    has_unknown,
)


def named_tuple(name: str, fields: list[str], defaults: dict[str, Any]) -> UserClass:
    """The class of a named tuple: a frozen record whose fields stand in a row."""
    cls = UserClass(name, (), "namedtuple", dict(defaults))
    cls.annotations = dict.fromkeys(fields, "")
    cls.dataclass = {"frozen": True}
    return cls


def row(value: Any) -> Any:
    """A named tuple as a plain one; other values as they are."""
    if type(value) is Instance and value.cls.kind == "namedtuple":
        return tuple(value.fields.values())
    return value


@meaning("collections.namedtuple")
def _namedtuple(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs.keys() - {"defaults"} or m.lacks(*args, *kwargs.values()):
        return UNKNOWN
    name, fields = args
    names = fields.replace(",", " ").split() if isinstance(fields, str) else m.meter.items(fields)
    values = list(kwargs.get("defaults") or ())
    return named_tuple(name, names, dict(zip(names[len(names) - len(values) :], values, strict=True)))


@meaning("functools.reduce")
def _reduce(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    source = natives.iterate(m, args[1]) if len(args) in (2, 3) else UNKNOWN
    if source is UNKNOWN:
        return UNKNOWN
    items = m.meter.items(source)
    if len(args) == 2 and not items:
        raise TypeError("reduce() of empty iterable with no initial value")
    found, rest = (args[2], items) if len(args) == 3 else (items[0], items[1:])
    for item in rest:
        found = calls.call(m, frame, node, args[0], [found, item], {})
    return found


@meaning("itertools.product")
def _product(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    parts = [natives.iterate(m, item) for item in args]
    repeat = kwargs.get("repeat", 1)
    if any(part is UNKNOWN for part in parts) or type(repeat) is not int or kwargs.keys() - {"repeat"}:
        return UNKNOWN
    rows = [m.meter.items(part) for part in parts] * min(max(repeat, 0), 64)
    total = 1
    for part in rows:
        total *= len(part)
    m.meter.sized(total)
    return list(itertools.product(*rows))


@meaning("itertools.chain")
def _chain(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    parts = [natives.iterate(m, item) for item in args]
    if any(part is UNKNOWN for part in parts):
        return UNKNOWN
    return [item for part in parts for item in m.meter.items(part)]


@meaning("copy.copy")
def _copy(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value = args[0] if len(args) == 1 else UNKNOWN
    if m.is_doubtful(value):
        return UNKNOWN
    if isinstance(value, list | dict | set):
        m.meter.sized(len(value))
        return value.copy()
    if type(value) is Instance and value.cls.kind in ("object", "nki", "namedtuple"):
        return Instance(value.cls, dict(value.fields))
    return value if isinstance(value, int | float | str | tuple | bool | None | EnumMember) else UNKNOWN


@meaning("os.getenv")
def _getenv(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A variable of the environment has its default: switches for debugging are not set where nothing runs."""
    given = {"default": None, **kwargs, **dict(zip(("key", "default"), args, strict=False))}
    return given["default"] if isinstance(given.get("key"), str) else UNKNOWN


@meaning("functools.wraps")
def _wraps(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return Special("wraps", lambda _m, _f, _n, given, _k: given[0] if given else UNKNOWN)


@meaning("abc.abstractmethod", "typing.override", "typing.final", "typing.runtime_checkable", "typing.no_type_check")
def _as_it_is(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else UNKNOWN


def _enter_operator(name: str) -> None:
    @meaning(f"operator.{name}")
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) != 2 or has_unknown(args) or not all(isinstance(item, int | float) for item in args):
            return UNKNOWN
        if all(isinstance(item, int) for item in args):
            m.meter.bits(sum(item.bit_length() for item in args))
        return getattr(operator, name)(*args)


for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv"):
    _enter_operator(_name)


def flags(kind: type[ast.operator], a: EnumMember, b: EnumMember) -> Any:
    """`a | b`, `a & b` and `a ^ b` of members of one flag enumeration."""
    operation = {ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor}.get(kind)
    if operation is None or a.cls is not b.cls or not isinstance(a.value, int) or not isinstance(b.value, int):
        return UNKNOWN
    value = operation(a.value, b.value)
    same = next((item for item in a.cls.members.values() if item.value == value), None)
    if same is None:
        name = "|".join(key for key, item in a.cls.members.items() if item.value and item.value & value == item.value)
        same = a.cls.members.setdefault(f"<{value}>", EnumMember(a.cls, name, value))
    return same


def replaced(m: Machine, frame: Frame, node: ast.AST, value: Instance, name: str) -> Any:
    """A method that every named tuple has; UNKNOWN for other names."""
    if name == "_fields":
        return tuple(value.fields)
    if name == "_asdict":
        return Special(name, lambda _m, _f, _n, _a, _k: dict(value.fields))
    if name == "_replace":
        return Special(name, lambda _m, _f, _n, _a, changes: Instance(value.cls, {**value.fields, **changes}))
    return UNKNOWN
