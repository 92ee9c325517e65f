"""Statements that are not evaluated, because whether they run is unknown: what they may change becomes unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any

from nki_lab.kernel_runtime.frontend.evaluator.values import MISSING, UNKNOWN, Frame, Namespace
from nki_lab.source.scopes import Scope, bound_names, loaded_names
from nki_lab.source.trees import FUNCTIONS

_LOOPS = (ast.For, ast.While, ast.AsyncFor)


def build_skip(body: list[ast.stmt], scope: Scope, target: ast.expr | None = None) -> Callable[[Frame], str | None]:
    """The function that passes over `body`.

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

    def run(frame: Frame) -> str | None:
        bound, read, leaves, jumps = facts()
        if frame.function is not None:
            for node in called():
                if _is_operation(frame, scope, node.func):
                    frame.m.miss(node, frame)
        frame.m.doubt([found for name in read if (found := _lookup(frame, scope, name)) is not MISSING])
        for name in bound:
            _forget(frame, scope, name)
        if leaves:
            frame.doubtful = True
        return "lost" if jumps and target is None else None

    return run


def _exits(body: list[ast.stmt]) -> tuple[bool, bool]:
    """Whether statements hold a `return`, and a jump of a loop outside them."""
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
    """Whether what is called is one of NKI's."""
    if isinstance(function, ast.Name):
        return id(_lookup(frame, scope, function.id)) in frame.m.imports.doors
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    owner = _lookup(frame, scope, function.value.id)
    return isinstance(owner, Namespace) and id(owner.names.get(function.attr)) in frame.m.imports.doors


def _lookup(frame: Frame, scope: Scope, name: str) -> Any:
    place = _frame_of(frame, scope, name)
    return (frame.home.globals if place is None else place.locals).get(name, MISSING)


def _forget(frame: Frame, scope: Scope, name: str) -> None:
    place = _frame_of(frame, scope, name)
    (frame.home.globals if place is None else place.locals)[name] = UNKNOWN


def _frame_of(frame: Frame, scope: Scope, name: str) -> Frame | None:
    hops = scope.place(name)
    if hops is None:
        return None
    place: Frame | None = frame
    for _ in range(hops):
        place = place.parent if place is not None else None
    return place
