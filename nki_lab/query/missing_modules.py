"""Modules that kernel code takes names from, and that are not found."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.kernel_runtime.interpreter import ModuleFinder
from nki_lab.source import SyntaxFacts
from nki_lab.source.magics import OTHER_CELLS
from nki_lab.source.names import NameUses

_MOST: Final = 4
"""Names that a finding lists."""


def missing_modules(facts: SyntaxFacts, library: ModuleFinder) -> Iterator[Diagnostic]:
    """Yield NKI124 for each module or package that there is not, and whose names kernels use: at its first import.

    Imports in a branch or a `try` may be meant not to succeed: they are left out.
    """
    missing: dict[str, tuple[ast.stmt, list[str]]] = {}
    for node in facts.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, bound in _imported(node):
                if name in missing or _is_missing(node, name, facts.file, library):
                    missing.setdefault(name, (node, []))[1].extend(bound)
    used = _used_in_kernels(facts) if missing else {}
    unbound = [item for item, is_bound in used.items() if not is_bound]
    for name, (node, bound) in missing.items():
        given = [*bound, *unbound] if "*" in bound else bound
        if names := [item for item in dict.fromkeys(given) if item in used]:
            yield _finding(facts, node, name, names)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules and outermost packages of an import statement, with the names that it binds."""
    if isinstance(node, ast.Import):
        for item in node.names:
            top = item.name.partition(".")[0]
            yield top, [item.asname or top]
        return
    name = "." * node.level + (node.module or "")
    yield name if node.level else name.partition(".")[0], [item.asname or item.name for item in node.names]


def _is_missing(node: ast.Import | ast.ImportFrom, name: str, file: str, library: ModuleFinder) -> bool:
    if isinstance(node, ast.Import) or not node.level:
        return name != OTHER_CELLS and library.lacks(name, file)
    place = Path(library.place(file))
    if not node.module or node.level > len(place.parents) or not place.is_file():  # a text may have no neighbours
        return False
    return library.inside(str(place.parents[node.level - 1]), node.module.split("."), {}) is None


def _used_in_kernels(facts: SyntaxFacts) -> dict[str, bool]:
    """Return the names of the module's that kernel code reads, but for builtins: whether it binds them."""
    kernels = {item.node for item in facts.functions}
    found: dict[str, bool] = {}
    stack: list[tuple[NameUses, bool]] = [(facts.module, False)]
    while stack:
        scope, inside = stack.pop()
        inside = inside or scope.node in kernels
        for item in scope.loads if inside else ():
            binder = scope.binder(item.id)
            if binder is facts.module or (binder is None and not hasattr(builtins, item.id)):
                found[item.id] = binder is not None
        stack += [(inner, inside) for inner in scope.children]
    return found


def _finding(facts: SyntaxFacts, node: ast.stmt, name: str, used: list[str]) -> Diagnostic:
    names = [*used[:_MOST], f"{len(used) - _MOST} more"] if len(used) > _MOST else used
    listed = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
    return diagnose(
        "NKI124",
        f"no module {name} is found: what kernels do with {listed} is not checked",
        span=facts.place(node),
        limit="modules are looked for beside the file, in its project and in its Python environment",
        help='set paths = ["its folder"] or python = "the environment" in [tool.nki-lab], or install it',
    )
