"""Skipped statements, which may or may not run: the values that they may change become unknown."""

from __future__ import annotations

import ast
from functools import cache
from typing import Protocol

from nki_lab.kernel_runtime.interpreter.compiler import LOST, Signal, Statement, names_of, statement
from nki_lab.kernel_runtime.interpreter.interpreter import Frame
from nki_lab.kernel_runtime.interpreter.values import MISSING, UNKNOWN, Namespace
from nki_lab.source.scopes import Scope, bound_names, loaded_names
from nki_lab.source.trees import FUNCTIONS

_LOOPS = (ast.For, ast.While, ast.AsyncFor)


class Skip(Protocol):
    """Skips statements in a frame; with `reason`, which is reported at `node`."""

    def __call__(self, frame: Frame, node: ast.AST | None = None, reason: str = "") -> Signal: ...


def compile_skip(body: list[ast.stmt], scope: Scope, target: ast.expr | None = None) -> Skip:
    """Return the function that skips `body`.

    Names it binds are unknown afterwards, objects it mentions are in doubt. A `break` or `continue` in it of a loop
    around it gives "lost"; a `return` leaves the frame doubtful.
    """
    parts: list[ast.AST] = [*body] if target is None else [*body, target]

    @cache
    def facts() -> tuple[list[str], list[str], bool, bool]:
        return sorted(bound_names(parts)), sorted(loaded_names(parts)), *_exits(body)

    @cache
    def called() -> list[ast.Call]:
        return [node for item in parts for node in ast.walk(item) if isinstance(node, ast.Call)]

    def run(frame: Frame, node: ast.AST | None = None, reason: str = "") -> Signal:
        if node is not None:
            frame.interpreter.report_unevaluated(reason, node, frame)
        bound, read, leaves, jumps = facts()
        if frame.function is not None:
            for call in called():
                if _is_operation(frame, scope, call.func):
                    frame.interpreter.miss_operation(call, frame)
        frame.interpreter.doubt(
            [found for name in read if (found := names_of(frame, scope, name).get(name, MISSING)) is not MISSING]
        )
        for name in bound:
            names_of(frame, scope, name)[name] = UNKNOWN
        if leaves:
            frame.doubtful = True
        return LOST if jumps and target is None else None

    return run


def _exits(body: list[ast.stmt]) -> tuple[bool, bool]:
    """Return whether statements hold a `return`, and a jump of a loop outside them."""
    leaves = jumps = False
    stack: list[tuple[ast.AST, bool]] = [(node, False) for node in body]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
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


@statement(ast.stmt)
def _compile_unknown(node: ast.stmt, scope: Scope) -> Statement:
    """Skip a statement of a type that has no meaning here."""
    return compile_skip([node], scope)
