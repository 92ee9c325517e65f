"""Index expressions that nothing reads any more."""

from __future__ import annotations

import ast

from nki_lab.migrate.names import FUNCTIONS, Names
from nki_lab.migrate.source_edits import SourceEdits

_INDICES = ("nki.language.arange", "nki.language.mgrid")
_ROUNDS = 20


def without_dead_indices(text: str) -> str | None:
    """Return a text without the assignments of `nl.arange` and `nl.mgrid` whose names are not read.

    None where it is no Python.
    """
    for _ in range(_ROUNDS):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        edits = SourceEdits(text, tree)
        names = Names(edits)
        dead = list(_dead(edits, names))
        if not dead:
            return text
        for node in dead:
            edits.drop(node)
        text = edits.text_of(tree)
    return text


def _dead(edits: SourceEdits, names: Names) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    walking: dict[int, set[str]] = {}
    for node in ast.walk(edits.tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        owner = names.function(node) or edits.tree
        bound = {item.id for item in ast.walk(node.targets[0]) if isinstance(item, ast.Name)}
        if not isinstance(node.targets[0], ast.Name | ast.Tuple) or not bound:
            continue
        if id(owner) not in walking:
            walking[id(owner)] = _walking(owner, names)
        if bound & walking[id(owner)] and not bound & _read(owner, node):
            found.append(node)
    return found


def _read(owner: ast.AST, around: ast.stmt) -> set[str]:
    """Return the names that a function reads outside of a statement."""
    inside = {id(item) for item in ast.walk(around)}
    return {
        item.id
        for item in ast.walk(owner)
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load) and id(item) not in inside
    }


def _walking(owner: ast.AST, names: Names) -> set[str]:
    """Return the names that a function binds to index expressions, and to what is made of those alone."""
    found: set[str] = set()
    assigns = [(node, list(ast.walk(node.value))) for node in ast.walk(owner) if isinstance(node, ast.Assign)]
    for _ in range(_ROUNDS):
        before = len(found)
        for node, parts in assigns:
            index = any(isinstance(item, ast.Attribute | ast.Name) and names.dotted(item) in _INDICES for item in parts)
            index = index or any(isinstance(item, ast.Name) and item.id in found for item in parts)
            calls = [item for item in parts if isinstance(item, ast.Call)]
            if (
                index
                and all(names.dotted(item.func) in _INDICES for item in calls)
                and not isinstance(node.targets[0], ast.Subscript)
            ):
                found |= {item.id for item in ast.walk(node.targets[0]) if isinstance(item, ast.Name)}
        if len(found) == before:
            break
    return found


__all__ = ["FUNCTIONS", "without_dead_indices"]
