"""Calls: the user's functions are entered, declared functions are recorded, everything else is unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from nki_lab.diagnostic import error_of
from nki_lab.kernel_runtime.frontend.evaluator import classes, methods, natives
from nki_lab.kernel_runtime.frontend.evaluator.machine import Left, Machine, budget_reached
from nki_lab.kernel_runtime.frontend.evaluator.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    Frame,
    Function,
    Instance,
    Launch,
    NativeMethod,
    Partial,
    Special,
    UserClass,
)
from nki_lab.kernel_runtime.issue import call_errors
from nki_lab.kernel_runtime.issue.launching import grid_in_kernel
from nki_lab.kernel_runtime.tensor import NkiTensor

Arguments = tuple[list[Any], dict[str, Any]]


def call(m: Machine, frame: Frame, node: ast.AST, callee: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of calling `callee`; what goes wrong is reported at `node`, and the result is then unknown."""
    kind = type(callee)
    if kind is Function:
        return call_function(m, frame, node, callee, args, kwargs)
    if kind in _OWN:
        return _OWN[kind](m, frame, node, callee, args, kwargs)
    native = natives.NATIVES.get(id(callee))
    if native is not None:
        return call_native(m, frame, node, native, args, kwargs)
    if id(callee) in m.imports.doors:
        return call_door(m, frame, node, callee, args, kwargs)
    if callee is UNKNOWN or callable(callee):
        if any(type(value) is NkiTensor for value in (*args, *kwargs.values())):
            m.miss(node, frame)
        m.doubt([*args, *kwargs.values()])
        return UNKNOWN
    return m.fault(TypeError(f"{type(callee).__name__!r} object is not callable"), node, frame)


def call_native(
    m: Machine, frame: Frame, node: ast.AST, native: natives.Native, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """Call a builtin, or an allowed function of a library."""
    values = [*args, *kwargs.values()]
    if native.deep:
        if m.lacks(*values):
            return UNKNOWN
    elif native.shallow and any(value is UNKNOWN for value in values):
        return UNKNOWN
    if native.reads and any(m.is_doubtful(value) for value in values):
        return UNKNOWN
    if not native.own and any(type(value) in _OWN for value in values):
        return UNKNOWN
    try:
        return native.run(m, frame, node, args, kwargs)
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the call
        return m.fault(error, node, frame)


def call_door(
    m: Machine, frame: Frame, node: ast.AST, door: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """Call a function of this package: what it records stands at `node`."""
    values = [*args, *kwargs.values()]
    doors = m.imports.doors
    plain = not m.doubtful and all(type(value) in _PLAIN or id(value) in doors for value in values)
    if not plain:
        if m.lacks(*values) or any(m.is_doubtful(value) for value in values):
            m.doubt(values, contents=False)
            m.miss(node, frame)
            return UNKNOWN
        if any(type(value) in _CODE for value in values):
            args = [_callback(m, frame, node, value) for value in args]
            kwargs = {name: _callback(m, frame, node, value) for name, value in kwargs.items()}
    m.meter.node = node
    m.pin(node, frame)
    m.count(node, frame)
    try:
        if not plain:
            for value in values:
                m.meter.walked(value)
        return m.located(door(*args, **kwargs), node, frame)
    except Exception as error:  # noqa: BLE001 - reported at the call
        m.doubt(values, contents=False)
        misused = call_errors.of_call(error, door)
        return m.fault(error if misused is None else error_of(misused), node, frame)


def _callback(m: Machine, frame: Frame, node: ast.AST, value: Any) -> Any:
    """A function of the user's as something that a declared function can call."""
    if type(value) not in _CODE or id(value) in m.imports.doors:
        return value

    def callback(*args: Any, **kwargs: Any) -> Any:
        result = call(m, frame, node, value, list(args), kwargs)
        m.pin(node, frame)
        callback.lost = result is UNKNOWN  # type: ignore[attr-defined]
        return None if result is UNKNOWN else result

    function = value.function if isinstance(value, BoundMethod | Launch) else value
    if isinstance(function, Function):
        callback.__name__ = function.name
        names = [arg.arg for arg in (*function.node.args.posonlyargs, *function.node.args.args)]
        at = 1 if isinstance(value, BoundMethod) else 0
        callback.parameter = names[at] if len(names) > at else ""  # type: ignore[attr-defined]
    else:
        callback.__name__ = str(getattr(value, "__name__", ""))
    return callback


def call_function(
    m: Machine, frame: Frame, node: ast.AST, function: Function, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """Enter a function of the user's."""
    if function.entry and (m.host or frame.function is None):
        if m.launched is not None:
            m.launched(Launch(function), args, kwargs, node, frame)
        return UNKNOWN
    if function.closure is not None and function.closure.home is m.home:
        m.called.add(function.qualname)
    if function.scope.generator or isinstance(function.node, ast.AsyncFunctionDef):
        m.doubt([*args, *kwargs.values()])
        return UNKNOWN
    try:
        names = bind(m, function, args, kwargs)
    except TypeError as error:
        return m.fault(error, node, frame)
    if m.depth >= m.meter.budget.calls:
        if not frame.doubtful:
            m.record(budget_reached(f"calls are followed {m.meter.budget.calls} deep"), node, frame)
        m.doubt([*args, *kwargs.values()])
        return UNKNOWN
    m.meter.spend(1)
    inner = Frame(m, function.closure, function, names)
    m.depth += 1
    m.calls.append((node, frame))
    try:
        run_body(inner, function)
    except Left:
        m.doubt([*args, *kwargs.values()])
        return UNKNOWN
    finally:
        m.depth -= 1
        m.calls.pop()
    return UNKNOWN if inner.doubtful else inner.result


def run_body(frame: Frame, function: Function) -> None:
    """Evaluate a function's body; it is prepared when the function is first entered."""
    body = function.body
    if body is None:
        from nki_lab.kernel_runtime.frontend.evaluator.statements import body_of

        body = function.body = body_of(function)
        if frame.home is frame.m.home:
            frame.m.entered.add(function.qualname)
            frame.m.called.add(function.qualname)
    body(frame)


def bind(m: Machine, function: Function, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The names of a call's frame; TypeError, in Python's words, where the arguments do not fit."""
    arguments = function.node.args
    positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
    names = dict(zip(positional, args, strict=False))
    called = f"{function.qualname}()"
    if len(args) > len(positional):
        if arguments.vararg is None:
            plural = "" if len(positional) == 1 else "s"
            verb = "was" if len(args) == 1 else "were"
            raise TypeError(
                f"{called} takes {len(positional)} positional argument{plural} but {len(args)} {verb} given"
            )
        names[arguments.vararg.arg] = tuple(args[len(positional) :])
    elif arguments.vararg is not None:
        names[arguments.vararg.arg] = ()
    keywords = {*positional[len(arguments.posonlyargs) :], *(arg.arg for arg in arguments.kwonlyargs)}
    more: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name in keywords:
            if name in names:
                raise TypeError(f"{called} got multiple values for argument {name!r}")
            names[name] = value
        elif arguments.kwarg is None:
            raise TypeError(f"{called} got an unexpected keyword argument {name!r}")
        else:
            more[name] = value
    for name, value in function.defaults.items():
        names.setdefault(name, value)
    if arguments.kwarg is not None:
        names[arguments.kwarg.arg] = more
    for group, kind in ((positional, "positional"), ([arg.arg for arg in arguments.kwonlyargs], "keyword-only")):
        missing = [name for name in group if name not in names]
        if missing:
            raise TypeError(missing_text(called, missing, kind))
    return names


def missing_text(called: str, names: list[str], kind: str) -> str:
    """Python's words for arguments that a call lacks."""
    quoted = [repr(name) for name in names]
    text = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}{',' * (len(quoted) > 2)} and {quoted[-1]}"
    return f"{called} missing {len(names)} required {kind} argument{'s' * (len(names) > 1)}: {text}"


def _special(m: Machine, frame: Frame, node: ast.AST, callee: Special, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return callee.run(m, frame, node, args, kwargs)
    except Exception as error:  # noqa: BLE001 - reported at the call
        return m.fault(error, node, frame)


def _bound(
    m: Machine, frame: Frame, node: ast.AST, callee: BoundMethod, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    return call(m, frame, node, callee.function, [callee.instance, *args], kwargs)


def _partial(m: Machine, frame: Frame, node: ast.AST, callee: Partial, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return call(m, frame, node, callee.function, [*callee.args, *args], {**callee.kwargs, **kwargs})


def _native_method(
    m: Machine, frame: Frame, node: ast.AST, callee: NativeMethod, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    return methods.call_method(m, frame, node, callee.value, callee.name, args, kwargs)


def _launch(m: Machine, frame: Frame, node: ast.AST, callee: Launch, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if m.host or frame.function is None:
        if m.launched is not None:
            m.launched(callee, args, kwargs, node, frame)
        return UNKNOWN
    if callee.grid:
        return m.fault(error_of(grid_in_kernel(callee.function.name, callee.grid)), node, frame)
    return call_function(m, frame, node, callee.function, args, kwargs)


def _instance(
    m: Machine, frame: Frame, node: ast.AST, callee: Instance, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    method = callee.cls.find("__call__")
    if method is MISSING:
        if callee.cls.kind == "unknown":
            m.doubt([callee, *args, *kwargs.values()])
            return UNKNOWN
        return m.fault(TypeError(f"{callee.cls.name!r} object is not callable"), node, frame)
    return call(m, frame, node, method, [callee, *args], kwargs)


def _class(m: Machine, frame: Frame, node: ast.AST, callee: UserClass, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return classes.instantiate(m, frame, node, callee, args, kwargs)


_OWN: Final[dict[type, Callable[..., Any]]] = {
    Special: _special,
    BoundMethod: _bound,
    Partial: _partial,
    NativeMethod: _native_method,
    Launch: _launch,
    Instance: _instance,
    UserClass: _class,
}
_PLAIN: Final = frozenset((NkiTensor, int, float, bool, str, type(None)))  # known as a whole, and nobody's container
_CODE: Final = frozenset(
    {Function, BoundMethod, Partial, NativeMethod, Launch, Special, BuiltinFunctionType, FunctionType}
)
