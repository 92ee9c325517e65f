"""Code that is not evaluated since a value is unknown: what it may have done counts as done."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from nki_lab.kernel_runtime.interpreter.compiler import LOST, Signal, names_of
from nki_lab.kernel_runtime.interpreter.host_code import is_host_code
from nki_lab.kernel_runtime.interpreter.interpreter import Frame
from nki_lab.kernel_runtime.interpreter.values import MISSING, UNKNOWN, Namespace, Unknown
from nki_lab.source.scopes import Scope, bound_names, loaded_names
from nki_lab.source.trees import FUNCTIONS, without_constants

_LOOPS = (ast.For, ast.While, ast.AsyncFor)


class Skip(Protocol):
    """Skips statements in a frame; with `reason`, which is reported at `node`."""

    def __call__(self, frame: Frame, node: ast.AST | None = None, reason: str = "") -> Signal: ...


def compile_skip(
    body: list[ast.stmt],
    scope: Scope,
    target: ast.expr | None = None,
    *,
    of_loop: bool = False,
    of_value: bool = False,
) -> Skip:
    """Return the function that skips `body`, with `of_loop` that of a loop.

    Names it binds are unknown afterwards, objects it mentions are in doubt; of code that reaches no tensor, only those
    that it may change, and nothing is reported. A `break` or `continue` in it of a loop around it gives "lost"; a
    `return` leaves the frame doubtful, unless it stands for a value (`of_value`).
    """
    parts: list[ast.AST] = [*body] if target is None else [*body, target]

    @cache
    def facts() -> tuple[list[str], list[str], bool, bool]:
        leaves, jumps = _exits(body)
        return sorted(bound_names(parts)), sorted(loaded_names(parts)), leaves and not of_value, jumps

    @cache
    def called() -> list[ast.Call]:
        return [node for item in parts for node in without_constants([item]) if isinstance(node, ast.Call)]

    def run(frame: Frame, node: ast.AST | None = None, reason: str = "") -> Signal:
        interpreter, (bound, read, leaves, jumps) = frame.interpreter, facts()
        interpreter.effects += 1
        operations = [call for call in called() if _is_operation(frame, scope, call.func)]
        left = leaves or (jumps and not of_loop)
        if operations or interpreter.host or not is_host_code(frame, scope, body, target, leaves=left):
            if node is not None:
                interpreter.report_unevaluated(reason, node, frame)
            for call in operations if frame.function is not None else ():
                interpreter.omit_operation(call, frame)
            interpreter.doubt(
                [found for name in read if (found := names_of(frame, scope, name).get(name, MISSING)) is not MISSING]
            )
        for name in bound:
            names = names_of(frame, scope, name)
            names[name] = UNKNOWN
            if names is frame.module.globals and frame.function is not None:
                interpreter.shared_changed()
        if leaves:
            frame.doubtful = True
        return LOST if jumps and target is None else None

    return run


class Lost(Protocol):
    """Gives UNKNOWN in place of the values of expressions, from number `first` on."""

    def __call__(self, frame: Frame, first: int = 0) -> Unknown: ...


def compile_lost(values: Sequence[ast.expr], scope: Scope) -> Lost:
    """Return the function that gives UNKNOWN in place of what expressions are, which may be evaluated or not.

    A tensor that one of them gives may be written through the unknown value.
    """

    @cache
    def skips() -> list[Skip]:
        return [compile_skip([ast.Return(value=value)], scope, of_value=True) for value in values]

    def run(frame: Frame, first: int = 0) -> Unknown:
        for skip in skips()[first:]:
            skip(frame)
        return UNKNOWN

    return run


def _exits(body: list[ast.stmt]) -> tuple[bool, bool]:
    """Return whether statements hold a `return`, and a jump of a loop outside them."""
    leaves = jumps = False
    stack: list[tuple[ast.AST, bool]] = [(node, False) for node in body]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.expr)):
            continue
        leaves = leaves or isinstance(node, ast.Return)
        jumps = jumps or (not inside and isinstance(node, ast.Break | ast.Continue))
        stack.extend((child, inside or isinstance(node, _LOOPS)) for child in ast.iter_child_nodes(node))
    return leaves, jumps


def _is_operation(frame: Frame, scope: Scope, function: ast.expr) -> bool:
    """Return whether a call's function is one of NKI's."""
    if isinstance(function, ast.Name):
        return id(names_of(frame, scope, function.id).get(function.id)) in frame.interpreter.imports.functions
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    owner = names_of(frame, scope, function.value.id).get(function.value.id)
    return isinstance(owner, Namespace) and id(owner.names.get(function.attr)) in frame.interpreter.imports.functions
