"""Names in a project's settings that nothing has: functions in `shapes`, folders of modules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.spelling import did_you_mean
from nki_lab.query.configuration import Configuration, misnamed
from nki_lab.query.source_tree import Sources
from nki_lab.source_files import is_kind, read_source

MOST_FILES: Final = 2000
"""Files of a project that are searched; nothing is said about the names of a larger one."""

_DEFINED: Final = re.compile(rb"\bdef\s+(\w+)")
_ASSIGNED: Final = re.compile(rb"\b(\w+)\s*(?::[^=\n]*)?=(?!=)")


def misnamed_shapes(files: Iterable[tuple[Path, Configuration]]) -> list[Diagnostic]:
    """Return the NKI024 findings about keys of `shapes` that name no file, or no function of a file or project."""
    settings: dict[Path, Configuration] = {}
    for _, configuration in files:
        if configuration.folder is not None and configuration.shapes:
            settings.setdefault(configuration.folder, configuration)
    return [item for folder, configuration in settings.items() for item in _misnamed(folder, configuration)]


def missing_folders(files: Iterable[tuple[Path, Configuration]]) -> list[Diagnostic]:
    """Return the NKI024 warnings about folders of modules that projects name and do not have."""
    settings = {configuration.folder: configuration for _, configuration in files}
    return [item for configuration in settings.values() for item in configuration.missing()]


def _misnamed(folder: Path, configuration: Configuration) -> Iterator[Diagnostic]:
    keys = [key.rpartition("::") for key in configuration.shapes]
    project = None if all(file for file, _, _ in keys) else _names_below(folder)
    for file, colons, name in keys:
        key, known = f"{file}{colons}{name}", project
        if file:
            path = folder / file
            if not is_kind(path.is_file):
                beside = [item.relative_to(folder).as_posix() for item in path.parent.glob("*.py")]
                yield misnamed(folder, key, f"shapes names {file}, which is no file", did_you_mean(file, beside))
                continue
            known = _names(path)
        if known is None or name in known.defined | known.assigned:
            continue
        near = did_you_mean(name, known.defined) or "name a function at the top level of a file, or file.py::name"
        where = file or "the project"
        yield misnamed(folder, key, f"shapes names {name}, and {where} has no function of that name", near)


class _Names(NamedTuple):
    """The names that a text defines as functions, and those that it assigns."""

    defined: frozenset[str]
    assigned: frozenset[str]


def _names(path: Path) -> _Names | None:
    """Return the names that a file binds, and maybe some others; None where it cannot be read."""
    try:
        text = read_source(path)
    except (OSError, ValueError):
        return None
    if path.suffix == ".ipynb":
        text = text.replace(rb"\n", b"\n")
    defined, assigned = (
        frozenset(name.decode("utf-8", "replace") for name in pattern.findall(text))
        for pattern in (_DEFINED, _ASSIGNED)
    )
    return _Names(defined, assigned)


def _names_below(folder: Path) -> _Names | None:
    """Return the names that the files of a project bind; None where that is not known of all files."""
    sources = Sources()
    paths = list(islice(sources.below(folder), MOST_FILES + 1))
    parts = [_names(path) for path in paths[:MOST_FILES]]
    known = [item for item in parts if item is not None]
    if len(paths) > MOST_FILES or len(known) < len(parts) or sources.found:
        return None
    return _Names(
        frozenset[str]().union(*(item.defined for item in known)),
        frozenset[str]().union(*(item.assigned for item in known)),
    )
