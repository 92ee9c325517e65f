"""The files that are checked in folders, by `nki-lab check` and for an editor, each with its project's settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nki_lab.diagnostic import Diagnostic, NkiError, Span, diagnose
from nki_lab.isa.spelling import did_you_mean
from nki_lab.query.checking import unreadable
from nki_lab.query.configuration import NONE, Configuration, configuration_of
from nki_lab.source_files import UnsuitableFileError, is_kind, leads_outside, require_regular

SUFFIXES: Final = (".py", ".ipynb")
"""Suffixes of the files that are checked in folders."""

_PASSED_OVER: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
"""Folders of other people's files, beside hidden ones and virtual environments."""


_IMPORTS: Final = re.compile(rb"^[ \t]*(?:from|import)[ \t][^#\r\n]*\b(?:nki|neuronxcc|nkilib)\b", re.MULTILINE)


def uses_nki(source: bytes) -> bool:
    """Return whether a file's imports name NKI."""
    return _IMPORTS.search(source) is not None


@dataclass(slots=True)
class Sources:
    """The files below some paths with their settings, and the findings on the way to them.

    A file that is named is looked at whatever its ending, and though it is excluded, unless `force_exclude`.
    """

    force_exclude: bool = False
    files: list[tuple[Path, Configuration]] = field(default_factory=list)
    found: list[Diagnostic] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _known: dict[Path, Configuration | None] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """Take in a file, or the files in a folder, each once, in the order of their names within a folder."""
        if is_kind(path.is_dir):
            self._folder(path)
        else:
            self._file(path, path.parent, named=True)

    def add_text(self, path: Path) -> None:
        """Take in a text that is no file, as if it stood at `path`: with the settings of that folder."""
        configuration = self._configuration(path.parent)
        if configuration is not None and str(path) not in self._seen:
            self._seen.add(str(path))
            self.files.append((path, configuration))

    def _file(self, path: Path, top: Path, *, named: bool) -> bool:
        """Take in a file below `top`; gives whether it, or what is wrong with its settings, is reported."""
        configuration = self._configuration(path.parent)
        if configuration is None:
            return True
        if (self.force_exclude or not named) and configuration.excludes(path):
            return False
        if not is_kind(path.is_file):  # a pipe in a folder would keep us waiting
            self.found.append(_missing(path))
            return True
        inside = (top, configuration.folder or top)
        if not named and leads_outside(path, inside):
            self.found.append(
                unreadable(str(path), UnsuitableFileError("it is a link to a file outside of the project"))
            )
            return True
        real = os.path.realpath(path)
        if real not in self._seen:
            self._seen.add(real)
            self.files.append((path, configuration))
        return True

    def _folder(self, top: Path) -> None:
        seen = False
        for path in self.below(top):
            seen = self._file(path, top, named=False) or seen
        if not seen:
            self.found.append(_nothing(top))

    def below(self, top: Path) -> Iterator[Path]:
        """The files in a folder. Links to folders are not followed: they may lead round in a circle."""
        for folder, folders, names in os.walk(top, onerror=self._refused):
            here = Path(folder)
            configuration = self._configuration(here) or NONE
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".")
                and name not in _PASSED_OVER
                and not configuration.excludes(here / name)
                and not self._is_closed(here / name)
            )
            for name in sorted(names):
                if name.endswith(SUFFIXES) and not name.startswith("."):
                    yield here / name

    def is_excluded(self, path: Path) -> bool:
        """Whether the settings of a file's project leave it out, or cannot be understood."""
        configuration = self._configuration(path.parent)
        return configuration is None or configuration.excludes(path)

    def _is_closed(self, folder: Path) -> bool:
        """Whether a folder is a virtual environment, or one that may not be entered, which is reported."""
        try:
            return (folder / "pyvenv.cfg").exists()
        except OSError as error:
            self._refused(OSError(error.errno, error.strerror, str(folder)))
            return True

    def _refused(self, error: OSError) -> None:
        self.found.append(unreadable(str(error.filename), error))

    def _configuration(self, folder: Path) -> Configuration | None:
        """The settings for the files of a folder; None where they cannot be understood, which is reported once."""
        if folder not in self._known:
            try:
                self._known[folder] = configuration_of(folder)
            except NkiError as error:
                self.found += [item for item in error.diagnostics if item not in self.found]
                self._known[folder] = None
        return self._known[folder]


def _missing(path: Path) -> Diagnostic:
    try:
        require_regular(path.stat())
        error: Exception = OSError(0, "it is hidden")
    except (OSError, ValueError) as why:
        error = why
    found = unreadable(str(path), error)
    near = ""
    if isinstance(error, FileNotFoundError) and is_kind(path.parent.is_dir):
        near = did_you_mean(path.name, (item.name for item in path.parent.iterdir()))
    return found if not near else diagnose(found.code, found.message, span=found.span, help=near)


def _nothing(folder: Path) -> Diagnostic:
    return diagnose(
        "NKI025",
        f"{folder} has no Python files and no notebooks",
        span=Span(str(folder), 1, 1, 1, 2),
        limit="hidden folders, virtual environments and what is excluded do not count",
    )
