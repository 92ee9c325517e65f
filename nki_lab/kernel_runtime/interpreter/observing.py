"""Observers of an evaluation: what the expressions of a module were worth, each time one was evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from nki_lab.kernel_runtime.interpreter.interpreter import Frame
from nki_lab.kernel_runtime.interpreter.values import Value

Observer = Callable[[ast.expr, Value, bool], None]
"""Takes an expression, its value, and whether the arguments of the run are assumed."""

_OBSERVED: Final[ContextVar[tuple[frozenset[int], Observer] | None]] = ContextVar("observed", default=None)


@contextmanager
def observed(tree: ast.AST, observer: Observer) -> Iterator[None]:
    """Hand the values of a tree's expressions to an observer, in evaluations of the tree that begin meanwhile.

    A body is compiled once for all evaluations of its tree, so that only a tree which nothing has evaluated before
    is observed in full.
    """
    nodes = frozenset(id(node) for node in ast.walk(tree) if isinstance(node, ast.expr))
    token = _OBSERVED.set((nodes, observer))
    try:
        yield
    finally:
        _OBSERVED.reset(token)


def is_watched(node: ast.AST) -> bool:
    """Return whether an observer is told the values of a tree's expressions."""
    known = _OBSERVED.get()
    return known is not None and id(node) in known[0]


def watched(node: ast.expr, run: Callable[[Frame], Value]) -> Callable[[Frame], Value]:
    """Return the function that evaluates an expression, and tells the observer of its tree where there is one."""
    known = _OBSERVED.get()
    if known is None or id(node) not in known[0]:
        return run
    observer = known[1]

    def evaluate(frame: Frame) -> Value:
        value = run(frame)
        observer(node, value, frame.interpreter.assumptions is not None)
        return value

    return evaluate
