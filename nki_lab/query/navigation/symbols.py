"""Parts of a text: kernels, helpers, the tensors of kernels, classes; and the same for a whole workspace."""

from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from nki_lab.diagnostic import Span
from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.query.evaluation_cache import Examination
from nki_lab.query.navigation.meaning import enclosing_class
from nki_lab.query.navigation.reading import Reading
from nki_lab.query.navigation.workspace import Workspace
from nki_lab.source.kernel_code import KernelFunction
from nki_lab.source.occurrences import BINDING_ROLES, NameScope, Occurrence
from nki_lab.source.trees import FUNCTIONS, FunctionNode, first_line

Kind = Literal["function", "method", "class", "variable", "constant", "field"]
MOST_FOUND: Final = 256
"""Symbols of a workspace in one answer."""
KEPT: Final = 4096
"""Files whose symbols are remembered."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that a text defines: `span` is the whole definition, `place` the name in it."""

    name: str
    kind: Kind
    detail: str
    span: Span
    place: Span
    inside: tuple[Symbol, ...] = ()


def tensor_text(variable: Variable) -> str:
    """Return shape, dtype and memory of a tensor in short."""
    shape = "×".join(map(str, variable.shape or ()))
    return " ".join(part for part in (shape, variable.dtype.name if variable.dtype else "", variable.memory) if part)


def document_symbols(reading: Reading, known: Examination) -> list[Symbol]:
    """Return the definitions of a text, with what they hold inside them.

    Tensors are listed as far as an examination knows them, under the first known signature of their function.
    """
    kernels = {item.node: item for item in reading.facts.functions}
    return list(_inside(reading, reading.scope, known, kernels))


def _inside(
    reading: Reading, scope: NameScope, known: Examination, kernels: dict[FunctionNode, KernelFunction]
) -> Iterator[Symbol]:
    found = [*_definitions(reading, scope, known, kernels), *_variables(reading, scope, known)]
    yield from sorted(found, key=lambda item: (item.span.line, item.span.column))


def _definitions(
    reading: Reading, scope: NameScope, known: Examination, kernels: dict[FunctionNode, KernelFunction]
) -> Iterator[Symbol]:
    for child in scope.children:
        inner = next((item for item in child.subtree() if item.kind != "types"), child)
        node = inner.node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        place = reading.first(Occurrence(node.name, node, "definition"))
        if place is None or node.lineno in reading.facts.parsed.unread:
            continue
        inside = tuple(_inside(reading, inner, known, kernels))
        whole = reading.facts.span(node)
        line = first_line(node)
        span = Span(whole.file, line, whole.column if line == whole.line else 1, whole.end_line, whole.end_column)
        if isinstance(node, ast.ClassDef):
            yield Symbol(node.name, "class", "", span, place, inside)
        else:
            kind: Kind = "method" if enclosing_class(inner) is not None else "function"
            yield Symbol(node.name, kind, _detail(reading, kernels.get(node)), span, place, inside)


def _detail(reading: Reading, function: KernelFunction | None) -> str:
    """Return the part that a function plays: a kernel with its decorator, the helper of a kernel."""
    if function is None:
        return ""
    if not function.is_entry:
        return f"helper of {function.kernel.name}"
    decorators = (reading.facts.text(item) for item in function.node.decorator_list)
    return ", ".join(["kernel", *(f"@{text}" for text in decorators)])


def _variables(reading: Reading, scope: NameScope, known: Examination) -> Iterator[Symbol]:
    """Yield the tensors of a function, the fields of a class, the variables of a module."""
    for name, found in scope.occurrences.items():
        if scope.kind == "function":
            bound = (item for item in found if item.role in ("write", "parameter"))
            places = ((item, known.variables.get(_site(item.node))) for item in bound)
            first = next(((item, value) for item, value in places if value is not None and value.shape), None)
            if first is not None and first[1] is not None:
                place = reading.first(first[0])
                if place is not None:
                    yield Symbol(name, "variable", tensor_text(first[1]), place, place)
        elif name in scope.assigned or (scope.kind == "class" and name in scope.bound):
            item = next((item for item in found if item.role in BINDING_ROLES), None)
            place = None if item is None or not isinstance(item.node, ast.Name) else reading.first(item)
            if place is not None and name != "__all__":
                kind: Kind = "field" if scope.kind == "class" else "constant" if name.isupper() else "variable"
                yield Symbol(name, kind, "", place, place)


def _site(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


# -- workspaces ----------------------------------------------------------------------------------------------------

_files: OrderedDict[tuple[str, Hashable], tuple[Symbol, ...]] = OrderedDict()


def workspace_symbols(workspace: Workspace, wanted: str) -> list[Symbol]:
    """Return the functions and classes of the workspace's NKI files whose names fit a query, the best first."""
    ranked = []
    for path in workspace.nki_files():
        for item in _symbols_in(workspace, path):
            rank = fitness(item.name, wanted)
            if rank is not None:
                is_kernel = item.detail.startswith("kernel")
                ranked.append((rank[0], not is_kernel, rank[1], item.name, path, item))
    ranked.sort(key=lambda entry: (entry[:5], entry[5].place.line))
    return [item for *_, item in ranked[:MOST_FOUND]]


def _symbols_in(workspace: Workspace, path: str) -> tuple[Symbol, ...]:
    source = workspace.texts.get(path)
    opened = source if source is None or isinstance(source, str) else tuple(source)
    key = (path, workspace.library.stamp(path) if opened is None else hash(opened))
    known = _files.get(key)
    if known is None:
        reading = workspace.glance(path)
        found = [] if reading is None or not reading.uses_nki else document_symbols(reading, Examination())
        known = tuple(replace(item, inside=()) for item in found if item.kind in ("function", "class"))
        _files[key] = known
        while len(_files) > KEPT:
            _files.popitem(last=False)
    return known


def fitness(name: str, wanted: str) -> tuple[int, int] | None:
    """Return how well a name fits what was typed, the least best; None where its letters do not occur in order."""
    low, asked = name.lower(), "".join(wanted.lower().split())
    if asked in low:
        rank = 0 if low == asked else 1 if low.startswith(asked) else 2
        return rank, len(name)
    at = 0
    for letter in asked:
        at = low.find(letter, at) + 1
        if not at:
            return None
    return 3, len(name)
