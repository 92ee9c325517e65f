"""Finds the functions and classes of a module that are kernel code: kernels, and what they reach by name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from nki_lab.source.names import (
    ENTRY_NAMES,
    OTHER_ENTRIES,
    NameUses,
    definitions_of,
    dotted,
    entry_package,
    is_partial,
    unwrapped,
)
from nki_lab.source.trees import FUNCTIONS, FunctionNode, attribute_path

Dialect = Literal["current", "beta1"]

_ALWAYS_CALLED: Final = frozenset({"__init__", "__post_init__", "__call__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFunction:
    """A function whose body is kernel code. `kernel` is the kernel that reaches it: itself where it is an entry."""

    node: FunctionNode
    dialect: Dialect
    kernel: FunctionNode

    @property
    def is_entry(self) -> bool:
        """Return whether the function is a kernel that the host launches, not a helper."""
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


class KernelSearch:
    """Finds the kernels of a module, or starts from given `entries`, then follows the names in their bodies."""

    def __init__(
        self, module: NameUses, kernel_names: Iterable[str] = (), entries: Mapping[NameUses, Dialect] | None = None
    ) -> None:
        self.module = module
        self.scopes = list(module.subtree())
        self.file_dialect: Dialect = self._dialect_of_imports()
        self.entries = dict(entries or {})
        self.functions: dict[NameUses, KernelFunction] = {}
        self.classes: dict[NameUses, Dialect] = {}
        self.instantiations: dict[NameUses, list[ast.Call]] = {}
        self.methods: dict[str, list[NameUses]] = {}
        self.attributes: set[str] = set()
        if entries is None:
            self._find_entries(frozenset(kernel_names))
        for dialect in ("current", "beta1"):  # what both reach is held to the stricter, current rules
            for entry, its_dialect in self.entries.items():
                if its_dialect == dialect:
                    self._follow(entry, its_dialect)

    def _dialect_of_imports(self) -> Dialect:
        modules = [name for scope in self.scopes for name in (*scope.imports.values(), *scope.stars)]
        self.uses_nki = any(name.partition(".")[0] in ("nki", "neuronxcc") for name in modules)
        if any(name == "nki" or name.startswith("nki.") for name in modules):
            return "current"
        return "beta1" if any(name.partition(".")[0] == "neuronxcc" for name in modules) else "current"

    def _find_entries(self, kernel_names: frozenset[str]) -> None:
        for scope in self.scopes:
            for name, found in scope.definitions.items():
                for inner in found:
                    if isinstance(inner.node, FUNCTIONS):
                        if name in kernel_names:
                            self.entries.setdefault(inner, self.file_dialect)
                        for decorator in inner.node.decorator_list:
                            self._enter(inner, self._entry_dialect(decorator, scope))
            for call in scope.calls:
                if type(call.func) is ast.Attribute and call.func.attr not in ENTRY_NAMES:
                    continue  # most calls
                dialect = self._entry_dialect(call.func, scope)
                target = unwrapped(call.args[0]) if dialect and call.args else None
                if isinstance(target, ast.Name):
                    for inner in definitions_of(target.id, scope):
                        self._enter(inner, dialect)

    def _enter(self, scope: NameUses, dialect: Dialect | None) -> None:
        if dialect and isinstance(scope.node, FUNCTIONS):
            self.entries.setdefault(scope, dialect)

    def _entry_dialect(self, node: ast.expr, scope: NameUses) -> Dialect | None:
        """Return the dialect of the entry point that a decorator, or a called expression, names; None where it is
        none.
        """
        if isinstance(node, ast.Name):  # made_elsewhere = nki.jit(mode="trace")
            place = scope.binder(node.id) or scope
            made = place.aliases.get(node.id)
            if isinstance(made, ast.Call) and (not made.args or is_partial(made, place)):
                node = made
        if isinstance(node, ast.Call):
            node = node.args[0] if node.args and is_partial(node, scope) else node.func
        if isinstance(node, ast.Attribute) and node.attr not in ENTRY_NAMES:
            return None
        name = dotted(node, scope)
        package = entry_package(name)
        if not package:
            return None
        if package == "neuronxcc.nki" or OTHER_ENTRIES.get(name):
            return "beta1"
        root, _ = attribute_path(node)
        known = isinstance(root, ast.Name) and scope.binder(root.id) is not None
        return "current" if known and package == "nki" else self.file_dialect

    def _follow(self, entry: NameUses, dialect: Dialect) -> None:
        kernel = entry.node
        assert isinstance(kernel, FUNCTIONS)
        pending = [entry]
        while pending:
            scope = pending.pop()
            if scope in self.functions or not isinstance(scope.node, FUNCTIONS):
                continue
            owner = scope.node if scope in self.entries else kernel
            self.functions[scope] = KernelFunction(node=scope.node, dialect=dialect, kernel=owner)
            for inner in scope.subtree():
                pending.extend(self._reached(inner, dialect))

    def _reached(self, scope: NameUses, dialect: Dialect) -> Iterator[NameUses]:
        nodes = (*scope.loads, *scope.annotated)
        meant = {name: those for name in {node.id for node in nodes} if (those := definitions_of(name, scope))}
        called: dict[int, ast.Call] | None = None
        for name in [node for node in nodes if node.id in meant]:
            for found in meant[name.id]:
                if isinstance(found.node, FUNCTIONS):
                    yield found
                elif isinstance(found.node, ast.ClassDef):
                    if called is None:
                        called = {id(call.func): call for call in scope.calls}
                    if id(name) in called:
                        self.instantiations.setdefault(found, []).append(called[id(name)])
                    yield from self._use_class(found, dialect)
        for attribute in scope.attributes - self.attributes:
            self.attributes.add(attribute)
            yield from self.methods.pop(attribute, ())

    def _use_class(self, scope: NameUses, dialect: Dialect) -> Iterator[NameUses]:
        if scope in self.classes:
            return
        self.classes[scope] = dialect
        for name, found in scope.definitions.items():
            if name in _ALWAYS_CALLED or name in self.attributes:
                yield from found
            else:
                self.methods.setdefault(name, []).extend(found)

    def found_functions(self) -> tuple[KernelFunction, ...]:
        """Return the functions of kernel code, in the order of the source."""
        return tuple(sorted(self.functions.values(), key=lambda item: (item.node.lineno, item.node.col_offset)))

    def found_classes(self) -> tuple[KernelClass, ...]:
        """Return the classes that kernel code instantiates, in the order of the source."""
        roots: dict[NameUses, tuple[str, ...]] = {}
        found = [
            KernelClass(
                node=scope.node,
                dialect=self.classes[scope],
                roots=_roots(scope, roots),
                instantiations=tuple(calls),
            )
            for scope, calls in self.instantiations.items()
            if isinstance(scope.node, ast.ClassDef)
        ]
        return tuple(sorted(found, key=lambda item: (item.node.lineno, item.node.col_offset)))


def _roots(scope: NameUses, known: dict[NameUses, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names that the bases of a class come down to; of classes with one base, those of the base."""
    above: dict[NameUses, None] = {}
    item = scope
    while item not in known and item not in above:
        above[item] = None
        classes = [found for _, found in _bases(item)]
        if len(classes) != 1 or len(classes[0]) != 1:
            break
        item = classes[0][0]
    if item not in known:
        known[item] = _roots_of(item)
    known.update(dict.fromkeys(above, known[item]))
    return known[scope]


def _roots_of(scope: NameUses) -> tuple[str, ...]:
    roots: list[str] = []
    pending, seen = [scope], {scope}
    while pending:
        item = pending.pop()
        bases = _bases(item)
        if not bases:
            roots.append("object")
        for name, classes in bases:
            if not classes:
                roots.append(dotted(name, item.parent or item))
            pending.extend(found for found in classes if found not in seen)
            seen.update(classes)
    return tuple(roots)


def _bases(scope: NameUses) -> list[tuple[ast.expr, list[NameUses]]]:
    """Return the bases of a class, each with the classes of this module that it may be."""
    assert isinstance(scope.node, ast.ClassDef)
    outside, found = scope.parent or scope, []
    for base in scope.node.bases:
        name = base.value if isinstance(base, ast.Subscript) else base
        local = definitions_of(name.id, outside) if isinstance(name, ast.Name) else []
        found.append((name, [item for item in local if isinstance(item.node, ast.ClassDef)]))
    return found
