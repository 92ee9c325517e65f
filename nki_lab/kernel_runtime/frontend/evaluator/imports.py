"""What an import statement binds: our own picture of a module, or a module of the user's evaluated from its text."""

from __future__ import annotations

import ast
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator import attributes
from nki_lab.kernel_runtime.frontend.evaluator.machine import Thrown
from nki_lab.kernel_runtime.frontend.evaluator.values import MISSING, UNKNOWN, Frame, Namespace


def source(frame: Frame, level: int, name: str) -> Any:
    """The module that `from` names; UNKNOWN for one that cannot be shown."""
    if not level:
        return whole(frame, name)
    found = frame.m.shelf.relative(level, name, frame.home)
    return UNKNOWN if found is MISSING else found


def whole(frame: Frame, name: str) -> Any:
    """The module `name`."""
    m = frame.m
    found = m.imports.module(name)
    if found is not UNKNOWN:
        return found
    found = m.shelf.absolute(name, frame.home)
    if found is MISSING and m.guards and m.shelf.is_absent(name):
        raise Thrown(ModuleNotFoundError(f"No module named {name!r}"), ())  # a handler has another way
    return UNKNOWN if found is MISSING else found


def top(frame: Frame, name: str) -> Any:
    """The first of the packages in `name`, each of which has the next one."""
    parts = name.split(".")
    first = inner = whole(frame, parts[0])
    for i in range(1, len(parts)):
        found = whole(frame, ".".join(parts[: i + 1]))
        if isinstance(inner, Namespace) and inner.place and isinstance(inner.names, dict) and found is not UNKNOWN:
            inner.names[parts[i]] = found
        inner = found
    return first


def part(frame: Frame, node: ast.AST, module: Any, name: str, wanted: str) -> Any:
    """What `from module import wanted` binds; `name` is the module's full name, empty for a relative one."""
    m = frame.m
    if isinstance(module, Namespace) and module.place:
        found = module.names.get(wanted, MISSING)
        found = m.shelf.member(module, wanted) if found is MISSING else found
        return UNKNOWN if found is MISSING else found
    inner = m.imports.module(f"{name}.{wanted}") if name else UNKNOWN
    return attributes.get(m, frame, node, module, wanted) if inner is UNKNOWN else inner
