"""The names of NKI in a module, through its imports, and what its own names are bound to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki_lab.migrate.source_edits import SourceEdits

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_ROOTS: Final = ("nki", "neuronxcc.nki")
_USUAL: Final = {"nl": "nki.language", "nisa": "nki.isa", "nt": "nki.typing", "ncc": "nki.compiler"}

Binding = tuple[ast.stmt, ast.expr | None, int | None]
"""A statement that binds a name, the expression it binds it to where that is known, and the part of it."""


class Names:
    """The names of a module."""

    def __init__(self, edits: SourceEdits) -> None:
        self._edits = edits
        self._aliases: dict[str, str] = {}
        self._bindings: dict[int, dict[str, list[Binding]]] = {}
        self.used = {node.id for node in ast.walk(edits.tree) if isinstance(node, ast.Name)}
        self.used |= {node.arg for node in ast.walk(edits.tree) if isinstance(node, ast.arg)}
        for node in ast.walk(edits.tree):
            if isinstance(node, ast.Import):
                for item in node.names:
                    self._aliases[item.asname or item.name.partition(".")[0]] = (
                        item.name if item.asname else item.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for item in node.names:
                    self._aliases[item.asname or item.name] = f"{node.module}.{item.name}"
        self.renamed: dict[str, ast.Assign] = {}
        for statement in edits.tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() as value):
                    full = self._full(value)
                    if full.startswith("neuronxcc.nki."):
                        self._aliases[name] = full
                        self.renamed[name] = statement

    # -- of NKI --------------------------------------------------------------------------------------------------------

    def dotted(self, node: ast.AST) -> str:
        """Return the name of NKI that an expression spells, as the current packages have it: "nki.language.exp".

        Empty for other expressions.
        """
        full = self._full(node)
        return full.removeprefix("neuronxcc.") if full.removeprefix("neuronxcc.").startswith("nki") else full

    def _full(self, node: ast.AST) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        head = self._aliases.get(node.id)
        if head is None:
            head = _USUAL.get(node.id) if not self._is_bound(node.id) else None
        return "" if head is None else ".".join([head, *reversed(parts)])

    def _is_bound(self, name: str) -> bool:
        return name in self.bindings(self._edits.tree)

    def is_old(self, node: ast.AST) -> bool:
        """Return whether an expression spells a name of `neuronxcc.nki`."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            return False
        return self._aliases.get(node.id, "neuronxcc" if self.is_beta1 else "").startswith("neuronxcc")

    def called(self, node: ast.AST, *names: str) -> bool:
        """Return whether an expression is a call of one of NKI's functions of these full names."""
        return isinstance(node, ast.Call) and self.dotted(node.func) in names

    def spelt(self, module: str) -> str:
        """Return how this module writes one of NKI's modules: `nl` for "nki.language"."""
        for alias, full in self._aliases.items():
            if full.removeprefix("neuronxcc.") == module:
                return alias
        for alias, full in self._aliases.items():
            if full.removeprefix("neuronxcc.") == "nki" and module.startswith("nki."):
                return f"{alias}.{module.removeprefix('nki.')}"
        return {"nki.language": "nl", "nki.isa": "nisa", "nki.typing": "nt"}.get(module, module)

    def imports(self, module: str) -> bool:
        """Return whether `spelt` of one of NKI's modules is a name here."""
        head = self.spelt(module).partition(".")[0]
        return head in self._aliases

    @property
    def is_beta1(self) -> bool:
        """Return whether the module imports anything of `neuronxcc.nki`."""
        return any(full == "neuronxcc.nki" or full.startswith("neuronxcc.nki.") for full in self._aliases.values())

    def fresh(self, wish: str) -> str:
        """Return a name that the module does not have yet, and take it."""
        name, number = wish, 1
        while name in self.used or name in self._aliases:
            name, number = f"{wish}_{number}", number + 1
        self.used.add(name)
        return name

    # -- of the module -------------------------------------------------------------------------------------------------

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the innermost function around a node."""
        return next((item for item in self._edits.above(node) if isinstance(item, FUNCTIONS)), None)

    def bindings(self, owner: ast.AST) -> dict[str, list[Binding]]:
        """Return what a function or the module binds, by name in the order of the text."""
        if id(owner) not in self._bindings:
            found: dict[str, list[Binding]] = {}
            for name, binding in _bound(owner):
                found.setdefault(name, []).append(binding)
            self._bindings[id(owner)] = found
        return self._bindings[id(owner)]

    def definition(self, node: ast.Name) -> Binding | None:
        """Return what a name is bound to where it is read; None where that depends on the way there."""
        owner: ast.AST | None = self.function(node)
        inner: ast.AST = node
        while True:
            scope = owner or self._edits.tree
            known = self.bindings(scope).get(node.id)
            if known:
                return self._reaching(inner, known, scope)
            if owner is None or node.id in _parameters(owner):
                return None
            inner, owner = owner, self.function(owner)

    def _reaching(self, use: ast.AST, known: list[Binding], scope: ast.AST) -> Binding | None:
        around = {id(use), *(id(item) for item in self._edits.above(use))}
        place = (use.lineno, use.col_offset)  # type: ignore[attr-defined]
        own = self._edits.statement(use) if not isinstance(use, FUNCTIONS) else use
        earlier = [item for item in known if (item[0].lineno, item[0].col_offset) < place and item[0] is not own]
        if isinstance(use, FUNCTIONS) and not earlier:
            return known[0] if len(known) == 1 else None
        if not earlier:
            return None
        last = earlier[-1]
        above = self._edits.parent(last[0])
        return last if above is not None and (id(above) in around or above is scope) else None


def _parameters(node: ast.AST) -> set[str]:
    arguments = node.args  # type: ignore[attr-defined]
    return {
        item.arg
        for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        if item is not None
    }


def _bound(owner: ast.AST) -> Iterator[tuple[str, Binding]]:
    """Yield the names that the statements of a function bind, those of functions inside it left out."""
    stack: list[ast.AST] = list(reversed(getattr(owner, "body", [])))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield from _of_statement(node)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        stack.extend(
            reversed([item for item in ast.iter_child_nodes(node) if isinstance(item, ast.stmt | ast.ExceptHandler)])
        )


def _of_statement(node: ast.stmt) -> Iterator[tuple[str, Binding]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _of_target(node, target, value)
        case ast.AnnAssign(target=target, value=value):
            yield from _of_target(node, target, value)
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name, (node, None, None)
        case ast.For(target=target):
            yield from _of_target(node, target, None)
        case ast.With(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from _of_target(node, item.optional_vars, None)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, (node, None, None)
        case _:
            return


def _of_target(node: ast.stmt, target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, Binding]]:
    if isinstance(target, ast.Name):
        yield target.id, (node, value, None)
    elif isinstance(target, ast.Tuple | ast.List):
        inner = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
        for place, item in enumerate(target.elts):
            if isinstance(item, ast.Name):
                yield item.id, (node, inner[place], None) if inner else (node, value, place)
            else:
                yield from _of_target(node, item, None)
