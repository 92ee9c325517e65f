"""Names of the host's: modules of the standard library that cannot reach a tensor, and what binds a name in a scope."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from nki_lab.source.module import ModuleSource
from nki_lab.source.scopes import inner_nodes
from nki_lab.source.trees import parameters

HOST_MODULES: Final = frozenset({
    "argparse", "configparser", "datetime", "errno", "faulthandler", "fnmatch", "getpass", "glob", "hashlib", "io",
    "json", "locale", "logging", "os", "pathlib", "pdb", "platform", "pprint", "re", "shutil", "socket", "string",
    "sys", "tempfile", "textwrap", "time", "traceback", "uuid", "warnings",
})  # fmt: skip
"""Modules whose functions neither return their arguments, nor keep them, nor import modules of the user's."""
HOST_BUILTINS: Final = frozenset({"ascii", "breakpoint", "dir", "hash", "help", "id", "input", "open"})
"""Builtins of that kind that have no meaning in evaluated code."""
RETURNING: Final = frozenset({"get", "setdefault", "pop", "Namespace", "parse_args", "set_defaults", "fspath"})
"""Functions and methods of those modules that do hand on an argument."""
REACHING: Final = frozenset({"modules", "exc_info", "settrace", "setprofile", "last_value"})
"""Attributes of those modules through which other code is reached."""


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding of a name: to the value of an expression, what a module has, or something else (both None)."""

    value: ast.expr | None = None
    statement: ast.Import | ast.ImportFrom | None = None
    name: str = ""


@dataclass(slots=True)
class Bindings:
    """The bindings of a scope's names, in the order of the text; `shared` names are bound from other scopes too."""

    of: dict[str, list[Binding]] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)

    def find(self, name: str) -> list[Binding]:
        """Return the bindings of a name; none where not all of them are known."""
        return [] if name in self.shared else self.of.get(name, [])


def bindings_of_module(source: ModuleSource) -> Bindings:
    """Return what binds the names of a module."""
    return source.once("bindings", lambda: _bindings(source.tree.body, source.tree))


def bindings_of_function(source: ModuleSource, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Bindings:
    """Return what binds the local names of a function of a module; a parameter is something else."""

    def look() -> Bindings:
        found = _bindings([] if isinstance(node, ast.Lambda) else node.body, node)
        for item in parameters(node.args):
            found.of.setdefault(item.arg, []).append(Binding())
        return found

    return source.once(("bindings", id(node)), look)


def attribute_stores(source: ModuleSource) -> dict[str, int]:
    """Return how often the text of a module stores each attribute; every `setattr` may store any of them."""

    def look() -> dict[str, int]:
        found: dict[str, int] = {}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and (not isinstance(node.ctx, ast.Load) or node.attr == "__setattr__"):
                found[node.attr] = found.get(node.attr, 0) + 1
            elif isinstance(node, ast.Name) and node.id == "setattr":
                found["__setattr__"] = found.get("__setattr__", 0) + 1
        return found

    return source.once("attribute stores", look)


def assigned_to_attributes(source: ModuleSource, node: ast.AST) -> dict[str, list[ast.expr]]:
    """Return what assignments in a function of a module store in attributes, by the attribute."""

    def look() -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for item in ast.walk(node):
            if isinstance(item, ast.Assign):
                for target in item.targets:
                    if isinstance(target, ast.Attribute):
                        found.setdefault(target.attr, []).append(item.value)
        return found

    return source.once(("assigned to attributes", id(node)), look)


def _bindings(body: Iterable[ast.AST], around: ast.AST) -> Bindings:
    found = Bindings()
    for node in ast.walk(around):
        if isinstance(node, ast.Global | ast.Nonlocal):
            found.shared.update(node.names)

    def enter(target: ast.expr, value: ast.expr | None) -> None:
        for item in ast.walk(target):
            if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load):
                told.add(id(item))
                found.of.setdefault(item.id, []).append(Binding(value))

    told: set[int] = set()
    others: list[str] = []
    names: list[ast.Name] = []
    for node in inner_nodes(body):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    enter(target, value)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    enter(target, value)
                else:
                    told.add(id(target))
            case ast.NamedExpr(target=target, value=value) | ast.AugAssign(target=target, value=value):
                enter(target, value)
            case ast.For(target=target, iter=value):
                enter(target, value)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                enter(target, value)
            case ast.Import() | ast.ImportFrom():
                for item in node.names:
                    bound = item.asname or (item.name if isinstance(node, ast.ImportFrom) else item.name.split(".")[0])
                    found.of.setdefault(bound, []).append(Binding(statement=node, name=item.name))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                others.append(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                others.append(name)
            case ast.MatchMapping(rest=str(name)):
                others.append(name)
            case ast.Name(ctx=ast.Store()):
                names.append(node)
            case _:
                pass
    others += [item.id for item in names if id(item) not in told]
    for name in others:
        found.of.setdefault(name, []).append(Binding())
    return found
