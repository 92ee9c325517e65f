"""Kernels that are handed to a function together with their arguments: `simulate(kernel, a, b)` and its kin.

Of a function that cannot be followed it is not known what it does with them. They count as a call of the kernel where
they bind to its parameters completely, and findings under such a call have to hold whatever that function does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from nki_lab.kernel_runtime.interpreter.calls import bind, call
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Launch
from nki_lab.kernel_runtime.interpreter.values import (
    UNKNOWN,
    BoundMethod,
    Instance,
    Names,
    Namespace,
    Partial,
    Value,
)
from nki_lab.kernel_runtime.issue.arguments import TensorSpec

_DEPTH: Final = 3
"""Objects and containers inside of one another that are looked into."""
_MOST: Final = 64
"""Values that are looked at."""
_GRID: Final = "grid"
"""The keyword with which launching functions take a grid, `nki_lab.run` among them."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A kernel with the arguments that were handed over with it."""

    launch: Launch
    args: tuple[Value, ...]
    kwargs: Names


def holds_array(value: Value) -> bool:
    """Return whether a value is an array of launching code, or holds one."""
    if isinstance(value, tuple | list):
        return any(holds_array(item) for item in value)
    if isinstance(value, dict):
        return any(holds_array(item) for item in value.values())
    if isinstance(value, Instance):
        return any(isinstance(item, TensorSpec) for item in value.fields.values())
    return isinstance(value, TensorSpec)


def handed(
    frame: Frame, node: ast.AST, args: list[Value], kwargs: Names, *, generators: bool = True
) -> Iterator[Handed]:
    """Yield the kernels among the arguments of a call, each with its own arguments where these bind completely.

    These are a dict with their names, a sequence, the other arguments of the call, or, with `generators`, what a
    function among the arguments returns.
    """
    found = list(_walked([*args, *kwargs.values()]))
    for value in found:
        given = _kernel(frame, value)
        if given is None:
            continue
        launch, first, named = given
        if launch.grid == ():
            launch = Launch(launch.function, _grid(kwargs), launch.schedule)
        for more, others in _candidates(frame, node, value, args, kwargs, found, generators=generators):
            positional, keywords = (*first, *more), named | others
            if _binds(launch.function, positional, keywords):
                yield Handed(launch, positional, keywords)
                break


def _grid(kwargs: Names) -> tuple[int, ...] | None:
    """Return the launch grid that a call names; None where it does not."""
    grid = kwargs.get(_GRID)
    sizes = grid if isinstance(grid, tuple | list) else (grid,)
    return tuple(sizes) if all(type(size) is int and size > 0 for size in sizes) else None


def _walked(values: Iterable[Value]) -> Iterator[Value]:
    """Yield values and those inside of them."""
    level, seen = list(values), 0
    for _ in range(_DEPTH):
        inner: list[Value] = []
        for value in level:
            seen += 1
            if seen > _MOST:
                return
            yield value
            match value:
                case Instance():
                    inner += value.fields.values()
                case list() | tuple():
                    inner += value[:_MOST]
                case dict():
                    inner += list(value.values())[:_MOST]
                case _:
                    pass
        level = inner


def _kernel(frame: Frame, value: Value) -> tuple[Launch, tuple[Value, ...], Names] | None:
    """Return the kernel that a value is, with the arguments that it has already."""
    match value:
        case Launch():
            return value, (), {}
        case Function(entry=True):
            return Launch(value), (), {}
        case Function() if value.closure.parent is None and issues(frame, value):
            return Launch(value), (), {}
        case Partial(function=function, args=args, kwargs=kwargs):
            inner = _kernel(frame, function)
            return None if inner is None else (inner[0], (*inner[1], *args), inner[2] | kwargs)
        case _:
            return None


def issues(frame: Frame, function: Function) -> bool:
    """Return whether the body of a function calls a function of NKI's itself."""
    names, known = function.closure.module.globals, frame.interpreter.imports.functions
    for owner, attribute in _called(function.node):
        value = names.get(owner)
        if not attribute:
            if id(value) in known:
                return True
        elif isinstance(value, Namespace) and value.closed and id(value.names.get(attribute)) in known:
            return True
    return False


_calls: WeakKeyDictionary[ast.AST, tuple[tuple[str, str], ...]] = WeakKeyDictionary()


def _called(function: ast.AST) -> tuple[tuple[str, str], ...]:
    """Return the names that a function calls, and attributes of names, each once."""
    found = _calls.get(function)
    if found is None:
        made: dict[tuple[str, str], None] = {}
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Name(id=name)):
                    made[name, ""] = None
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)):
                    made[name, attribute] = None
        found = _calls[function] = tuple(made)
    return found


def _candidates(
    frame: Frame,
    node: ast.AST,
    kernel: Value,
    args: list[Value],
    kwargs: Names,
    found: list[Value],
    *,
    generators: bool,
) -> Iterator[tuple[tuple[Value, ...], Names]]:
    """Yield what may be the arguments of a kernel, the most telling first."""
    for value in found:
        if (named := _named(value)) is not None:
            yield (), named
    places = [i for i, value in enumerate(args) if value is kernel]
    rest = tuple(args[places[0] + 1 :]) if places else tuple(args)
    others = {name: value for name, value in kwargs.items() if value is not kernel}
    names = {arg.arg for arg in _parameters(kernel)}
    yield rest, {name: value for name, value in others.items() if name in names}
    for value in found:
        if isinstance(value, tuple | list) and any(holds_array(item) for item in value):
            yield tuple(value), {}
    for value in found if generators else ():
        maker = value.function if isinstance(value, BoundMethod) else value
        if isinstance(maker, Function) and not maker.entry and value is not kernel and not issues(frame, maker):
            given = _assumed_arguments(maker, 1 if isinstance(value, BoundMethod) else 0)
            made = frame.interpreter.attempted(partial(call, frame, node, value, given, {}))
            if (named := _named(made)) is not None:
                yield (), named
            elif isinstance(made, tuple | list):
                yield tuple(made), {}


def _assumed_arguments(maker: Function, skipped: int) -> list[Value]:
    """Return arguments for a function that makes a kernel's: numbers, of ranks or of test cases, count from zero."""
    arguments = maker.node.args
    needed = [arg for arg in (*arguments.posonlyargs, *arguments.args)[skipped:] if arg.arg not in maker.defaults]
    return [0 if isinstance(arg.annotation, ast.Name) and arg.annotation.id == "int" else UNKNOWN for arg in needed]


def _named(value: Value) -> Names | None:
    """Return a dict of arrays and other arguments by their names; what follows a dot in a name is a remark."""
    if not isinstance(value, dict) or not value or not holds_array(value):
        return None
    return {name.partition(".")[0]: item for name, item in value.items() if isinstance(name, str)}


def _parameters(kernel: Value) -> list[ast.arg]:
    while not isinstance(kernel, Function):
        kernel = kernel.function
    arguments = kernel.node.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _binds(function: Function, args: tuple[Value, ...], kwargs: Names) -> bool:
    """Return whether the arguments are those of a call of the function, an array among them."""
    if not any(holds_array(value) for value in (*args, *kwargs.values())):
        return False
    try:
        bind(function, list(args), kwargs)
    except TypeError:
        return False
    return True
