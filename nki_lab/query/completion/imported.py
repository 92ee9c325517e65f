"""Functions that a text imports from other files of the user's."""

from __future__ import annotations

from typing import Final

from nki_lab.query.completion.values import ValuesAt
from nki_lab.query.navigation.workspace import Workspace
from nki_lab.source.names import NameUses

_HOPS: Final = 4
"""Modules that hand a name on."""


def imported_function(
    path: str, importer: str, files: Workspace, hops: int = _HOPS
) -> tuple[NameUses, ValuesAt] | None:
    """Return the function or class that an import spells (`.helpers.narrowed`), with the values of its file.

    None where the files have no such name.
    """
    level = len(path) - len(path.lstrip("."))
    module, _, name = path[level:].rpartition(".")
    # `from . import helpers` spells `..helpers` as well.
    for up in (level, level - 1) if level else (0,):
        file = files.module(up, module, importer) if module or up else None
        reading = files.reading(file) if file is not None else None
        if file is None or reading is None:
            continue
        facts = reading.facts
        if found := facts.module.definitions.get(name):
            return found[-1], facts.parsed.once(ValuesAt, lambda facts=facts: ValuesAt(facts))  # type: ignore[misc]
        further = facts.module.imports.get(name)
        if further and hops:
            return imported_function(further, file, files, hops - 1)
    return None
