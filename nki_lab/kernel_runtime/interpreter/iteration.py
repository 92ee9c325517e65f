"""Iteration over any value: each item costs a step of whoever takes it."""

from __future__ import annotations

import ast

from nki_lab.kernel_runtime.interpreter.calls import call_function
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function
from nki_lab.kernel_runtime.interpreter.values import MISSING, UNKNOWN, Instance, Super, UserClass, Value


def iterate(frame: Frame, value: Value) -> Value:
    """Return an iterator, which may be endless; UNKNOWN, or TypeError where a value cannot be iterated."""
    if value is UNKNOWN or frame.interpreter.is_doubtful(value):
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
                made = call_function(frame.interpreter.base, frame.meter.node or method.node, method, [value], {})
                return UNKNOWN if isinstance(made, Instance) else iterate(frame, made)
            if method is not MISSING or value.cls.kind == "unknown":
                return UNKNOWN
            raise TypeError(f"{value.cls.name!r} object is not iterable")
        case _:
            return iter(value)


def iterated(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return an iterator over `value`; UNKNOWN where it cannot be known, or is none (reported at `node`)."""
    return frame.attempt(node, iterate, frame, value)


def listed(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return the items of `value` as a list, or UNKNOWN."""
    stream = iterated(frame, node, value)
    return UNKNOWN if stream is UNKNOWN else frame.attempt(node, frame.meter.items, stream)
