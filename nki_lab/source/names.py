"""Name use in a module, scope by scope: definitions, imports, aliases, reads, calls. Nothing is executed.

All walks are loops, not recursion, so that deeply nested source cannot exhaust the stack.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final
from weakref import ReferenceType, ref

from nki_lab.source.scopes import OWN_SCOPE, bound_by, outer_parts
from nki_lab.source.trees import FUNCTIONS, attribute_path, children, parameters

_PACKAGES: Final = ("neuronxcc.nki", "nki")
_ENTRIES: Final = frozenset({"jit", "baremetal", "benchmark", "profile", "trace", "simulate", "simulate_kernel"})
# Entry points of frameworks for Beta 1 and of this package; the kernel is the decorated function or the first argument.
OTHER_ENTRIES: Final = {
    "torch_neuronx.nki_jit": "beta1",
    "torch_neuronx.xla_impl.ops.nki_jit": "beta1",
    "jax_neuronx.nki_call": "beta1",
    "nki_lab.run": "",
    "nki_lab.profile": "",
    "nki_lab.compile": "",
}
ENTRY_NAMES: Final = _ENTRIES | {name.rpartition(".")[2] for name in OTHER_ENTRIES}
"""The last parts of the entry points' names."""
_ALIAS_DEPTH: Final = 8


class NameUses:
    """Names that one function, class body, lambda or module mentions.

    It does not keep the scope around it: thus the tree of a text is gone once nobody has its module's scope any more.
    """

    __slots__ = ("__weakref__", "_parent",
                 "aliases", "annotated", "attributes", "bound", "calls", "children", "declared", "definitions",
                 "import_nodes", "imports", "loads", "mentions", "node", "parts", "stars", "stores",
                 "values")  # fmt: skip

    def __init__(self, node: ast.AST) -> None:
        self.node = node
        self._parent: ReferenceType[NameUses] | None = None
        self.children: list[NameUses] = []
        self.definitions: dict[str, list[NameUses]] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.imports: dict[str, str] = {}
        self.stars: list[str] = []
        self.bound: set[str] = set()
        self.loads: list[ast.Name] = []
        self.annotated: list[ast.Name] = []
        self.calls: list[ast.Call] = []
        self.attributes: set[str] = set()
        self.mentions: list[ast.Attribute] = []  # every attribute, the outer ones of a chain too
        self.stores: list[str] = []  # a name for each time that something but an import or definition binds it
        self.values: list[tuple[str, ast.expr]] = []  # of the stores, those that are plain assignments
        self.import_nodes: list[ast.Import | ast.ImportFrom] = []
        self.declared: list[str] = []  # global and nonlocal
        self.parts: dict[ast.AST, NameUses] = {}  # what plain statements of the scope mention, each by itself

    @property
    def parent(self) -> NameUses | None:
        """Return the scope around this one."""
        return None if self._parent is None else self._parent()

    def adopt(self, inner: NameUses) -> None:
        """Become the scope around `inner`."""
        inner._parent = ref(self)
        self.children.append(inner)
        if isinstance(inner.node, (*FUNCTIONS, ast.ClassDef)):
            self.definitions.setdefault(inner.node.name, []).append(inner)

    def include(self, part: NameUses) -> None:
        """Mention what a plain statement of the scope does, in which no scope begins and nothing is imported."""
        self.aliases |= part.aliases
        self.attributes |= part.attributes
        self.bound |= part.bound
        self.calls += part.calls
        self.loads += part.loads
        self.mentions += part.mentions
        self.stores += part.stores
        self.values += part.values

    def subtree(self) -> Iterator[NameUses]:
        """This scope and the scopes inside it."""
        stack = [self]
        while stack:
            scope = stack.pop()
            yield scope
            stack.extend(scope.children)

    def enclosing(self) -> Iterator[NameUses]:
        """Yield the scopes in which Python looks a name up, innermost first: class bodies do not pass their names
        on.
        """
        scope: NameUses | None = self
        while scope is not None:
            if scope is self or not isinstance(scope.node, ast.ClassDef):
                yield scope
            scope = scope.parent

    def binder(self, name: str) -> NameUses | None:
        """Return the scope that binds the name which this scope mentions."""
        if binds(name, self):
            return self
        return next((item for item in self.enclosing() if binds(name, item)), None)


def names_of(tree: ast.Module, before: NameUses | None = None, *, again: bool = False) -> NameUses:
    """Return the module's scope, with the scopes inside it as children.

    Scopes of functions and classes that the module `before` has too, the nodes themselves, move here from there; of
    changed ones the statements that are still there are not walked either, where they were kept to be read `again`.
    """
    module = NameUses(tree)
    known = {} if before is None else {item.node: item for item in before.children}
    parts = {} if before is None else _parts_of_changed(before, tree)
    pending: list[tuple[NameUses, list[ast.AST]]] = [(module, [*tree.body])]
    while pending:
        scope, nodes = pending.pop()
        for node in _noted(nodes, scope, parts if again else None):
            inner = known.get(node)
            if inner is None:
                inner = NameUses(node)
                pending.append((inner, _entered(inner)))
            scope.adopt(inner)
    return module


def _parts_of_changed(before: NameUses, tree: ast.Module) -> dict[ast.AST, NameUses]:
    """Return what plain statements mention, those of a module and of the functions in it that are not in `tree`."""
    same = set(tree.body)
    changed = (scope for item in before.children if item.node not in same for scope in item.subtree())
    return {node: part for scope in (before, *changed) for node, part in scope.parts.items()}


def _part(statement: ast.AST) -> NameUses | None:
    """Return what a statement mentions; None where a scope begins in it."""
    part = NameUses(statement)
    return None if _noted([statement], part, None) else part


def _noted(stack: list[ast.AST], scope: NameUses, parts: dict[ast.AST, NameUses] | None) -> list[ast.AST]:
    """Note what nodes mention in a scope, the last one first; return the nodes of the scopes that begin in them.

    With `parts`, what plain statements mention is kept by itself, and taken from there where it is known.
    """
    inner: list[ast.AST] = []
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is ast.Constant:
            continue
        if isinstance(node, ast.Name):  # the most frequent ones without a look at patterns
            if type(node.ctx) is ast.Load:
                scope.loads.append(node)
            else:
                _bind(scope, node.id)
            continue
        if isinstance(node, ast.Attribute):
            scope.attributes.add(node.attr)
            scope.mentions.append(node)
        elif isinstance(node, ast.Call):
            scope.calls.append(node)
        elif kind in OWN_SCOPE:
            inner.append(node)
            stack += outer_parts(node)
            continue
        elif parts is not None and kind in _PLAIN:
            part = parts.get(node) or _part(node)
            if part is not None:
                scope.parts[node] = part
                scope.include(part)
                continue
        if kind in _TELLING:
            _note(node, scope)
        stack += _evaluated_children(node)
    return inner


def _entered(scope: NameUses) -> list[ast.AST]:
    """Note the parameters of a function, and return the body of the function or class."""
    node = scope.node
    if isinstance(node, (*FUNCTIONS, ast.Lambda)):
        for arg in parameters(node.args):
            _bind(scope, arg.arg)
            if arg.annotation is not None:
                scope.annotated.extend(item for item in ast.walk(arg.annotation) if isinstance(item, ast.Name))
                _mention(scope, arg.annotation)
        if not isinstance(node, ast.Lambda) and node.returns is not None:
            _mention(scope, node.returns)
    return [node.body] if isinstance(node, ast.Lambda) else [*getattr(node, "body", ())]


def _evaluated_children(node: ast.AST) -> list[ast.AST]:
    """Child nodes that may say something about names, but for annotations: those of locals are never evaluated."""
    found = children(node)
    return [item for item in found if item is not node.annotation] if isinstance(node, ast.AnnAssign) else found


def _note(node: ast.AST, scope: NameUses) -> None:
    match node:
        case ast.Import():
            scope.import_nodes.append(node)
            for item in node.names:
                first = item.name.partition(".")[0]
                scope.imports[item.asname or first] = item.name if item.asname else first
        case ast.ImportFrom():
            scope.import_nodes.append(node)
            prefix = "." * node.level + (node.module or "")
            for item in node.names:
                if item.name == "*":
                    scope.stars.append(prefix)
                else:
                    scope.imports[item.asname or item.name] = f"{prefix}.{item.name}"
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            scope.values.append((name, value))
            if isinstance(value, ast.Name | ast.Attribute | ast.Call):
                scope.aliases[name] = value
        case ast.AnnAssign(target=target, annotation=annotation, value=value):
            _mention(scope, annotation)
            if isinstance(target, ast.Name) and value is not None:
                scope.values.append((target.id, value))
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() | ast.MatchMapping():
            for name in bound_by(node):
                _bind(scope, name)
        case ast.Global() | ast.Nonlocal():
            scope.declared += node.names
        case _:
            pass


def _mention(scope: NameUses, annotation: ast.expr) -> None:
    scope.mentions.extend(item for item in ast.walk(annotation) if isinstance(item, ast.Attribute))


def _bind(scope: NameUses, name: str) -> None:
    scope.bound.add(name)
    scope.stores.append(name)


_PLAIN: Final = frozenset((ast.Expr, ast.Assign, ast.AugAssign, ast.Return))
_TELLING: Final = frozenset((ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign,
                             ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.Global,
                             ast.Nonlocal))  # fmt: skip


def definitions_of(name: str, scope: NameUses) -> list[NameUses]:
    """Return the functions and classes of this module that `name` may mean in `scope`."""
    place: NameUses | None = scope
    for _ in range(_ALIAS_DEPTH):
        place = place.binder(name) if place else None
        if place is None:
            return []
        if name in place.definitions:
            return place.definitions[name]
        if name in place.imports or name not in place.aliases:
            return []
        target = _function_in(place.aliases[name], place)
        if not isinstance(target, ast.Name):
            return []
        if target.id == name:
            place = place.parent
        name = target.id
    return []


def _function_in(node: ast.expr, scope: NameUses) -> ast.expr:
    """Return the function that `node` stands for: itself, or what `nki.jit(...)` and `partial(...)` wrap."""
    if isinstance(node, ast.Call) and node.args:
        maker = node.func.func if isinstance(node.func, ast.Call) else node.func
        if isinstance(maker, ast.Attribute) and maker.attr not in ENTRY_NAMES and maker.attr != "partial":
            return node  # most calls
        name = dotted(maker, scope)
        if entry_package(name) or name.rpartition(".")[2] == "partial":
            return unwrapped(node)
    return node


def entry_package(name: str) -> str:
    """Return the package of the entry point that a dotted name spells ("nki" for "nki.jit"); "" where it is none."""
    if name in OTHER_ENTRIES:
        return name.partition(".")[0]
    head, _, last = name.rpartition(".")
    package = next((item for item in _PACKAGES if head == item or head.startswith(item + ".")), "")
    return package if last in _ENTRIES else ""


def unwrapped(node: ast.expr) -> ast.expr:
    """Return the kernel inside `kernel[grid]` and `nki.jit(kernel)`: what is subscripted, or a call's first
    argument.
    """
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        else:
            return node


def dotted(node: ast.expr, scope: NameUses) -> str:
    """Return the full name that `node` spells (`nki.jit` for a `jit` imported from nki); "" where it is not a plain
    name.
    """
    parts: list[str] = []
    for _ in range(_ALIAS_DEPTH):
        node, names = attribute_path(node)
        parts[:0] = names
        if not isinstance(node, ast.Name):
            return ""
        name = node.id
        place = scope.binder(name)
        if place is None:
            stars = [star for item in scope.enclosing() for star in item.stars if name in _ENTRIES]
            return ".".join([*stars[-1:], name, *parts])
        if name in place.imports:
            return ".".join([place.imports[name], *parts])
        if name not in place.aliases or isinstance(place.aliases[name], ast.Call):
            return ""
        node, scope = place.aliases[name], place
    return ""


def is_partial(node: ast.Call, scope: NameUses) -> bool:
    return dotted(node.func, scope).rpartition(".")[2] == "partial"


def binds(name: str, scope: NameUses) -> bool:
    return name in scope.imports or name in scope.definitions or name in scope.aliases or name in scope.bound
