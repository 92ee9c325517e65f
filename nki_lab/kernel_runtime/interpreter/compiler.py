"""The registry of node types: each node becomes a function of a frame, made once and called for every evaluation.

Modules for statements and expressions enter their functions with the decorators; none of them needs another one for
the nodes inside its own, which it passes to `compile_expression` and `compile_block`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final, TypeVar

from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function
from nki_lab.kernel_runtime.interpreter.observing import watched
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, Names, Value
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.scopes import Scope

Expression = Callable[[Frame], Value]
Signal = str | None
"""How a block goes on after a statement: None is falling through."""
Statement = Callable[[Frame], Signal]
Store = Callable[[Frame, Value], None]

BREAK: Final = "break"
CONTINUE: Final = "continue"
RETURN: Final = "return"
LOST: Final = "lost"
"""An unknown condition may have left the loop: its later trips are not evaluated."""

_F = TypeVar("_F", bound=Callable[..., Callable[[Frame], Value]])
_COMPILERS: Final[dict[type[ast.AST], Callable[..., Callable[[Frame], Value]]]] = {}


def compiles(*kinds: type[ast.AST]) -> Callable[[_F], _F]:
    """Enter the function that compiles expressions or statements of these node types: `compile(node, scope)`."""

    def enter(compiler: _F) -> _F:
        _COMPILERS.update(dict.fromkeys(kinds, compiler))
        return compiler

    return enter


def compile_expression(node: ast.expr, scope: Scope) -> Expression:
    """Return the function that evaluates `node` in a frame of `scope`."""
    compiler = _COMPILERS.get(type(node))
    return (lambda frame: UNKNOWN) if compiler is None else watched(node, compiler(node, scope))


def compile_optional(node: ast.expr | None, scope: Scope) -> Expression:
    """Return the function that evaluates `node`, or gives None where there is none."""
    return (lambda frame: None) if node is None else compile_expression(node, scope)


def compile_block(body: list[ast.stmt], scope: Scope) -> Statement:
    """Return the function that runs statements in order. They are compiled when first run."""
    rows: list[tuple[Statement, int, ast.stmt]] = []

    def run(frame: Frame) -> Signal:
        meter = frame.meter
        if not rows:
            rows.extend([(_compile_statement(node, scope), _cost(node), node) for node in body])
        for perform, cost, node in rows:
            meter.steps += cost
            if meter.steps >= meter.look_at:
                meter.node = node
                meter.look()
            signal = perform(frame)
            if signal is not None:
                return signal
        return None

    return run


def _compile_statement(node: ast.stmt, scope: Scope) -> Statement:
    return _COMPILERS.get(type(node), _COMPILERS[ast.stmt])(node, scope)


def _cost(node: ast.stmt) -> int:
    """Return the steps of a statement: one, and more for one with a long text."""
    if isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
        return 1
    lines = (node.end_lineno or node.lineno) - node.lineno
    return 1 + lines + ((node.end_col_offset or 0) - node.col_offset) // 128 if not lines else 1 + lines


def compile_function(function: Function) -> Callable[[Frame], object]:
    """Return the function that runs a function's body in its frame and leaves the result there.

    It is compiled once for all evaluations of the module's tree.
    """
    scope = function.scope
    if scope.compiled is None:
        scope.compiled = _compile_body(function)
    return scope.compiled


def _compile_body(function: Function) -> Callable[[Frame], object]:
    node = function.node
    if not isinstance(node, ast.Lambda):
        return compile_block(node.body, function.scope)
    value = compile_expression(node.body, function.scope)

    def run(frame: Frame) -> None:
        frame.result = value(frame)

    return run


def compile_defaults(arguments: ast.arguments, scope: Scope) -> Callable[[Frame], Names]:
    """Return the function that evaluates the defaults of parameters where a function is defined."""
    positional = [*arguments.posonlyargs, *arguments.args]
    late = positional[len(positional) - len(arguments.defaults) :]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    pairs = [*zip(late, arguments.defaults, strict=True), *((arg, value) for arg, value in named if value is not None)]
    parts = [(arg.arg, compile_expression(value, scope)) for arg, value in pairs]
    return lambda frame: {name: part(frame) for name, part in parts}


def compile_binding(name: str, node: ast.stmt | ast.expr | ast.ExceptHandler, scope: Scope) -> Store:
    """Return the function that binds `name`, as `node` does; a hover shows the first value of a local there."""
    hops, key = scope.place(name), (node.lineno, node.col_offset)
    if hops is None:

        def store_global(frame: Frame, value: Value) -> None:
            frame.module.globals[name] = value
            if frame.function is not None:
                frame.interpreter.shared_changed()

        return store_global

    def store(frame: Frame, value: Value) -> None:
        place = frame_at(frame, hops)
        if place is not None:
            place.locals[name] = value
            interpreter = frame.interpreter
            first = interpreter.types.get(key)
            if first is None:
                if frame.module is interpreter.main:
                    interpreter.types[key] = (name, value)
            elif value.__class__ in _VARYING and frame.module is interpreter.main:
                interpreter.note_other(key, first[1], value)

    return store


_VARYING: Final = frozenset((NkiTensor, int, float))
"""What a hover tells all values of: those of a name in a loop, or in several calls."""


def frame_at(frame: Frame, hops: int) -> Frame | None:
    """Return the frame `hops` outside of `frame`."""
    place: Frame | None = frame
    for _ in range(hops):
        place = place.parent if place is not None else None
    return place


def names_of(frame: Frame, scope: Scope, name: str) -> Names:
    """Return the variables that `name` belongs to."""
    hops = scope.place(name)
    place = None if hops is None else frame_at(frame, hops)
    return frame.module.globals if place is None else place.locals
