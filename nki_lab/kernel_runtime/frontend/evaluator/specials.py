"""What decorators and helpers of NKI and the standard library mean to the evaluator; none of their code runs."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator import calls, classes
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.namespaces import ENTRIES, SPECIALS
from nki_lab.kernel_runtime.frontend.evaluator.values import (
    UNKNOWN,
    BoundMethod,
    Field,
    Frame,
    Function,
    Instance,
    Launch,
    Partial,
    Special,
    UserClass,
)

Run = Callable[[Machine, Frame, ast.AST, list[Any], dict[str, Any]], Any]


def meaning(*names: str) -> Callable[[Run], Run]:
    """Enter the meaning of some names."""

    def enter(run: Run) -> Run:
        for name in names:
            SPECIALS.setdefault(name, Special(name, run)).run = run
        return run

    return enter


@meaning(*(f"nki.{name}" for name in ENTRIES if name != "simulate_kernel"))
def _entry(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`nki.jit` and its kin: on a function, the kernel; with options only, the decorator."""
    if not args:
        return Special("kernel decorator", _entry)
    kernel = args[0]
    if isinstance(kernel, Launch):
        return kernel
    if isinstance(kernel, Function):
        return kernel if kernel.entry else Launch(kernel)
    return UNKNOWN


@meaning("nki.simulate_kernel", "nki_lab.run", "nki_lab.profile", "nki_lab.compile")
def _run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A kernel and its arguments in one call."""
    kernel = Launch(args[0]) if args and isinstance(args[0], Function) else args[0] if args else None
    if m.launched is not None and isinstance(kernel, Launch):
        own = {
            name: value
            for name, value in kwargs.items()
            if name not in ("target", "options", "on_error", "strict", "grid", "out_shape")
        }
        m.launched(kernel, args[1:], own, node, frame)
    return UNKNOWN


@meaning("dataclasses.dataclass")
def _dataclass(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args:
        return classes.decorate_dataclass(args[0], kwargs)
    return Special("dataclass", lambda _m, _f, _n, given, _k: classes.decorate_dataclass(given[0], kwargs))


@meaning("dataclasses.field")
def _field(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return Field(**kwargs)


@meaning("dataclasses.replace")
def _replace(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return classes.replace_fields(m, frame, node, args[0] if len(args) == 1 else UNKNOWN, kwargs)


@meaning("dataclasses.asdict")
def _asdict(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or not isinstance(args[0], Instance) or m.is_doubtful(args[0]):
        return UNKNOWN
    if any(isinstance(value, list | dict | tuple | Instance) for value in args[0].fields.values()):
        return UNKNOWN  # converted in depth
    return dict(args[0].fields)


@meaning("enum.auto")
def _auto(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return classes.AUTO


@meaning("enum.unique", "typing.cast", "functools.cache")
def _same(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What changes nothing here: the last argument is the value."""
    return args[-1] if args else UNKNOWN


@meaning("functools.lru_cache")
def _cached(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args and isinstance(args[0], Function | BoundMethod):
        return args[0]
    return Special("lru_cache", _same)


@meaning("functools.partial")
def _partial(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not args or args[0] is UNKNOWN:
        return UNKNOWN
    return Partial(args[0], args[1:], kwargs)


@meaning("functools.cached_property")
def _cached_property(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args and isinstance(args[0], Function):
        args[0].kind = "property"
        return args[0]
    return UNKNOWN


def decorated(m: Machine, frame: Frame, node: ast.AST, decorator: Any, value: Any) -> Any:
    """A function or class under one decorator."""
    if decorator is UNKNOWN:
        return value if m.host else UNKNOWN  # what launches a kernel does so under any decorator
    if isinstance(value, Function):
        kinds = {id(property): "property", id(staticmethod): "static", id(classmethod): "class"}
        if id(decorator) in kinds:
            value.kind = kinds[id(decorator)]
            return value
        if isinstance(decorator, Special) and (decorator.name == "kernel decorator" or decorator.name in _KERNEL):
            value.entry = True
            return value
    if isinstance(decorator, Partial) and decorator.function is SPECIALS["nki.jit"] and isinstance(value, Function):
        value.entry = True
        return value
    if isinstance(decorator, Special) and isinstance(value, Function | UserClass):
        return decorator.run(m, frame, node, [value], {})
    if isinstance(decorator, Function | BoundMethod | Partial):
        found = calls.call(m, frame, node, decorator, [value], {})
        return value if found is UNKNOWN and m.host else found
    return UNKNOWN


_KERNEL = frozenset(f"nki.{name}" for name in ENTRIES)
