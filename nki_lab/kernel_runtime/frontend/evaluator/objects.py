"""Subscripts, and operators on objects of the user's classes: their own methods decide."""

from __future__ import annotations

import ast
import operator
from typing import Any, Final

from nki_lab.kernel_runtime.frontend.evaluator import calls, classes, conditions, host_arrays, libraries
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.namespaces import SPECIALS
from nki_lab.kernel_runtime.frontend.evaluator.operations import BINARY, METHODS
from nki_lab.kernel_runtime.frontend.evaluator.values import (
    MISSING,
    UNKNOWN,
    Annotation,
    EnumMember,
    Frame,
    Function,
    Instance,
    Launch,
    Special,
    UserClass,
    has_unknown,
)
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import NkiTensor


def item(m: Machine, frame: Frame, node: ast.AST, value: Any, key: Any) -> Any:
    """`value[key]`, reported at `node`."""
    kind = type(value)
    if kind is NkiTensor and not has_unknown(key):
        try:
            return m.located(value[key], node, frame)
        except Exception as error:  # noqa: BLE001 - the tensor's own refusal
            return m.fault(error, node, frame)
    if value is UNKNOWN or has_unknown(key):
        if kind is Function and value.entry:
            return Launch(value)
        return _annotation(value, key) if value is SPECIALS["nki.typing.tensor"] else UNKNOWN
    if kind is Function or kind is Launch:
        function = value.function if kind is Launch else value
        grid = key if type(key) is tuple else (key,)
        if not function.entry:
            return m.fault(TypeError("'function' object is not subscriptable"), node, frame)
        known = all(type(size) is int and 0 < size < 1 << 31 for size in grid)
        return Launch(function, grid, value.schedule if kind is Launch else ()) if known else UNKNOWN
    if kind is Instance:
        if value.cls.kind == "namedtuple":
            return item(m, frame, node, libraries.row(value), key)
        return _method(m, frame, node, value, "__getitem__", [key])
    if kind is UserClass:
        if is_enum(value) and isinstance(key, str):
            return value.members[key] if key in value.members else m.fault(KeyError(key), node, frame)
        return UNKNOWN
    if kind is Special:
        return _annotation(value, key) if value is SPECIALS["nki.typing.tensor"] else UNKNOWN
    if kind is TensorSpec:
        return host_arrays.item(value, key)
    if isinstance(value, type):
        return UNKNOWN
    if m.is_doubtful(value):
        return UNKNOWN
    try:
        if kind is dict:
            m.meter.walked(key)
        elif isinstance(key, slice) and not isinstance(value, NkiTensor) and hasattr(value, "__len__"):
            m.meter.spend(len(value) >> 6)
        return value[key]
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the subscript
        return m.fault(error, node, frame)


def _annotation(value: Any, key: Any) -> Any:
    parts = key if type(key) is tuple else (key,)
    shape = [part for part in parts if part is UNKNOWN or isinstance(part, int)]
    others = [part for part in parts if part is not UNKNOWN and not isinstance(part, int)]
    if others and type(others[0]) in (tuple, list) and not shape:
        shape, others = list(others[0]), others[1:]
    return Annotation(tuple(shape), others[0] if others else None)


def is_enum(value: Any) -> bool:
    """Whether `value` is an enumeration of the user's."""
    return isinstance(value, UserClass) and value.kind in classes.ENUMS


def _method(m: Machine, frame: Frame, node: ast.AST, value: Instance, name: str, args: list[Any]) -> Any:
    method = value.cls.find(name)
    if isinstance(method, Function):
        return calls.call_function(m, frame, node, method, [value, *args], {})
    if m.is_doubtful(value) or value.cls.kind == "unknown":
        return UNKNOWN
    what = {"__getitem__": "subscriptable", "__setitem__": "open to item assignment"}.get(name, f"fit for {name}")
    return m.fault(TypeError(f"{value.cls.name!r} object is not {what}"), node, frame)


def store_item(m: Machine, frame: Frame, node: ast.AST, value: Instance, key: Any, what: Any) -> None:
    """`value[key] = what`."""
    _method(m, frame, node, value, "__setitem__", [key, what])


def operate(m: Machine, frame: Frame, node: ast.AST, kind: type[ast.operator], a: Any, b: Any) -> Any:
    """A binary operator with an object of the user's on one side."""
    name = METHODS[kind]
    for value, other, method in ((a, b, f"__{name}__"), (b, a, f"__r{name}__")):
        found = value.cls.find(method) if isinstance(value, Instance) else MISSING
        if isinstance(found, Function):
            return calls.call_function(m, frame, node, found, [value, other], {})
        if isinstance(value, Instance) and (m.is_doubtful(value) or value.cls.kind == "unknown"):
            return UNKNOWN
    if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
        m.pin(node, frame)
        try:
            return BINARY[kind](a, b, m.meter)  # a tensor's own answer to an object that is none
        except Exception as error:  # noqa: BLE001 - reported at the operator
            return m.fault(error, node, frame)
    names = _kinds(a, b)
    return m.fault(TypeError(f"unsupported operand type(s) for {name}: {names[0]!r} and {names[1]!r}"), node, frame)


def _kinds(a: Any, b: Any) -> list[str]:
    return [value.cls.name if isinstance(value, Instance) else type(value).__name__ for value in (a, b)]


_REFLECTED: Final = {"__lt__": "__gt__", "__le__": "__ge__", "__gt__": "__lt__", "__ge__": "__le__"}


def compare(m: Machine, frame: Frame, node: ast.AST, method: str, a: Any, b: Any) -> Any:
    """A comparison with an object of the user's on one side."""
    for value, other, name in ((a, b, method), (b, a, _REFLECTED.get(method, method))):
        found = value.cls.find(name) if isinstance(value, Instance) else MISSING
        if isinstance(found, Function):
            return calls.call_function(m, frame, node, found, [value, other], {})
    if method in _REFLECTED:
        ordered = _ordered(a, b)
        if ordered is not None:
            return conditions.compare(frame, node, _ORDERS[method], *ordered)
        known = [value for value in (a, b) if isinstance(value, Instance)]
        if any(item.kind == "unknown" or item.dataclass is not None for value in known for item in value.cls.mro):
            return UNKNOWN
        if isinstance(a, NkiTensor) or isinstance(b, NkiTensor):
            m.pin(node, frame)
            return getattr(operator, method)(a, b)
        names = _kinds(a, b)
        raise TypeError(f"{method} not supported between instances of {names[0]!r} and {names[1]!r}")
    if _is_row(a) or _is_row(b):
        return conditions.compare(frame, node, ast.Eq if method == "__eq__" else ast.NotEq, *map(libraries.row, (a, b)))
    same: Any = a is b
    if isinstance(a, Instance) and isinstance(b, Instance) and a.cls is b.cls and not same:
        equal = a.cls.find("__eq__") if method == "__ne__" else MISSING
        if isinstance(equal, Function):
            same = calls.call_function(m, frame, node, equal, [a, b], {})
        elif a.cls.dataclass is not None and a.cls.dataclass.get("eq", True) is not False:
            same = _equal_fields(m, frame, node, a, b)
    return UNKNOWN if same is UNKNOWN else bool(same) is (method == "__eq__")


_ORDERS: Final[dict[str, type[ast.cmpop]]] = {"__lt__": ast.Lt, "__le__": ast.LtE, "__gt__": ast.Gt, "__ge__": ast.GtE}


def _ordered(a: Any, b: Any) -> tuple[Any, Any] | None:
    """What objects are ordered by: named tuples as they stand, dataclasses with an order by their fields."""
    if _is_row(a) or _is_row(b):
        return libraries.row(a), libraries.row(b)
    if not isinstance(a, Instance) or not isinstance(b, Instance) or a.cls is not b.cls:
        return None
    if a.cls.dataclass is None or a.cls.dataclass.get("order") is not True:
        return None
    names = list(classes.fields_of(a.cls))
    return tuple(a.fields.get(name, UNKNOWN) for name in names), tuple(b.fields.get(name, UNKNOWN) for name in names)


def _is_row(value: Any) -> bool:
    return isinstance(value, Instance) and value.cls.kind == "namedtuple"


def _equal_fields(m: Machine, frame: Frame, node: ast.AST, a: Instance, b: Instance) -> Any:
    answer: Any = True
    m.meter.spend(len(a.fields))
    for name in classes.fields_of(a.cls):
        same = conditions.compare(frame, node, ast.Eq, a.fields.get(name, UNKNOWN), b.fields.get(name, UNKNOWN))
        if same is False:
            return False
        answer = UNKNOWN if same is UNKNOWN else answer
    return answer


def member(m: Machine, frame: Frame, node: ast.AST, what: Any, container: Instance) -> Any:
    """`what in container`."""
    answer = _method(m, frame, node, container, "__contains__", [what])
    return UNKNOWN if answer is UNKNOWN else conditions.truth(frame, node, answer)


def truth(m: Machine, frame: Frame, node: ast.AST, value: Instance) -> Any:
    """Whether an object counts as true."""
    if value.cls.kind == "namedtuple":
        return bool(value.fields)
    for name in ("__bool__", "__len__"):
        found = value.cls.find(name)
        if isinstance(found, Function):
            return conditions.truth(frame, node, calls.call_function(m, frame, node, found, [value], {}))
    return UNKNOWN if value.cls.kind == "unknown" else True


def text(value: Instance | EnumMember, conversion: int = ord("s")) -> Any:
    """`str(value)`, or `repr`: known to be some text where the class leaves it to Python."""
    if isinstance(value, EnumMember):
        own = any(value.cls.find(name) is not MISSING for name in ("__str__", "__repr__", "__format__"))
        if own or value.cls.kind != "enum":
            return UNKNOWN
        return f"<{value!r}: {value.value!r}>" if conversion == ord("r") else repr(value)
    own = any(value.cls.find(name) is not MISSING for name in ("__str__", "__repr__", "__format__"))
    if own or value.cls.kind == "unknown" or any(cls.dataclass is not None for cls in value.cls.mro):
        return UNKNOWN
    return f"<{value.cls.name} object>"
