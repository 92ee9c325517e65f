"""The declarations of NKI's names in the packaged stubs: places that a definition can lead to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import nki_lab.diagnostic
from nki_lab.diagnostic import Span
from nki_lab.query.navigation.workspace import Workspace
from nki_lab.source.occurrences import NameScope, Occurrence
from nki_lab.source.trees import FUNCTIONS

DEEPEST: Final = 6
"""Imports from one stub to the next."""


@cache
def stub_folder(package: str) -> Path | None:
    """Return the folder of the stubs of `nki` or `neuronxcc`: beside this package, where the wheel puts it, or in the
    checkout; None where it is at neither place.
    """
    if package not in ("nki", "neuronxcc"):
        return None
    beside = Path(nki_lab.diagnostic.__file__).resolve().parents[1]
    folders = (beside / f"{package}-stubs", beside / "stubs" / f"{package}-stubs")
    return next((item for item in folders if (item / "__init__.pyi").is_file()), None)


def declarations_of(dotted: str, workspace: Workspace, depth: int = DEEPEST) -> list[Span]:
    """Return the places that declare a name of NKI, spelt in full, or one of its parameters: `nki.isa.iota(dst)`.

    Overloads have several. Empty for names that no stub declares, and for those of other packages.
    """
    name, _, parameter = dotted.removesuffix(")").partition("(")
    package, *parts = name.split(".")
    folder = stub_folder(package)
    if folder is None:
        return []
    place, path = folder, folder / "__init__.pyi"
    while parts and ((place / parts[0] / "__init__.pyi").is_file() or (place / f"{parts[0]}.pyi").is_file()):
        place /= parts.pop(0)
        inside = place / "__init__.pyi"
        path = inside if inside.is_file() else place.with_suffix(".pyi")
    reading = workspace.reading(str(path))
    if reading is None:
        return []
    if not parts:
        return [Span(reading.file, 1, 1, 1, 1)]
    found = list(_bindings(reading.scope, parts))
    for item in found:
        owner = item.owner
        if isinstance(owner, ast.ImportFrom) and isinstance(item.node, ast.alias) and depth > 0:
            rest = ".".join([owner.module or "", item.node.name, *parts[1:]])
            return declarations_of(f"{rest}({parameter})" if parameter else rest, workspace, depth - 1)
    if parameter:
        found = [item for scope in reading.scope.subtree() for item in _parameters(scope, found, parameter)]
    return [span for item in found for span in reading.spans(item)]


def _bindings(module: NameScope, parts: list[str]) -> Iterator[Occurrence]:
    """Yield the bindings of a name, or of a member of a class; of what a stub imports, the import."""
    scope = module
    for number, part in enumerate(parts):
        found = scope.bindings(part)
        if number == len(parts) - 1 or any(item.role == "import" for item in found):
            yield from found
            return
        inner = [item for item in scope.children if item.kind == "class" and item.node in [one.node for one in found]]
        if not inner:
            return
        scope = inner[0]


def _parameters(scope: NameScope, functions: list[Occurrence], name: str) -> list[Occurrence]:
    own = isinstance(scope.node, FUNCTIONS) and any(item.node is scope.node for item in functions)
    return [item for item in scope.bindings(name) if item.role == "parameter"] if own else []
