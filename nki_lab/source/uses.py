"""How the source uses values: what a statement assigns or branches on, what a function binds again. All by places.

`x[...] = nisa.f(...)` in Beta 1 makes x the instruction's destination, while `y = nisa.f(...); x[...] = y` is a copy:
y lives on, and may have another dtype. Python asks for a truth value to branch on it, or to give the operand of an
`and` or `or`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nki_lab.source.module import ModuleSource
from nki_lab.source.positions import condition_places
from nki_lab.source.scopes import bound_by, inner_nodes
from nki_lab.source.trees import Extent, FunctionNode, extent


def computes(value: ast.expr | None) -> bool:
    """Return whether an assigned expression computes its value, as against naming it: a call or an operator."""
    return isinstance(value, ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare)


def item_value(node: ast.Assign | ast.AnnAssign) -> ast.expr | None:
    """Return the expression that a statement assigns to one item, and to nothing else."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return node.value if len(targets) == 1 and isinstance(targets[0], ast.Subscript) else None


def temporaries(module: ModuleSource) -> frozenset[Extent]:
    """Return the places of the stores and in-place operators whose values the same statement computes."""
    return module.once("temporaries", lambda: frozenset(_temporaries(module.tree)))


def _temporaries(tree: ast.Module) -> Iterator[Extent]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and computes(item_value(node)):
            yield extent(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        elif isinstance(node, ast.AugAssign) and computes(node.value):
            yield extent(node)


def branches(module: ModuleSource) -> frozenset[Extent]:
    """Return the places at which Python asks for a truth value to branch on it or to invert it, and then drops it."""
    return module.once("branches", lambda: frozenset(_branches(module.tree)))


def _branches(tree: ast.Module) -> Iterator[Extent]:
    for node in ast.walk(tree):
        tests: list[ast.expr] = []
        owner: ast.AST = node
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            tests = [node.test]
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            tests = [test for part in node.generators for test in part.ifs]
        elif isinstance(node, ast.match_case):
            tests, owner = [] if node.guard is None else [node.guard], node.pattern
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield extent(node)
        for test in tests:
            yield from condition_places(test, owner)


class Binding(NamedTuple):
    """A name that a function binds: from which line and column on, and the loops around it, which bring it back."""

    name: str
    line: int
    column: int
    loops: tuple[Extent, ...]

    def reaches(self, place: Extent) -> bool:
        """Return whether the binding may have been made when a place of the function is evaluated."""
        return (self.line, self.column) <= place[:2] or any(
            loop[:2] <= place[:2] and place[2:] <= loop[2:] for loop in self.loops
        )


def bindings(function: FunctionNode) -> list[Binding]:
    """Return the names that the body of a function binds or deletes."""
    found = list(_bindings(function.body, ()))
    for node in ast.walk(function):  # a nested function may bind them at any time
        if isinstance(node, ast.Nonlocal):
            found += [Binding(name, 0, 0, ()) for name in node.names]
    return found


def _bindings(body: Sequence[ast.AST], loops: tuple[Extent, ...]) -> Iterator[Binding]:
    for node in body:
        around = loops
        if isinstance(node, ast.While):
            around = (*loops, extent(node))
        elif isinstance(node, ast.For | ast.AsyncFor):  # what it walks is evaluated once
            around = (*loops, (*extent(node.body[0])[:2], *extent(node.body[-1])[2:]))
        suites = [part for part in ast.iter_child_nodes(node) if isinstance(part, _SUITE_PARTS)]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            suites = []
        elif suites:
            yield from _bindings(suites, around)
        # A statement binds at its end, a loop what it walks; names within an expression bind where they stand.
        for part in [node] if not suites else [item for item in ast.iter_child_nodes(node) if item not in suites]:
            for inner in inner_nodes([part]):
                for name in bound_by(inner):
                    place: tuple[int, int] = extent(inner)[:2]
                    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and part is node:
                        within = [item for item in ast.walk(node) if isinstance(item, ast.NamedExpr)]
                        place = place if any(item.target is inner for item in within) else extent(node)[2:]
                    elif isinstance(node, ast.For | ast.AsyncFor) and part is node.target:
                        place = extent(node.iter)[2:]
                    yield Binding(name, *place, around)
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield Binding(node.name, *extent(node)[:2], around)


_SUITE_PARTS = ast.stmt | ast.excepthandler | ast.match_case


def changes_items(function: FunctionNode) -> bool:
    """Return whether the body of a function assigns or deletes attributes or items."""
    return any(
        isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
        for node in inner_nodes(function.body)
    )
