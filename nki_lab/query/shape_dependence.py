"""Stores that nothing reads for the shapes at hand, and that may be read for others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import FUNCTIONS, children, last_name

_CONTROL = (ast.If, ast.While, ast.For, ast.IfExp)


def depends_on_shapes(facts: SyntaxFacts, item: Diagnostic) -> bool:
    """Return whether a store of which NKI414 says that nothing reads it may be read under other shapes.

    It may where the tensor is mentioned, or the store stands, below a loop or condition that no constants decide, or
    where a slice of the tensor ends at what is no constant.
    """
    span = item.span
    if item.help.startswith("add to it"):
        return False  # a term of a sum is lost
    if span is None or span.file != facts.file:
        return True
    around = [node for node in ast.walk(facts.tree) if isinstance(node, FUNCTIONS) and _spans(node, span)]
    if not around:
        return True
    function = around[-1]  # the innermost one
    mentions = list(_mentions(function, frozenset(), decided=True))
    stored = [name for name, _, _, place in mentions if place == (span.line, span.column)]
    if not stored:
        return True
    overwritten = "writes over it" in item.message
    targets = frozenset() if overwritten else _targets(function)
    return any(
        not decided or (overwritten and not sliced)
        for name, decided, sliced, place in mentions
        if name == stored[0] and place not in targets
    )


def _spans(node: ast.AST, span: Span) -> bool:
    return getattr(node, "lineno", 0) <= span.line <= (getattr(node, "end_lineno", 0) or 0)


def _targets(function: ast.AST) -> frozenset[tuple[int, int]]:
    """Return the places of what calls write."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    given = [item.value for call in calls for item in call.keywords if item.arg == "dst"]
    return frozenset((value.lineno, value.col_offset + 1) for value in given)


def _mentions(
    node: ast.AST, known: frozenset[str], *, decided: bool
) -> Iterator[tuple[str, bool, bool, tuple[int, int]]]:
    """Yield the names that are read: whether only constants decide on that, and on their slices, and their places.

    `known` are the variables of loops over constants.
    """
    for child in children(node):
        if isinstance(child, _CONTROL):
            header = child.iter if isinstance(child, ast.For) else child.test
            constant = _is_constant(header, known)
            names = {child.target.id} if isinstance(child, ast.For) and isinstance(child.target, ast.Name) else set()
            inner = known | names if constant else known - names
            yield from _mentions(child, frozenset(inner), decided=decided and constant)
        elif isinstance(child, ast.Subscript) and isinstance(child.value, ast.Name):
            sliced = _is_constant(child.slice, known)
            yield child.value.id, decided, sliced, (child.lineno, child.col_offset + 1)
            yield from _mentions(child.slice, known, decided=decided)
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
            yield child.id, decided, True, (child.lineno, child.col_offset + 1)
        else:
            yield from _mentions(child, known, decided=decided)


def _is_constant(node: ast.AST, known: frozenset[str]) -> bool:
    """Return whether an expression consists of constants, ranges and the variables of loops over constants."""
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Call):
        ranges = last_name(node.func).endswith("range")
        return ranges and all(_is_constant(item, known) for item in (*node.args, *(kw.value for kw in node.keywords)))
    return not isinstance(node, ast.Attribute) and all(_is_constant(item, known) for item in children(node))
