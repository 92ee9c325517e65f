"""Attributes: read, written and asked for on an allow-list by type. Double-underscore names are never followed."""

from __future__ import annotations

import ast
from functools import cache
from types import ModuleType
from typing import Any, Final

from nki_lab.diagnostic import error_of
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.frontend.evaluator import calls, host, libraries, methods
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.namespaces import SPECIALS
from nki_lab.kernel_runtime.frontend.evaluator.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    EnumMember,
    Frame,
    Function,
    Instance,
    Launch,
    Namespace,
    NativeMethod,
    Special,
    Super,
    UserClass,
)
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.language.objects import NKIObject
from nki_lab.kernel_runtime.tensor import NkiTensor


def get(m: Machine, frame: Frame, node: ast.AST, value: Any, name: str) -> Any:
    """`value.name`; an attribute that does not exist is reported at `node`."""
    if value is UNKNOWN:
        return UNKNOWN
    if name.startswith("__") and name.endswith("__") and not isinstance(value, Super):
        return _special(value, name)
    match value:
        case Namespace():
            return _of_namespace(m, frame, node, value, name)
        case Instance():
            return _of_instance(m, frame, node, value, name)
        case UserClass():
            return _of_class(m, frame, node, value, name)
        case EnumMember():
            if name in ("name", "value"):
                return getattr(value, name)
            if name in value.fields:
                return value.fields[name]
            if value.cls.kind in ("intenum", "strenum") and value.cls.find(name) is MISSING:
                return methods.attribute(m, frame, node, value.value, name)
            return _bound(m, frame, node, value.cls.find(name), value, value.cls, name)
        case Super():
            return _of_super(value, name)
        case TensorSpec():
            return host.attribute(value, name)
        case Function(kind="property") if name in ("setter", "getter", "deleter"):
            return Special(f"property.{name}", lambda _m, _f, _n, args, _k: _with_setter(value, name, args))
        case Function(entry=False) | BoundMethod() if not name.startswith("_") and not m.is_doubtful(value):
            kind = "function" if isinstance(value, Function) else "method"
            return m.fault(AttributeError(f"{kind!r} object has no attribute {name!r}"), node, frame)
        case Function() | Launch() if name == "with_schedule":
            return NativeMethod(value, name)
        case Function() | BoundMethod() | Launch():
            return UNKNOWN
        case _:
            return methods.attribute(m, frame, node, value, name)


def _special(value: Any, name: str) -> Any:
    """A name between double underscores: classes and what they are called, and nothing else."""
    if name == "__class__" and isinstance(value, Instance | EnumMember):
        return value.cls
    if name in ("__name__", "__qualname__"):
        if isinstance(value, UserClass | Function):
            return value.name
        if any(value is kind for kind in _NAMED):
            return value.__name__
    return UNKNOWN


_NAMED: Final = (int, float, bool, str, list, tuple, dict, set)


def _with_setter(value: Function, name: str, args: list[Any]) -> Any:
    if name == "setter" and len(args) == 1 and isinstance(args[0], Function):
        value.setter = args[0]
    return value


def _of_namespace(m: Machine, frame: Frame, node: ast.AST, value: Namespace, name: str) -> Any:
    found = value.names.get(name, MISSING)
    if found is not MISSING:
        return found
    if value.place:
        return _of_module(m, frame, node, value, name)
    inner = m.imports.module(f"{value.name}.{name}")
    if value.real is not None and name not in _names_of(value.real):
        return m.fault(AttributeError(f"module {value.name!r} has no attribute {name!r}"), node, frame)
    if inner is not UNKNOWN or not value.closed:
        return inner
    return m.fault(error_of(m.imports.missing(value, name)), node, frame)


@cache
def _names_of(module: ModuleType) -> frozenset[str]:
    return frozenset(dir(module))


def _of_module(m: Machine, frame: Frame, node: ast.AST, value: Namespace, name: str) -> Any:
    """A name that a module of the user's has not bound: a module inside it, or none at all."""
    inner = m.shelf.member(value, name)
    if inner is not MISSING:
        return inner
    home = m.shelf.homes.get(value.place)
    if home is None or home.open_stars or {name, "__getattr__"} & home.module.scope.names:
        return UNKNOWN
    return m.fault(AttributeError(f"module {value.name!r} has no attribute {name!r}"), node, frame)


def _of_instance(m: Machine, frame: Frame, node: ast.AST, value: Instance, name: str) -> Any:
    if m.is_doubtful(value):
        return UNKNOWN
    if name in value.fields:
        return value.fields[name]
    if value.cls.kind == "namedtuple" and name in ("_fields", "_asdict", "_replace"):
        return libraries.replaced(m, frame, node, value, name)
    return _bound(m, frame, node, value.cls.find(name), value, value.cls, name)


def _bound(m: Machine, frame: Frame, node: ast.AST, found: Any, value: Any, cls: UserClass, name: str) -> Any:
    """A class attribute as its object gives it."""
    if isinstance(found, Function):
        if found.kind == "property":
            return calls.call_function(m, frame, node, found, [value], {})
        if found.kind == "static":
            return found
        return BoundMethod(found, cls if found.kind == "class" else value)
    if found is not MISSING:
        return found
    if cls.kind == "unknown":
        return UNKNOWN
    asked = cls.find("__getattr__")
    if isinstance(asked, Function):
        return calls.call_function(m, frame, node, asked, [value, name], {})
    known = {item for kind in cls.mro for item in kind.attributes} | set(getattr(value, "fields", ()))
    error = AttributeError(f"{cls.name!r} object has no attribute {name!r}")
    error.add_note(did_you_mean(name, known))
    return m.fault(error, node, frame)


def _of_class(m: Machine, frame: Frame, node: ast.AST, value: UserClass, name: str) -> Any:
    member = value.members.get(name)
    if member is not None:
        return member
    found = value.find(name)
    if isinstance(found, Function) and found.kind == "class":
        return BoundMethod(found, value)
    if found is not MISSING:
        return found
    if any(cls.kind == "unknown" for cls in value.mro):
        return UNKNOWN
    return m.fault(AttributeError(f"type object {value.name!r} has no attribute {name!r}"), node, frame)


def _of_super(value: Super, name: str) -> Any:
    cls = value.instance.cls if isinstance(value.instance, Instance | EnumMember) else value.instance
    if not isinstance(cls, UserClass):
        return UNKNOWN
    found = cls.find(name, after=value.after)
    if isinstance(found, Function) and found.kind != "static":
        return BoundMethod(found, value.instance)
    return UNKNOWN if found is MISSING else found


def has(m: Machine, frame: Frame, node: ast.AST, value: Any, name: str) -> Any:
    """Whether `value` has an attribute: True, False or UNKNOWN."""
    if value is UNKNOWN or m.is_doubtful(value) or name.startswith("_"):
        return UNKNOWN
    match value:
        case Namespace():
            if name in value.names:
                return value.names[name] is not UNKNOWN or UNKNOWN
            return False if value.closed else UNKNOWN
        case Instance() | EnumMember():
            if isinstance(value, Instance) and name in value.fields:
                return True
            if value.cls.find(name) is not MISSING or name in ("name", "value"):
                return True
            return UNKNOWN if any(cls.kind == "unknown" for cls in value.cls.mro) else False
        case UserClass():
            known = name in value.members or value.find(name) is not MISSING
            return known or (UNKNOWN if value.kind == "unknown" else False)
        case Super() | Function() | BoundMethod() | Launch() | TensorSpec():
            return UNKNOWN
        case _:
            return hasattr(type(value), name) or name in methods.DATA.get(type(value), ()) or _public(value, name)


def _public(value: Any, name: str) -> Any:
    return name in dir(value) if methods.public(value) else False


def store(m: Machine, frame: Frame, node: ast.AST, value: Any, name: str, item: Any) -> None:
    """`value.name = item`."""
    match value:
        case Instance():
            method, shared = value.cls.find("__setattr__"), value.cls.find(name)
            if isinstance(method, Function):
                m.doubt([value])
            elif isinstance(shared, Function) and shared.kind == "property":
                _set_property(m, frame, node, value, shared, item)
            elif any(cls.dataclass is not None and cls.dataclass.get("frozen") for cls in value.cls.mro):
                m.fault(AttributeError(f"cannot assign to field {name!r}"), node, frame)
            else:
                value.fields[name] = item
        case UserClass():
            value.attributes[name] = item
        case Function():
            m.doubtful[id(value)] = value
        case EnumMember():
            value.fields[name] = item
        case Namespace() | BoundMethod() | Launch() | Super():
            m.doubt([value])
        case _:
            kind = type(value)
            if value is UNKNOWN or methods.public(value) or hasattr(value, "__dict__"):
                return
            m.fault(AttributeError(f"{kind.__name__!r} object has no attribute {name!r}"), node, frame)


def _set_property(m: Machine, frame: Frame, node: ast.AST, value: Instance, shared: Function, item: Any) -> None:
    if shared.setter is not None:
        calls.call_function(m, frame, node, shared.setter, [value, item], {})
        return
    error = AttributeError(f"property {shared.name!r} of {value.cls.name!r} object has no setter")
    m.fault(error, node, frame)


def is_a(value: Any, cls: Any) -> Any:
    """Whether `value` is an instance of `cls`: True, False or UNKNOWN."""
    if value is UNKNOWN or cls is UNKNOWN:
        return UNKNOWN
    kind = value.cls if isinstance(value, Instance | EnumMember) else None
    if isinstance(cls, UserClass):
        if kind is None:
            return False
        return cls in kind.mro or (UNKNOWN if any(item.kind == "unknown" for item in kind.mro) else False)
    if cls is SPECIALS["nki.typing.tensor"]:
        return isinstance(value, NkiTensor)
    if isinstance(cls, int | float | str | None | list | dict):
        raise TypeError("isinstance() arg 2 must be a type, a tuple of types, or a union")
    if not isinstance(cls, type):
        return UNKNOWN
    if kind is None:
        return isinstance(value, cls) if type(value).__module__ != UserClass.__module__ else UNKNOWN
    if cls is object or (cls is NKIObject and any(item.kind == "nki" for item in kind.mro)):
        return True
    if isinstance(value, EnumMember) and kind.kind in ("intenum", "strenum"):
        return isinstance(value.value, cls)
    return UNKNOWN if any(item.kind == "unknown" for item in kind.mro) else False
