"""Which scope a name belongs to, worked out once for each function as Python's compiler does."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Scope:
    """The names that a module, function, class body or comprehension binds."""

    __slots__ = ("generator", "globals", "kind", "names", "nonlocals", "parent", "qualname")

    def __init__(self, kind: str, name: str, parent: Scope | None, names: Iterable[str]) -> None:
        self.kind = kind  # "module", "function", "class" or "comprehension"
        self.parent = parent
        self.names = set(names)
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.generator = False
        self.qualname = _qualified(name, parent)

    def place(self, name: str) -> int | None:
        """How many frames out `name` is bound; None for a global. Class bodies do not pass their names on."""
        if name in self.globals:
            return None
        hops, scope = 0, self
        if self.kind != "module" and name in self.names and name not in self.nonlocals:
            return 0
        while scope.parent is not None:
            scope, hops = scope.parent, hops + 1
            if scope.kind == "module" or name in scope.globals:
                return None
            if scope.kind != "class" and name in scope.names and name not in scope.nonlocals:
                return hops
        return None


def _qualified(name: str, parent: Scope | None) -> str:
    if parent is None or parent.kind == "module":
        return name
    return f"{parent.qualname}.{name}" if parent.kind == "class" else f"{parent.qualname}.<locals>.{name}"


def function_scope(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str, parent: Scope) -> Scope:
    """The scope of a function's body."""
    arguments = node.args
    params = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    params += [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
    scope = Scope("function", name, parent, (arg.arg for arg in params))
    _collect(scope, [node.body] if isinstance(node, ast.Lambda) else node.body)
    return scope


def class_scope(node: ast.ClassDef, parent: Scope) -> Scope:
    """The scope of a class body."""
    scope = Scope("class", node.name, parent, ())
    _collect(scope, node.body)
    return scope


def comprehension_scope(node: ast.expr, generators: list[ast.comprehension], parent: Scope) -> Scope:
    """The scope of a comprehension's targets."""
    kinds = {"ListComp": "<listcomp>", "SetComp": "<setcomp>", "DictComp": "<dictcomp>"}
    scope = Scope("comprehension", kinds.get(type(node).__name__, "<genexpr>"), parent, ())
    for part in generators:
        scope.names.update(bound_names([part.target]))
    return scope


def module_scope(tree: ast.Module) -> Scope:
    """The scope of a module."""
    scope = Scope("module", "<module>", None, ())
    _collect(scope, tree.body)
    return scope


def _collect(scope: Scope, body: Iterable[ast.AST]) -> None:
    for node in inner_nodes(body):
        if isinstance(node, ast.Global):
            scope.globals.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            scope.nonlocals.update(node.names)
        elif isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            scope.generator = True
        else:
            scope.names.update(_bound_by(node))


def bound_names(body: Iterable[ast.AST]) -> set[str]:
    """The names that these nodes bind in their own scope."""
    return {name for node in inner_nodes(body) for name in _bound_by(node)}


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del(), id=name):
            yield name
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
    """The nodes of one scope: nested functions, classes and comprehensions are given, not entered.

    What they evaluate outside themselves (defaults, decorators, bases, a comprehension's walrus) is entered.
    """
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, FUNCTIONS):
            stack.extend(node.decorator_list)
            stack.extend(item for item in (*node.args.defaults, *node.args.kw_defaults) if item is not None)
        elif isinstance(node, ast.ClassDef):
            stack.extend((*node.decorator_list, *node.bases, *node.keywords))
        elif isinstance(node, ast.Lambda):
            stack.extend(item for item in (*node.args.defaults, *node.args.kw_defaults) if item is not None)
        elif isinstance(node, _COMPREHENSIONS):
            stack.extend(item.target for item in ast.walk(node) if isinstance(item, ast.NamedExpr))
            stack.append(node.generators[0].iter)
        else:
            stack.extend(ast.iter_child_nodes(node))


def loaded_names(body: Iterable[ast.AST]) -> set[str]:
    """Every name that these nodes read, those of nested functions included."""
    return {
        node.id
        for item in body
        for node in ast.walk(item)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
