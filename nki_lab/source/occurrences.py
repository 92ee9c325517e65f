"""Every mention of a name in a module, with the scope that binds it by the rules of Python's compiler.

Where `source.names` answers what kernel code reaches, this keeps each place: editors jump to them and rename them.
All walks are loops, so that deeply nested source cannot exhaust the stack.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal
from weakref import ref

from nki_lab.source.scopes import bound_by
from nki_lab.source.trees import FUNCTIONS, children, defaults, parameters

Role = Literal["read", "write", "definition", "parameter", "import", "declared", "listed"]
"""How a name is mentioned: `declared` in `global` and `nonlocal`, `listed` in `__all__`."""
BINDING_ROLES: Final = frozenset({"write", "definition", "parameter", "import"})
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Occurrence:
    """One mention of a name; `owner` is the statement of an import, else the node itself."""

    __slots__ = ("name", "node", "owner", "role")

    def __init__(self, name: str, node: ast.AST, role: Role, owner: ast.AST | None = None) -> None:
        self.name = name
        self.node = node
        self.role: Role = role
        self.owner = node if owner is None else owner


class NameScope:
    """The names that a module, function, class body or comprehension mentions.

    `kind` is "module", "function", "class", "comprehension" or "types" (around a function with type parameters).
    It does not keep the scope around it, so that the tree of a text goes with the module's scope.
    """

    __slots__ = ("__weakref__", "_parent",
                 "assigned", "attributes", "bound", "calls", "children", "globals", "imports", "keywords", "kind",
                 "node", "nonlocals", "occurrences", "stars")  # fmt: skip

    def __init__(self, kind: str, node: ast.AST, parent: NameScope | None) -> None:
        self.kind = kind
        self.node = node
        self._parent = None if parent is None else ref(parent)
        self.children: list[NameScope] = []
        self.occurrences: dict[str, list[Occurrence]] = {}
        self.bound: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.attributes: dict[str, list[ast.Attribute]] = {}
        self.keywords: dict[str, list[tuple[ast.keyword, ast.Call | ast.ClassDef]]] = {}
        self.calls: list[ast.Call] = []
        self.assigned: dict[str, list[ast.expr]] = {}  # the values of plain assignments to one name
        self.imports: list[Occurrence] = []
        self.stars: list[ast.ImportFrom] = []
        if parent is not None:
            parent.children.append(self)

    @property
    def parent(self) -> NameScope | None:
        """Return the scope around this one."""
        return None if self._parent is None else self._parent()

    def subtree(self) -> Iterator[NameScope]:
        """Yield this scope and those inside it."""
        stack = [self]
        while stack:
            scope = stack.pop()
            yield scope
            stack.extend(reversed(scope.children))

    @property
    def module(self) -> NameScope:
        """Return the outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def binder(self, name: str) -> NameScope | None:
        """Return the scope whose name a mention here means; None for one that no scope of the module binds."""
        scope: NameScope | None = self
        sees_class = True  # a class body passes its names on to nobody but type parameters right inside it
        while scope is not None:
            if name in scope.globals:
                return scope.module
            visible = scope.kind != "class" or sees_class
            if visible and name in scope.bound and name not in scope.nonlocals:
                return scope
            sees_class = scope.kind == "types"
            scope = scope.parent
        return None

    def mentions(self, name: str) -> Iterator[tuple[NameScope, Occurrence]]:
        """Yield the mentions of the name that this scope binds, with the scopes that they stand in."""
        for scope in self.subtree():
            found = scope.occurrences.get(name)
            if found and scope.binder(name) is self:
                for item in found:
                    yield scope, item

    def bindings(self, name: str) -> list[Occurrence]:
        """Return the mentions that bind the name of this scope."""
        return [item for _, item in self.mentions(name) if item.role in BINDING_ROLES]

    def function(self) -> NameScope | None:
        """Return the innermost function around, itself included."""
        scope: NameScope | None = self
        while scope is not None and not isinstance(scope.node, FUNCTIONS):
            scope = scope.parent
        return scope

    def _note(self, item: Occurrence) -> None:
        self.occurrences.setdefault(item.name, []).append(item)
        if item.role in BINDING_ROLES:
            self.bound.add(item.name)
        if item.role == "import":
            self.imports.append(item)


def occurrences_of(tree: ast.Module, before: NameScope | None = None) -> NameScope:
    """Return the module's scope, with the scopes inside it.

    Scopes of statements that the module `before` has too, the nodes themselves, move here from there.
    """
    module = NameScope("module", tree, None)
    known = {} if before is None else {item.node: item for item in before.children}
    stack: list[tuple[ast.AST, NameScope]] = [(node, module) for node in reversed(tree.body)]
    while stack:
        node, scope = stack.pop()
        inner = _SCOPED.get(type(node))
        if inner is None:
            _note(node, scope)
            stack.extend((child, scope) for child in reversed(children(node)))
            continue
        kept = known.get(node) if scope is module else None
        outside, inside = inner(node, scope, kept)
        stack.extend((part, scope) for part in reversed(outside))
        stack.extend(reversed(inside))
        if kept is not None:
            kept._parent = ref(module)
            module.children.append(kept)
    for scope in module.subtree():
        module.bound |= scope.globals & scope.bound
    return module


_Parts = tuple[list[ast.AST], list[tuple[ast.AST, NameScope]]]
"""What is evaluated around a scope, and what inside, each with its scope."""


def _function(node: Any, scope: NameScope, kept: NameScope | None) -> _Parts:
    outside: list[ast.AST] = [*getattr(node, "decorator_list", ()), *defaults(node.args)]
    annotations = [item.annotation for item in parameters(node.args) if item.annotation is not None]
    annotations += [node.returns] if getattr(node, "returns", None) is not None else []
    if not isinstance(node, ast.Lambda):
        scope._note(Occurrence(node.name, node, "definition"))
    around = _types(node, scope, kept)
    inside: list[tuple[ast.AST, NameScope]] = []
    if around is None:
        outside += annotations
        around = scope
    elif kept is None:
        inside += [(item, around) for item in (*node.type_params, *annotations)]
    if kept is None:
        body = NameScope("function", node, around)
        for arg in parameters(node.args):
            body._note(Occurrence(arg.arg, arg, "parameter"))
        inside += [(item, body) for item in (node.body if isinstance(node.body, list) else [node.body])]
    return outside, inside


def _class(node: Any, scope: NameScope, kept: NameScope | None) -> _Parts:
    scope._note(Occurrence(node.name, node, "definition"))
    outside: list[ast.AST] = [*node.decorator_list]
    parts = [*node.bases, *node.keywords]
    around = _types(node, scope, kept)
    inside: list[tuple[ast.AST, NameScope]] = []
    if around is None:
        outside += parts
        around = scope
    elif kept is None:
        inside += [(item, around) for item in (*node.type_params, *parts)]
    if kept is None:
        body = NameScope("class", node, around)
        inside += [(item, body) for item in node.body]
    return outside, inside


def _types(node: Any, scope: NameScope, kept: NameScope | None) -> NameScope | None:
    if not getattr(node, "type_params", None):
        return None
    return kept if kept is not None else NameScope("types", node, scope)


def _comprehension(node: Any, scope: NameScope, kept: NameScope | None) -> _Parts:
    first = node.generators[0]
    # A walrus binds a name of the scope around, which a kept scope cannot enter there again.
    outside: list[ast.AST] = [first.iter]
    if kept is not None:
        for item in ast.walk(node):
            if isinstance(item, ast.NamedExpr) and isinstance(item.target, ast.Name):
                scope._note(Occurrence(item.target.id, item.target, "write"))
        return outside, []
    own = NameScope("comprehension", node, scope)
    parts: list[ast.AST] = [first.target, *first.ifs]
    for item in node.generators[1:]:
        parts += [item.target, item.iter, *item.ifs]
    parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    return outside, [(part, own) for part in parts]


def _alias_of_type(node: Any, scope: NameScope, kept: NameScope | None) -> _Parts:
    around = _types(node, scope, kept) or scope
    inside = [] if kept is not None else [(item, around) for item in (*node.type_params, node.value)]
    return [node.name], inside


_SCOPED: Final[dict[type[ast.AST], Any]] = {
    **dict.fromkeys((*FUNCTIONS, ast.Lambda), _function),
    ast.ClassDef: _class,
    **dict.fromkeys(_COMPREHENSIONS, _comprehension),
}
if hasattr(ast, "TypeAlias"):
    _SCOPED[ast.TypeAlias] = _alias_of_type


def _note(node: ast.AST, scope: NameScope) -> None:
    kind = type(node)
    if kind is ast.Name:
        _name(node, scope)  # type: ignore[arg-type]
        return
    if kind not in _TELLING:
        return
    match node:
        case ast.Attribute():
            scope.attributes.setdefault(node.attr, []).append(node)
        case ast.Call():
            scope.calls.append(node)
            for item in node.keywords:
                if item.arg is not None:
                    scope.keywords.setdefault(item.arg, []).append((item, node))
            match node.func:
                case ast.Attribute(value=ast.Name(id="__all__")):
                    _listed(node.args, scope)
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                if alias.name == "*" and isinstance(node, ast.ImportFrom):
                    scope.stars.append(node)
                    continue
                plain = alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                scope._note(Occurrence(alias.asname or plain, alias, "import", node))
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            (scope.globals if isinstance(node, ast.Global) else scope.nonlocals).update(names)
            for name in names:
                scope._note(Occurrence(name, node, "declared"))
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            _assignment(node, scope)
        case ast.NamedExpr(target=ast.Name() as target) if scope.kind == "comprehension":
            outer: NameScope | None = scope
            while outer is not None and outer.kind == "comprehension":
                outer = outer.parent
            if outer is not None:
                outer._note(Occurrence(target.id, target, "write"))
        case _:
            for name in bound_by(node):
                scope._note(Occurrence(name, node, "write"))
            if kind in _TYPE_PARAMETERS:
                scope._note(Occurrence(node.name, node, "write"))  # type: ignore[attr-defined]


def _name(node: ast.Name, scope: NameScope) -> None:
    if type(node.ctx) is ast.Load:
        scope._note(Occurrence(node.id, node, "read"))
    elif scope.kind != "comprehension" or not _is_noted(node, scope):
        scope._note(Occurrence(node.id, node, "write"))


def _is_noted(node: ast.Name, scope: NameScope) -> bool:
    """Return whether a target in a comprehension is that of a walrus, which the scope around has."""
    outer: NameScope | None = scope
    while outer is not None and outer.kind == "comprehension":
        outer = outer.parent
    return outer is not None and any(item.node is node for item in outer.occurrences.get(node.id, ()))


def _assignment(node: ast.Assign | ast.AnnAssign | ast.AugAssign, scope: NameScope) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        if not isinstance(target, ast.Name) or node.value is None:
            continue
        if not isinstance(node, ast.AugAssign):
            scope.assigned.setdefault(target.id, []).append(node.value)
        if target.id == "__all__":
            _listed([node.value], scope)


def _listed(values: Iterable[ast.expr], scope: NameScope) -> None:
    """Note the names that become a part of the module's `__all__`."""
    pending = [*values] if scope.kind == "module" else []
    while pending:
        match pending.pop():
            case ast.Constant(value=str(name)) as item:
                scope._note(Occurrence(name, item, "listed"))
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                pending += parts
            case ast.BinOp(left=left, right=right):
                pending += (left, right)


_TYPE_PARAMETERS: Final = frozenset(
    getattr(ast, name) for name in ("TypeVar", "ParamSpec", "TypeVarTuple") if hasattr(ast, name)
)
_TELLING: Final = frozenset((
    ast.Attribute, ast.Call, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Assign, ast.AnnAssign,
    ast.AugAssign, ast.NamedExpr, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping, *_TYPE_PARAMETERS,
))  # fmt: skip
