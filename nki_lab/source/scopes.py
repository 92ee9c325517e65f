"""The scopes that names belong to, worked out once for each function as Python's compiler does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from nki_lab.source.trees import FUNCTIONS, children_without_constants, defaults, parameters, without_constants

_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Scope:
    """The names that a module, function, class body or comprehension binds; looked for when first asked for."""

    __slots__ = ("_body", "_generator", "_globals", "_names", "_nonlocals", "compiled", "kind", "parent", "qualname")

    def __init__(
        self, kind: str, name: str, parent: Scope | None, names: Iterable[str], body: Iterable[ast.AST] = ()
    ) -> None:
        self.kind = kind  # "module", "function", "class" or "comprehension"
        self.parent = parent
        self.qualname = _qualified(name, parent)
        self._names = set(names)
        self._globals: set[str] = set()
        self._nonlocals: set[str] = set()
        self._generator = False
        self._body: Iterable[ast.AST] | None = body
        self.compiled: Callable[[Any], object] | None = None  # what the interpreter makes of the body

    @property
    def names(self) -> set[str]:
        """Return the names bound in the scope, those declared global or nonlocal included."""
        if self._body is not None:
            self._collect()
        return self._names

    @property
    def generator(self) -> bool:
        """Return whether a function's body yields or awaits."""
        if self._body is not None:
            self._collect()
        return self._generator

    def binds(self, name: str) -> bool:
        """Return whether a function or comprehension has `name` for itself."""
        return name in self.names and name not in self._nonlocals and name not in self._globals

    def place(self, name: str) -> int | None:
        """Return the number of frames out at which `name` is bound; None for a global. Class bodies pass no names
        on.
        """
        if self.kind != "module" and self.binds(name):
            return 0
        hops, scope = 0, self
        while name not in scope._globals and scope.parent is not None:
            scope, hops = scope.parent, hops + 1
            if scope.kind == "module":
                return None
            if scope.kind != "class" and scope.binds(name):
                return hops
        return None

    def reads_local(self, node: ast.expr) -> bool:
        """Return whether an expression reads a name that a function or comprehension binds."""
        return any(isinstance(item, ast.Name) and self.place(item.id) is not None for item in ast.walk(node))

    def _collect(self) -> None:
        body, self._body = self._body or (), None
        for node in inner_nodes(body):
            if type(node) not in _TELLING:
                continue
            if isinstance(node, ast.Global):
                self._globals.update(node.names)
            elif isinstance(node, ast.Nonlocal):
                self._nonlocals.update(node.names)
            elif isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
                self._generator = True
            else:
                self._names.update(bound_by(node))


_TELLING: Final = frozenset((
    ast.Name, *FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom, ast.ExceptHandler, ast.MatchAs, ast.MatchStar,
    ast.MatchMapping, ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await,
))  # fmt: skip
"""Nodes that bind names, or say something about a function; most nodes do neither."""


def _qualified(name: str, parent: Scope | None) -> str:
    if parent is None or parent.kind == "module":
        return name
    return f"{parent.qualname}.{name}" if parent.kind == "class" else f"{parent.qualname}.<locals>.{name}"


def function_scope(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str, parent: Scope) -> Scope:
    """Return the scope of a function's body."""
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    return Scope("function", name, parent, (arg.arg for arg in parameters(node.args)), body)


def comprehension_scope(node: ast.expr, generators: list[ast.comprehension], parent: Scope) -> Scope:
    """Return the scope of a comprehension's targets."""
    kinds = {"ListComp": "<listcomp>", "SetComp": "<setcomp>", "DictComp": "<dictcomp>"}
    names = {name for part in generators for name in bound_names([part.target])}
    return Scope("comprehension", kinds.get(type(node).__name__, "<genexpr>"), parent, names)


def bound_names(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that these nodes bind in their own scope."""
    return {name for node in inner_nodes(body) for name in bound_by(node)}


def bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that one node binds by itself."""
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
        return
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names):
            yield from (item.asname or item.name.partition(".")[0] for item in names)
        case ast.ImportFrom(names=names):
            yield from (item.asname or item.name for item in names if item.name != "*")
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case _:
            pass


def inner_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of one scope: nested functions, classes and comprehensions are given, not entered.

    What they evaluate outside themselves (defaults, decorators, bases, a comprehension's walrus) is entered. Constants
    are left out, and signed ones: a table has a million of them.
    """
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if type(node) in OWN_SCOPE:
            stack.extend(outer_parts(node))
        elif isinstance(node, _COMPREHENSIONS):
            stack.extend(item.target for item in ast.walk(node) if isinstance(item, ast.NamedExpr))
            stack.append(node.generators[0].iter)
        else:
            stack.extend(children_without_constants(node))


OWN_SCOPE: Final = frozenset((*FUNCTIONS, ast.ClassDef, ast.Lambda))


def outer_parts(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a function, class or lambda that Python evaluates in the scope around it."""
    match node:
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *node.keywords]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.decorator_list, *defaults(node.args)]
        case _:
            return [*defaults(node.args)] if isinstance(node, ast.Lambda) else []


def loaded_names(body: Iterable[ast.AST]) -> set[str]:
    """Return every name that these nodes read, those of nested functions included."""
    return {
        node.id for node in without_constants(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
