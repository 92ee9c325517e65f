"""Which functions and classes of a module are kernel code: kernels, and what they reach by name.

Everything here reads the syntax tree; nothing of the module is executed. All walks are loops, not recursion, so that
deeply nested source cannot exhaust the stack.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

Dialect = Literal["current", "legacy"]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_ENTRIES: Final = frozenset({"jit", "baremetal", "benchmark", "profile", "trace", "simulate", "simulate_kernel"})
_PACKAGES: Final = ("neuronxcc.nki", "nki")
# Framework doors of Beta 1 and this package's own; the kernel is the decorated function or the first argument.
_OTHER_ENTRIES: Final = {
    "torch_neuronx.nki_jit": "legacy",
    "torch_neuronx.xla_impl.ops.nki_jit": "legacy",
    "jax_neuronx.nki_call": "legacy",
    "nki_lab.run": "",
    "nki_lab.profile": "",
    "nki_lab.compile": "",
}
_ALWAYS_CALLED: Final = frozenset({"__init__", "__post_init__", "__call__"})
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_ALIAS_DEPTH: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFunction:
    """A function whose body is kernel code. `kernel` is the kernel that reaches it: itself where it is an entry."""

    node: FunctionNode
    dialect: Dialect
    kernel: FunctionNode

    @property
    def is_entry(self) -> bool:
        """Whether the function is a kernel that the host launches, not a helper."""
        return self.node is self.kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelClass:
    """A class of the module that kernel code instantiates.

    `roots` are the dotted names its bases come down to: "object" for a class without bases, "" where unknown.
    """

    node: ast.ClassDef
    dialect: Dialect
    roots: tuple[str, ...]
    instantiations: tuple[ast.Call, ...]


class Scope:
    """Names of one function, class body, lambda or module, as far as the search for kernel code needs them."""

    __slots__ = ("aliases", "annotated", "attributes", "bound", "calls", "children", "definitions", "imports", "loads",
                 "node", "parent", "stars")  # fmt: skip

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.children: list[Scope] = []
        self.definitions: dict[str, list[Scope]] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.imports: dict[str, str] = {}
        self.stars: list[str] = []
        self.bound: set[str] = set()
        self.loads: list[ast.Name] = []
        self.annotated: list[ast.Name] = []
        self.calls: list[ast.Call] = []
        self.attributes: set[str] = set()
        if parent is not None:
            parent.children.append(self)

    def subtree(self) -> Iterator[Scope]:
        """This scope and the scopes inside it."""
        stack = [self]
        while stack:
            scope = stack.pop()
            yield scope
            stack.extend(scope.children)

    def enclosing(self) -> Iterator[Scope]:
        """The scopes in which Python looks a name up, innermost first: class bodies do not pass their names on."""
        scope: Scope | None = self
        while scope is not None:
            if scope is self or not isinstance(scope.node, ast.ClassDef):
                yield scope
            scope = scope.parent


def scopes_of(tree: ast.Module) -> Scope:
    """The module's scope, with the scopes inside it as children."""
    module = Scope(tree, None)
    stack: list[tuple[ast.AST, Scope]] = [(tree, module)]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, _FUNCTIONS):
            stack.extend(_enter_function(node, scope))
        elif isinstance(node, ast.Lambda):
            inner = Scope(node, scope)
            inner.bound.update(arg.arg for arg in _parameters(node.args))
            stack.extend((default, scope) for default in _defaults(node.args))
            stack.append((node.body, inner))
        elif isinstance(node, ast.ClassDef):
            inner = Scope(node, scope)
            scope.definitions.setdefault(node.name, []).append(inner)
            stack.extend((item, scope) for item in (*node.decorator_list, *node.bases, *node.keywords))
            stack.extend((item, inner) for item in node.body)
        else:
            _note(node, scope)
            stack.extend((child, scope) for child in _evaluated_children(node))
    return module


def _enter_function(node: FunctionNode, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    inner = Scope(node, scope)
    scope.definitions.setdefault(node.name, []).append(inner)
    for arg in _parameters(node.args):
        inner.bound.add(arg.arg)
        if arg.annotation is not None:
            inner.annotated.extend(item for item in ast.walk(arg.annotation) if isinstance(item, ast.Name))
    for item in (*node.decorator_list, *_defaults(node.args)):
        yield item, scope
    for statement in node.body:
        yield statement, inner


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    extra = [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]


def _evaluated_children(node: ast.AST) -> Iterator[ast.AST]:
    """Child nodes, but for annotations: those of locals are never evaluated."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.AnnAssign) and child is node.annotation):
            yield child


def _note(node: ast.AST, scope: Scope) -> None:
    match node:
        case ast.Name(ctx=ast.Load()):
            scope.loads.append(node)
        case ast.Name():
            scope.bound.add(node.id)
        case ast.Attribute():
            scope.attributes.add(node.attr)
        case ast.Call():
            scope.calls.append(node)
        case ast.Import():
            for item in node.names:
                scope.imports[item.asname or item.name.partition(".")[0]] = (
                    item.name if item.asname else item.name.partition(".")[0]
                )
        case ast.ImportFrom():
            prefix = "." * node.level + (node.module or "")
            for item in node.names:
                if item.name == "*":
                    scope.stars.append(prefix)
                else:
                    scope.imports[item.asname or item.name] = f"{prefix}.{item.name}"
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name() | ast.Attribute() | ast.Call() as value):
            scope.aliases[name] = value
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            scope.bound.add(name)
        case _:
            pass


def definitions_of(name: str, scope: Scope) -> list[Scope]:
    """The functions and classes of this module that `name` may mean in `scope`."""
    place: Scope | None = scope
    for _ in range(_ALIAS_DEPTH):
        place = next((item for item in place.enclosing() if _binds(name, item)), None) if place else None
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


def _function_in(node: ast.expr, scope: Scope) -> ast.expr:
    """The function that `node` stands for: itself, or what `nki.jit(...)` and `partial(...)` wrap."""
    if isinstance(node, ast.Call) and node.args:
        maker = node.func.func if isinstance(node.func, ast.Call) else node.func
        name = dotted(maker, scope)
        if entry_package(name) or name.rpartition(".")[2] == "partial":
            return unwrapped(node)
    return node


def entry_package(name: str) -> str:
    """The package of the entry point that a dotted name spells ("nki" for "nki.jit"); "" where it is none."""
    if name in _OTHER_ENTRIES:
        return name.partition(".")[0]
    head, _, last = name.rpartition(".")
    package = next((item for item in _PACKAGES if head == item or head.startswith(item + ".")), "")
    return package if last in _ENTRIES else ""


def unwrapped(node: ast.expr) -> ast.expr:
    """The kernel inside `kernel[grid]` and `nki.jit(kernel)`: what is subscripted, or a call's first argument."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        else:
            return node


def dotted(node: ast.expr, scope: Scope) -> str:
    """The full name that `node` spells (`nki.jit` for a `jit` imported from nki); "" where it is not a plain name."""
    parts: list[str] = []
    for _ in range(_ALIAS_DEPTH):
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        name = node.id
        place = next((item for item in scope.enclosing() if _binds(name, item)), None)
        if place is None:
            stars = [star for item in scope.enclosing() for star in item.stars if name in _ENTRIES]
            return ".".join([*stars[-1:], name, *reversed(parts)])
        if name in place.imports:
            return ".".join([place.imports[name], *reversed(parts)])
        if name not in place.aliases or isinstance(place.aliases[name], ast.Call):
            return ""
        node, scope = place.aliases[name], place
    return ""


def _is_partial(node: ast.Call, scope: Scope) -> bool:
    return dotted(node.func, scope).rpartition(".")[2] == "partial"


def _binds(name: str, scope: Scope) -> bool:
    return name in scope.imports or name in scope.definitions or name in scope.aliases or name in scope.bound


class KernelSearch:
    """Finds the kernels of a module, then follows the names in their bodies."""

    def __init__(self, module: Scope, kernel_names: Iterable[str]) -> None:
        self.module = module
        self.scopes = list(module.subtree())
        self.file_dialect: Dialect = self._dialect_of_imports()
        self.entries: dict[Scope, Dialect] = {}
        self.functions: dict[Scope, KernelFunction] = {}
        self.classes: dict[Scope, Dialect] = {}
        self.instantiations: dict[Scope, list[ast.Call]] = {}
        self.methods: dict[str, list[Scope]] = {}
        self.attributes: set[str] = set()
        self._find_entries(frozenset(kernel_names))
        for dialect in ("current", "legacy"):  # what both reach is held to the stricter, current rules
            for entry, its_dialect in self.entries.items():
                if its_dialect == dialect:
                    self._follow(entry, its_dialect)

    def _dialect_of_imports(self) -> Dialect:
        modules = [name for scope in self.scopes for name in (*scope.imports.values(), *scope.stars)]
        if any(name == "nki" or name.startswith("nki.") for name in modules):
            return "current"
        return "legacy" if any(name.partition(".")[0] == "neuronxcc" for name in modules) else "current"

    def _find_entries(self, kernel_names: frozenset[str]) -> None:
        for scope in self.scopes:
            for name, found in scope.definitions.items():
                for inner in found:
                    if isinstance(inner.node, _FUNCTIONS):
                        if name in kernel_names:
                            self.entries.setdefault(inner, self.file_dialect)
                        for decorator in inner.node.decorator_list:
                            self._enter(inner, self._entry_dialect(decorator, scope))
            for call in scope.calls:
                dialect = self._entry_dialect(call.func, scope)
                target = unwrapped(call.args[0]) if dialect and call.args else None
                if isinstance(target, ast.Name):
                    for inner in definitions_of(target.id, scope):
                        self._enter(inner, dialect)

    def _enter(self, scope: Scope, dialect: Dialect | None) -> None:
        if dialect and isinstance(scope.node, _FUNCTIONS):
            self.entries.setdefault(scope, dialect)

    def _entry_dialect(self, node: ast.expr, scope: Scope) -> Dialect | None:
        """The dialect of the entry point that a decorator, or a called expression, names; None where it is none."""
        if isinstance(node, ast.Name):  # made_elsewhere = nki.jit(mode="trace")
            place = next((item for item in scope.enclosing() if _binds(node.id, item)), scope)
            made = place.aliases.get(node.id)
            if isinstance(made, ast.Call) and (not made.args or _is_partial(made, place)):
                node = made
        if isinstance(node, ast.Call):
            node = node.args[0] if node.args and _is_partial(node, scope) else node.func
        name = dotted(node, scope)
        package = entry_package(name)
        if not package:
            return None
        if package == "neuronxcc.nki" or _OTHER_ENTRIES.get(name):
            return "legacy"
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        known = isinstance(root, ast.Name) and any(_binds(root.id, item) for item in scope.enclosing())
        return "current" if known and package == "nki" else self.file_dialect

    def _follow(self, entry: Scope, dialect: Dialect) -> None:
        kernel = entry.node
        assert isinstance(kernel, _FUNCTIONS)
        pending = [entry]
        while pending:
            scope = pending.pop()
            if scope in self.functions or not isinstance(scope.node, _FUNCTIONS):
                continue
            owner = scope.node if scope in self.entries else kernel
            self.functions[scope] = KernelFunction(node=scope.node, dialect=dialect, kernel=owner)
            for inner in scope.subtree():
                pending.extend(self._reached(inner, dialect))

    def _reached(self, scope: Scope, dialect: Dialect) -> Iterator[Scope]:
        called = {id(call.func): call for call in scope.calls}
        for name in (*scope.loads, *scope.annotated):
            for found in definitions_of(name.id, scope):
                if isinstance(found.node, _FUNCTIONS):
                    yield found
                elif isinstance(found.node, ast.ClassDef):
                    if id(name) in called:
                        self.instantiations.setdefault(found, []).append(called[id(name)])
                    yield from self._use_class(found, dialect)
        for attribute in scope.attributes - self.attributes:
            self.attributes.add(attribute)
            yield from self.methods.pop(attribute, ())

    def _use_class(self, scope: Scope, dialect: Dialect) -> Iterator[Scope]:
        if scope in self.classes:
            return
        self.classes[scope] = dialect
        for name, found in scope.definitions.items():
            if name in _ALWAYS_CALLED or name in self.attributes:
                yield from found
            else:
                self.methods.setdefault(name, []).extend(found)

    def found_functions(self) -> tuple[KernelFunction, ...]:
        """The functions of kernel code, in the order of the source."""
        return tuple(sorted(self.functions.values(), key=lambda item: (item.node.lineno, item.node.col_offset)))

    def found_classes(self) -> tuple[KernelClass, ...]:
        """The classes that kernel code instantiates, in the order of the source."""
        found = [
            KernelClass(
                node=scope.node,
                dialect=self.classes[scope],
                roots=_roots(scope),
                instantiations=tuple(calls),
            )
            for scope, calls in self.instantiations.items()
            if isinstance(scope.node, ast.ClassDef)
        ]
        return tuple(sorted(found, key=lambda item: (item.node.lineno, item.node.col_offset)))


def _roots(scope: Scope) -> tuple[str, ...]:
    roots: list[str] = []
    pending, seen = [scope], {scope}
    while pending:
        item = pending.pop()
        assert isinstance(item.node, ast.ClassDef)
        outside = item.parent or item
        if not item.node.bases:
            roots.append("object")
        for base in item.node.bases:
            name = base.value if isinstance(base, ast.Subscript) else base
            local = definitions_of(name.id, outside) if isinstance(name, ast.Name) else []
            classes = [found for found in local if isinstance(found.node, ast.ClassDef)]
            if not classes:
                roots.append(dotted(name, outside))
            pending.extend(found for found in classes if found not in seen)
            seen.update(classes)
    return tuple(roots)
