"""Attributes: read, written and asked for on an allow-list by type. Double-underscore names are never followed."""

from __future__ import annotations

import ast
from functools import cache
from types import ModuleType
from typing import Final

from nki_lab.diagnostic import error_of
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.interpreter import array_shapes
from nki_lab.kernel_runtime.interpreter.builtins import methods
from nki_lab.kernel_runtime.interpreter.calls import CallSite, adapted, call_function
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Launch
from nki_lab.kernel_runtime.interpreter.namespaces import TENSOR_TYPE
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    EnumMember,
    Instance,
    Names,
    Namespace,
    NativeMethod,
    Special,
    Super,
    UserClass,
    Value,
)
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.language.objects import NKIObject
from nki_lab.kernel_runtime.tensor import NkiTensor


def get(frame: Frame, node: ast.AST, value: Value, name: str) -> Value:
    """Return `value.name`; an attribute that does not exist is reported at `node`."""
    if value is UNKNOWN:
        return UNKNOWN
    if type(value) is Instance and name[0] != "_":
        return _of_instance(frame, node, value, name)
    if name.startswith("__") and name.endswith("__") and not isinstance(value, Super):
        return _special(value, name)
    match value:
        case Namespace():
            return _of_namespace(frame, node, value, name)
        case Instance():
            return _of_instance(frame, node, value, name)
        case UserClass():
            return _of_class(frame, node, value, name)
        case EnumMember():
            if name in ("name", "value"):
                return getattr(value, name)
            if name in value.fields:
                return value.fields[name]
            if value.cls.kind in ("intenum", "strenum") and value.cls.find(name) is MISSING:
                return methods.attribute(frame, node, value.value, name)
            return _bound(frame, node, value.cls.find(name), value, value.cls, name)
        case Super():
            return _of_super(value, name)
        case TensorSpec():
            return array_shapes.attribute(value, name)
        case Function(kind="property") if name in ("setter", "getter", "deleter"):
            return Special(f"property.{name}", lambda site, args, kwargs: _with_setter(value, name, args))
        case Function(entry=True) | Launch() if name == "with_schedule":
            return NativeMethod(value, name)
        case Function(entry=False) | BoundMethod() if name[0] != "_" and not frame.interpreter.is_doubtful(value):
            kind = "function" if isinstance(value, Function) else "method"
            return frame.fault(AttributeError(f"{kind!r} object has no attribute {name!r}"), node)
        case Function() | BoundMethod() | Launch():
            return UNKNOWN
        case _:
            return methods.attribute(frame, node, value, name)


def _special(value: Value, name: str) -> Value:
    """Return classes and their names for names between double underscores, and nothing else."""
    if name == "__class__" and isinstance(value, Instance | EnumMember):
        return value.cls
    if name == "__setattr__" and value is object:
        return _SET_FIELD
    if name not in ("__name__", "__qualname__"):
        return UNKNOWN
    if isinstance(value, UserClass | Function):
        return value.name
    return value.__name__ if any(value is kind for kind in _NAMED) else UNKNOWN


def _set_field(site: CallSite, args: list[Value], kwargs: Names) -> Value:
    """Carry out `object.__setattr__(instance, name, item)`, as the methods of frozen dataclasses do."""
    if len(args) == 3 and not kwargs and isinstance(args[0], Instance) and type(args[1]) is str:
        args[0].fields[args[1]] = args[2]
        return None
    return site.interpreter.doubt([*args, *kwargs.values()])


_SET_FIELD: Final = Special("object.__setattr__", _set_field)
_NAMED: Final = (int, float, bool, str, list, tuple, dict, set)


def _with_setter(value: Function, name: str, args: list[Value]) -> Value:
    if name == "setter" and len(args) == 1 and isinstance(args[0], Function):
        value.setter = args[0]
    return value


def _of_namespace(frame: Frame, node: ast.AST, value: Namespace, name: str) -> Value:
    found = value.names.get(name, MISSING)
    if found is not MISSING:
        return found
    if value.place:
        return _of_module(frame, node, value, name)
    inner = frame.interpreter.imports.module(f"{value.name}.{name}")
    if value.real is not None and name not in _names_of(value.real):
        return frame.fault(AttributeError(f"module {value.name!r} has no attribute {name!r}"), node)
    missing = frame.interpreter.imports.missing(value, name) if inner is UNKNOWN else None
    return inner if missing is None else frame.fault(error_of(missing), node)


@cache
def _names_of(module: ModuleType) -> frozenset[str]:
    return frozenset(dir(module))


def _of_module(frame: Frame, node: ast.AST, value: Namespace, name: str) -> Value:
    """Return a module inside a module of the user's that has not bound the name; there may be none."""
    inner = frame.interpreter.modules.member(value, name)
    module = frame.interpreter.modules.scopes.get(value.place)
    if inner is not MISSING:
        return inner
    if module is None or module.open_stars or {name, "__getattr__"} & module.source.scope.names:
        return UNKNOWN
    return frame.fault(AttributeError(f"module {value.name!r} has no attribute {name!r}"), node)


def _of_instance(frame: Frame, node: ast.AST, value: Instance, name: str) -> Value:
    if frame.interpreter.is_doubtful(value):
        return UNKNOWN
    if name in value.fields:
        return value.fields[name]
    if value.cls.kind == "namedtuple" and name in ("_fields", "_asdict", "_replace"):
        return _named_tuple_attribute(value, name)
    return _bound(frame, node, value.cls.find(name), value, value.cls, name)


def _named_tuple_attribute(value: Instance, name: str) -> Value:
    """Return an attribute that every named tuple has."""
    if name == "_fields":
        return tuple(value.fields)
    if name == "_asdict":
        return Special(name, lambda *_: dict(value.fields))
    return Special(name, adapted(lambda site, **changes: Instance(value.cls, {**value.fields, **changes})))


def _bound(frame: Frame, node: ast.AST, found: Value, value: Value, cls: UserClass, name: str) -> Value:
    """Return a class attribute as its object gives it."""
    if isinstance(found, Function):
        if found.kind == "property":
            return call_function(frame, node, found, [value], {})
        if found.kind == "static":
            return found
        return BoundMethod(found, cls if found.kind == "class" else value)
    if found is not MISSING:
        return found
    if cls.kind == "unknown":
        return UNKNOWN
    asked = cls.find("__getattr__")
    if isinstance(asked, Function):
        return call_function(frame, node, asked, [value, name], {})
    known = {item for kind in cls.mro for item in kind.attributes} | set(getattr(value, "fields", ()))
    error = AttributeError(f"{cls.name!r} object has no attribute {name!r}")
    error.add_note(did_you_mean(name, known))
    return frame.fault(error, node)


def _of_class(frame: Frame, node: ast.AST, value: UserClass, name: str) -> Value:
    member = value.members.get(name)
    if member is not None:
        return member
    found = value.find(name)
    if isinstance(found, Function) and found.kind == "class":
        return BoundMethod(found, value)
    if found is not MISSING:
        return found
    if value.inherits("unknown"):
        return UNKNOWN
    return frame.fault(AttributeError(f"type object {value.name!r} has no attribute {name!r}"), node)


def _of_super(value: Super, name: str) -> Value:
    cls = value.instance.cls if isinstance(value.instance, Instance | EnumMember) else value.instance
    if not isinstance(cls, UserClass):
        return UNKNOWN
    found = cls.find(name, after=value.after)
    if isinstance(found, Function) and found.kind != "static":
        return BoundMethod(found, value.instance)
    return UNKNOWN if found is MISSING else found


def has(frame: Frame, value: Value, name: str) -> Value:
    """Return whether `value` has an attribute: True, False or UNKNOWN."""
    if value is UNKNOWN or frame.interpreter.is_doubtful(value) or name.startswith("_"):
        return UNKNOWN
    match value:
        case Namespace():
            if name in value.names:
                return value.names[name] is not UNKNOWN or UNKNOWN
            return False if value.closed else UNKNOWN
        case Instance() | EnumMember():
            own = isinstance(value, Instance) and name in value.fields
            if own or value.cls.find(name) is not MISSING or name in ("name", "value"):
                return True
            return UNKNOWN if value.cls.inherits("unknown") else False
        case UserClass():
            known = name in value.members or value.find(name) is not MISSING
            return known or (UNKNOWN if value.kind == "unknown" else False)
        case Super() | Function() | BoundMethod() | Launch() | TensorSpec():
            return UNKNOWN
        case _:
            listed = hasattr(type(value), name) or name in methods.DATA.get(type(value), ())
            return listed or (methods.is_public(value) and name in dir(value))


def store(frame: Frame, node: ast.AST, value: Value, name: str, item: Value) -> None:
    """Carry out `value.name = item`."""
    match value:
        case Instance():
            method, shared = value.cls.find("__setattr__"), value.cls.find(name)
            if isinstance(method, Function):
                frame.interpreter.doubt([value])
            elif isinstance(shared, Function) and shared.kind == "property":
                if shared.setter is not None:
                    call_function(frame, node, shared.setter, [value, item], {})
                else:
                    text = f"property {shared.name!r} of {value.cls.name!r} object has no setter"
                    frame.fault(AttributeError(text), node)
            elif any(cls.dataclass is not None and cls.dataclass.get("frozen") for cls in value.cls.mro):
                frame.fault(AttributeError(f"cannot assign to field {name!r}"), node)
            else:
                value.fields[name] = item
        case UserClass():
            value.attributes[name] = item
            frame.interpreter.shared_changed()
        case Function():
            frame.interpreter.doubtful[id(value)] = value
        case EnumMember():
            value.fields[name] = item
            frame.interpreter.shared_changed()
        case Namespace() | BoundMethod() | Launch() | Super():
            frame.interpreter.doubt([value])
        case _:
            if value is not UNKNOWN and not methods.is_public(value) and not hasattr(value, "__dict__"):
                frame.fault(AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}"), node)


_OWN_MODULES: Final = frozenset((UserClass.__module__, Function.__module__))


def is_a(value: Value, cls: Value) -> Value:
    """Return whether `value` is an instance of `cls`: True, False or UNKNOWN."""
    if value is UNKNOWN or cls is UNKNOWN:
        return UNKNOWN
    kind = value.cls if isinstance(value, Instance | EnumMember) else None
    if isinstance(cls, UserClass):
        if kind is None:
            return False
        return cls in kind.mro or (UNKNOWN if kind.inherits("unknown") else False)
    if cls is TENSOR_TYPE:
        return isinstance(value, NkiTensor)
    if isinstance(cls, int | float | str | None | list | dict):
        raise TypeError("isinstance() arg 2 must be a type, a tuple of types, or a union")
    if not isinstance(cls, type):
        return UNKNOWN
    if kind is None:
        return isinstance(value, cls) if type(value).__module__ not in _OWN_MODULES else UNKNOWN
    if cls is object or (cls is NKIObject and kind.inherits("nki")):
        return True
    if isinstance(value, EnumMember) and kind.kind in ("intenum", "strenum"):
        return isinstance(value.value, cls)
    return UNKNOWN if kind.inherits("unknown") else False
