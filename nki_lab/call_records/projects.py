"""The project that a source file belongs to, as far as records of calls need it: its folder, and whether it wants them.

A project is the nearest folder above a file with a `[tool.nki-lab]` table, else the nearest one with a pyproject.toml
or a repository.
"""

# ruff: noqa: PTH100, PTH110, PTH113, PTH116, PTH118, PTH120
# Looked up at every call of a kernel: as texts that takes a tenth of the time.

from __future__ import annotations

import os
import tomllib
from functools import lru_cache
from time import monotonic
from typing import Final, NamedTuple

from nki_lab.source_files import read_source

SETTING: Final = "record-signatures"
FOLDERS_UP: Final = 32
"""Folders above a file that are looked at."""


class Project(NamedTuple):
    """A project's folder, empty where a file is in none, and whether its calls are recorded."""

    folder: str = ""
    records: bool = False


NONE: Final = Project()

Stamp = tuple[int, int] | None
_kept: dict[str, tuple[Project, tuple[tuple[str, Stamp], ...], float]] = {}
"""Projects by file, with the stamps of the settings that were looked for, and the time of that."""
_MOST_KEPT: Final = 4096
_SECONDS: Final = 1.0
"""A change of settings is noticed after so long."""


def project_of(file: str) -> Project:
    """Return the project of a file; that of a cell or of another text without a file is `NONE`."""
    known, now = _kept.get(file), monotonic()
    if known is not None:
        found, read, then = known
        if now - then < _SECONDS:
            return found
        if all(_stamp(path) == stamp for path, stamp in read):
            _kept[file] = found, read, now
            return found
    found, paths = _search(file)
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[file] = found, tuple((path, _stamp(path)) for path in paths), now
    return found


def _search(file: str) -> tuple[Project, list[str]]:
    """Return the project, and the paths of settings that decide on it, some of which do not exist."""
    if file.startswith("<") or not os.path.isfile(file):
        return NONE, [file]
    return _search_from(os.path.dirname(os.path.abspath(file)))


def folder_of(folder: str) -> str:
    """Return the folder of the project that a folder belongs to; empty where it is in none."""
    return _search_from(os.path.abspath(folder))[0].folder


def _search_from(folder: str) -> tuple[Project, list[str]]:
    fallback = ""
    looked_for: list[str] = []
    for _ in range(FOLDERS_UP):
        settings = os.path.join(folder, "pyproject.toml")
        looked_for.append(settings)
        stamp = _stamp(settings)
        records = None if stamp is None else _setting(settings, stamp)
        if records is not None:
            return Project(folder, records), looked_for
        if not fallback and (stamp is not None or os.path.exists(os.path.join(folder, ".git"))):
            fallback = folder
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return Project(fallback), looked_for


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=64)
def _setting(file: str, _stamp: Stamp) -> bool | None:
    """Return the setting in a pyproject.toml; None where it has no table of ours, or cannot be understood."""
    try:
        whole = tomllib.loads(read_source(file).decode())
    except (OSError, ValueError, RecursionError):  # the checker reports it
        return None
    tool = whole.get("tool")
    table = tool.get("nki-lab") if isinstance(tool, dict) else None
    return table.get(SETTING) is True if isinstance(table, dict) else None
