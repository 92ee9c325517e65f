"""The meaning of a name or attribute: through imports, aliases, modules and the classes of objects, across files.

An attribute has a meaning only where the object that it is taken from is known: a module, a class, `self`, a
parameter annotated with a class, a variable that calls one. Nothing is concluded from its spelling.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from nki_lab.diagnostic import Span
from nki_lab.query.navigation.reading import Mention, Reading
from nki_lab.query.navigation.workspace import Workspace
from nki_lab.source.name_places import ending
from nki_lab.source.names import OTHER_ENTRIES, entry_package
from nki_lab.source.occurrences import NameScope, Occurrence
from nki_lab.source.trees import FUNCTIONS, parameters

DEEPEST: Final = 12
"""Imports that lead to imports, and bases of bases."""
_USUAL: Final = {"nl": "nki.language", "nisa": "nki.isa"}
"""What these names always are where nothing binds them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A name that a scope of a text binds; in a class body, a member of the class."""

    reading: Reading
    scope: NameScope
    name: str

    @property
    def key(self) -> object:
        """Return what is the same for all mentions of this name, in readings of the same text too."""
        node = self.scope.node
        return (self.reading.file, self.scope.kind, *_place(node), self.name)


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the workspace or of an installed package, by its file, or the folder of a package without one."""

    path: str

    @property
    def key(self) -> object:
        """Return the path."""
        return ("module", self.path)


@dataclass(frozen=True, slots=True)
class Outside:
    """A name that is bound in no text at hand: of NKI, of another library, a builtin (`builtins.len`)."""

    dotted: str

    @property
    def key(self) -> object:
        """Return the name."""
        return ("outside", self.dotted)


Meaning = Bound | Module | Outside


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


class Resolver:
    """Finds meanings within the files of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._members: dict[tuple[str, str, int], Meaning | None] = {}

    # -- names -----------------------------------------------------------------------------------------------------

    def mention(self, reading: Reading, mention: Mention) -> Meaning | None:
        """Return the meaning of a name in the text, imports not followed; None where it is not known."""
        named = mention.named
        if isinstance(named, Occurrence):
            return self.local(reading, mention.scope, named.name)
        if isinstance(named, ast.keyword):
            return self.keyword(reading, mention.scope, named, mention.call)
        if isinstance(named, ast.Attribute):
            return self.expression(reading, mention.scope, named)
        if isinstance(named, ast.alias):
            return self._imported_part(reading, mention, named)
        if isinstance(named, ast.ImportFrom) and named.module:
            return self._module(reading, named.level, ".".join(named.module.split(".")[: mention.parts]))
        return None

    def _imported_part(self, reading: Reading, mention: Mention, alias: ast.alias) -> Meaning | None:
        item = next(item for item in mention.scope.imports if item.node is alias)
        if isinstance(item.owner, ast.ImportFrom):
            return self.imported(reading, item)
        return self._module(reading, 0, ".".join(alias.name.split(".")[: mention.parts]))

    def local(self, reading: Reading, scope: NameScope, name: str) -> Meaning | None:
        """Return the name that a mention in a scope means: one bound in the text, else one of a star import, else
        a builtin.
        """
        binder = scope.binder(name)
        if binder is not None:
            return Bound(reading, binder, name)
        for module in self.stars(reading):
            if isinstance(module, Module) and (found := self.member(module, name)) is not None:
                return found
            if isinstance(module, Outside) and not hasattr(builtins, name):
                return Outside(f"{module.dotted}.{name}")
        if name in _USUAL:
            return Outside(_USUAL[name])
        return Outside(f"builtins.{name}") if hasattr(builtins, name) else None

    def stars(self, reading: Reading) -> Iterator[Meaning]:
        """Yield the modules whose names a text imports with a star."""
        for statement in reading.scope.stars:
            module = self._module(reading, statement.level, statement.module or "")
            if module is not None:
                yield module

    def followed(self, meaning: Meaning | None, depth: int = DEEPEST) -> Meaning | None:
        """Return what an imported name stands for; others as they are. Of several imports the first known one."""
        while isinstance(meaning, Bound) and depth > 0:
            found = meaning.scope.bindings(meaning.name)
            imports = [item for item in found if item.role == "import"]
            if not imports or len(imports) < len(found):
                return meaning
            targets = [self.imported(meaning.reading, item) for item in imports]
            target = next((item for item in targets if not isinstance(item, Outside | None)), targets[0])
            if target is None or target.key == meaning.key:
                return target
            meaning, depth = target, depth - 1
        return meaning

    def imported(self, reading: Reading, item: Occurrence) -> Meaning | None:
        """Return what an import statement binds a name to, one step on."""
        owner, alias = item.owner, item.node
        assert isinstance(alias, ast.alias)
        if isinstance(owner, ast.Import):
            return self._module(reading, 0, alias.name if alias.asname else alias.name.partition(".")[0])
        assert isinstance(owner, ast.ImportFrom)
        module = self._module(reading, owner.level, owner.module or "")
        if isinstance(module, Module) and module.path == reading.file:
            path = self.workspace.member(module.path, alias.name)
            return None if path is None else Module(path)
        return self.member(module, alias.name)

    def _module(self, reading: Reading, level: int, name: str) -> Meaning | None:
        path = self.workspace.module(level, name, reading.file)
        if path is not None:
            return Module(path)
        return None if level or not name else Outside(name)

    def member(self, meaning: Meaning | None, name: str, depth: int = DEEPEST) -> Meaning | None:
        """Return the meaning of an attribute of a module, a class, or something outside."""
        if isinstance(meaning, Outside):
            return Outside(f"{meaning.dotted}.{name}")
        if isinstance(meaning, Module):
            key = (meaning.path, name, 0)
            if key not in self._members:
                self._members[key] = None  # a module that imports itself
                self._members[key] = self._of_module(meaning, name, depth)
            return self._members[key]
        if meaning is not None and (inside := self.class_scope(meaning)) is not None:
            return self._of_class(meaning.reading, inside, name, depth)
        return None

    def _of_module(self, module: Module, name: str, depth: int) -> Meaning | None:
        reading = self.workspace.reading(module.path)
        if reading is not None:
            if name in reading.scope.bound:
                return Bound(reading, reading.scope, name)
            for source in self.stars(reading) if depth > 0 and not name.startswith("_") else ():
                if isinstance(source, Module) and (found := self.member(source, name, depth - 1)) is not None:
                    return found
        path = self.workspace.member(module.path, name)
        return None if path is None else Module(path)

    # -- classes ---------------------------------------------------------------------------------------------------

    def class_scope(self, meaning: Meaning | None) -> NameScope | None:
        """Return the body of the class that a name stands for; None for others."""
        if not isinstance(meaning, Bound):
            return None
        nodes = [item.node for item in meaning.scope.bindings(meaning.name)]
        if len(nodes) != 1 or not isinstance(nodes[0], ast.ClassDef):
            return None
        return _body_scope(meaning.scope, nodes[0])

    def _of_class(self, reading: Reading, scope: NameScope, name: str, depth: int) -> Bound | None:
        if name in scope.bound or next(self_stores(scope, name), None) is not None:
            return Bound(reading, scope, name)
        assert isinstance(scope.node, ast.ClassDef)
        for base in scope.node.bases if depth > 0 else ():
            outer = self.followed(self.expression(reading, scope.parent or scope, base))
            inside = self.class_scope(outer)
            if inside is not None and isinstance(outer, Bound):
                found = self._of_class(outer.reading, inside, name, depth - 1)
                if found is not None:
                    return found
        return None

    def expression(self, reading: Reading, scope: NameScope, node: ast.expr) -> Meaning | None:
        """Return the meaning of a name or of an attribute of something known."""
        if isinstance(node, ast.Name):
            return self.local(reading, scope, node.id)
        if not isinstance(node, ast.Attribute):
            return None
        whole = self.followed(self.expression(reading, scope, node.value))
        if isinstance(whole, Module | Outside) or self.class_scope(whole) is not None:
            return self.member(whole, node.attr)
        return self.member(self._class_of(reading, scope, node.value), node.attr)

    def type_of(self, reading: Reading, mention: Mention) -> Meaning | None:
        """Return the class of the object that a name stands for, the class itself where it names one."""
        whole = self.followed(self.mention(reading, mention))
        if self.class_scope(whole) is not None or not isinstance(whole, Bound):
            return whole if isinstance(whole, Bound) else None
        node = ast.Name(id=whole.name, ctx=ast.Load())
        return self._class_of(whole.reading, whole.scope, node)

    def _class_of(self, reading: Reading, scope: NameScope, node: ast.expr) -> Meaning | None:
        """Return the class whose instance an expression is: `self`, an annotated parameter, a call of the class."""
        if isinstance(node, ast.Call):
            found = self.followed(self.expression(reading, scope, node.func))
            return found if self.class_scope(found) is not None else None
        if not isinstance(node, ast.Name):
            return None
        binder = scope.binder(node.id)
        bindings = [] if binder is None else binder.bindings(node.id)
        if binder is None or len(bindings) != 1:
            return None
        only = bindings[0].node
        if isinstance(only, ast.arg):
            owner = enclosing_class(binder)
            if owner is not None and _first_parameter(binder) == node.id:
                assert isinstance(owner.node, ast.ClassDef)
                return Bound(reading, owner.parent or owner, owner.node.name)
            return (
                None if only.annotation is None else self._annotated(reading, binder.parent or binder, only.annotation)
            )
        values = binder.assigned.get(node.id, ())
        return (
            self._class_of(reading, binder, values[0]) if len(values) == 1 and isinstance(values[0], ast.Call) else None
        )

    def _annotated(self, reading: Reading, scope: NameScope, node: ast.expr) -> Meaning | None:
        """Return the class of an annotation: `C`, `Optional[C]`, `C | None`."""
        parts = [node]
        if isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        found = (self.followed(self.expression(reading, scope, part)) for part in parts)
        return next((item for item in found if self.class_scope(item) is not None), None)

    # -- calls -----------------------------------------------------------------------------------------------------

    def called(self, reading: Reading, scope: NameScope, call: ast.Call) -> Meaning | None:
        """Return the function or class that a call runs: `f(...)`, `f[grid](...)`, `nki.jit(f)(...)`,
        `partial(f, ...)`, `nki.simulate_kernel(f, ...)`.
        """
        func = call.func
        if isinstance(func, ast.Name | ast.Attribute):
            whole = self.followed(self.expression(reading, scope, func))
            if not (isinstance(whole, Outside) and _hands_on(whole.dotted) and call.args):
                return self._made(whole)
            func = call.args[0]
        return self._standing_for(reading, scope, func)

    def _standing_for(self, reading: Reading, scope: NameScope, node: ast.expr, depth: int = DEEPEST) -> Meaning | None:
        """Return the function inside `f[grid]`, `nki.jit(f)` and `partial(f, ...)`."""
        if isinstance(node, ast.Subscript) and depth > 0:
            return self._standing_for(reading, scope, node.value, depth - 1)
        if isinstance(node, ast.Call):
            maker = self.followed(self.expression(reading, scope, node.func))
            if isinstance(node.func, ast.Call):  # nki.jit(mode=...)(f)
                maker = self.followed(self.expression(reading, scope, node.func.func))
            if depth > 0 and node.args and isinstance(maker, Outside) and _hands_on(maker.dotted):
                return self._standing_for(reading, scope, node.args[0], depth - 1)
            return None
        return self._made(self.followed(self.expression(reading, scope, node)), depth)

    def _made(self, meaning: Meaning | None, depth: int = DEEPEST) -> Meaning | None:
        """Return the function that a variable stands for: `fast = nki.jit(f)`; others as they are."""
        if isinstance(meaning, Bound) and depth > 0:
            values = meaning.scope.assigned.get(meaning.name, ())
            if len(values) == 1 and len(meaning.scope.bindings(meaning.name)) == 1:
                found = self._standing_for(meaning.reading, meaning.scope, values[0], depth - 1)
                return meaning if found is None else found
        return meaning

    def function_of(self, meaning: Meaning | None) -> tuple[Bound, NameScope] | None:
        """Return a function with its scope: of a class, that which makes its instances; None for anything else."""
        meaning = self.followed(meaning)
        if not isinstance(meaning, Bound):
            return None
        inside = self.class_scope(meaning)
        if inside is not None:
            made = self._of_class(meaning.reading, inside, "__init__", DEEPEST)
            return None if made is None else self.function_of(made)
        nodes = [item.node for item in meaning.scope.bindings(meaning.name)]
        body = _body_scope(meaning.scope, nodes[-1]) if nodes and isinstance(nodes[-1], FUNCTIONS) else None
        return None if body is None else (meaning, body)

    def keyword(
        self, reading: Reading, scope: NameScope, node: ast.keyword, call: ast.Call | ast.ClassDef | None
    ) -> Meaning | None:
        """Return the parameter, or the field of a class, that a keyword argument is for."""
        name = node.arg or ""
        if not isinstance(call, ast.Call):
            return None
        target = self.called(reading, scope, call)
        if isinstance(target, Outside):
            return Outside(f"{target.dotted}({name})")
        found = self.function_of(target)
        if found is not None:
            bound, body = found
            assert isinstance(body.node, FUNCTIONS)
            named = [*body.node.args.args, *body.node.args.kwonlyargs]
            return Bound(bound.reading, body, name) if any(item.arg == name for item in named) else None
        inside = self.class_scope(target)
        return None if inside is None or not isinstance(target, Bound) else self.member(target, name)

    # -- places ----------------------------------------------------------------------------------------------------

    def places(self, meaning: Meaning | None) -> list[Span]:
        """Return the places where something is bound; of a name that is assigned several times, all."""
        if isinstance(meaning, Module):
            file = meaning.path if self.workspace.reading(meaning.path) is not None else ""
            return [Span(file, 1, 1, 1, 1)] if file else []
        if not isinstance(meaning, Bound):
            return []
        reading = meaning.reading
        found = [span for item in meaning.scope.bindings(meaning.name) for span in reading.spans(item)]
        if not found and meaning.scope.kind == "class":
            stores = (ending(reading.facts, node, meaning.name) for node in self_stores(meaning.scope, meaning.name))
            found = [span for span in stores if span is not None]
        return list(dict.fromkeys(found))


def _hands_on(dotted: str) -> bool:
    """Return whether a call of this function makes, or runs, the function that is its first argument."""
    return bool(entry_package(dotted)) or dotted in OTHER_ENTRIES or dotted in ("functools.partial", "partial")


def _body_scope(around: NameScope, node: ast.AST) -> NameScope | None:
    """Return the scope that a function or class makes, below the one that has its name."""
    stack = list(around.children) if around.node is not node else [around]
    while stack:
        scope = stack.pop()
        if scope.node is node:
            if scope.kind != "types":
                return scope
            stack.extend(scope.children)
    # A name that `global` puts into the module stands in a function.
    return next((item for item in around.subtree() if item.node is node and item.kind != "types"), None)


def enclosing_class(function: NameScope) -> NameScope | None:
    """Return the class that a function is a method of."""
    outer = function.parent
    while outer is not None and outer.kind == "types":
        outer = outer.parent
    return outer if outer is not None and outer.kind == "class" and isinstance(function.node, FUNCTIONS) else None


def _first_parameter(function: NameScope) -> str:
    node = function.node
    assert isinstance(node, FUNCTIONS)
    if any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in node.decorator_list):
        return ""
    found = [*node.args.posonlyargs, *node.args.args]
    return found[0].arg if found and parameters(node.args) else ""


def self_stores(scope: NameScope, name: str) -> Iterator[ast.Attribute]:
    """Yield the attributes `self.name = ...` in the methods of a class."""
    for method in scope.children:
        inner = next((item for item in method.subtree() if item.kind == "function"), None)
        if inner is None or not isinstance(inner.node, FUNCTIONS) or enclosing_class(inner) is not scope:
            continue
        first = _first_parameter(inner)
        for node in inner.attributes.get(name, ()):
            if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == first:
                yield node
