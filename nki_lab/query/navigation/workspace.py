"""The files that names lead to: open texts as they are in the editor, others as they are on the disk."""

# ruff: noqa: PTH117, PTH119, PTH120
# Paths are texts here as everywhere in the search for modules.

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nki_lab.kernel_runtime.interpreter import ModuleFinder, Stopped
from nki_lab.kernel_runtime.interpreter.module_finder import MOST_BYTES
from nki_lab.query.navigation.reading import Reading, Source, reading_of
from nki_lab.query.project_files import FOLDERS_UP, callers_of, files_below, uses_nki
from nki_lab.source.module import decoded, normalized
from nki_lab.source_files import read_source

KEPT: Final = 12
"""Texts whose names are remembered from one request to the next."""

_readings: OrderedDict[tuple[str, Hashable], Any] = OrderedDict()
_MISSING: Final = object()
_lock: Final = threading.Lock()


class Workspace:
    """Reads the files of a workspace for one request.

    `library` finds modules; `texts` are the open ones by their paths; `folders` are those of the workspace, and
    the projects of open files. Once `stop` says so, no further file is read: a search through many ends with `Stopped`.
    """

    def __init__(
        self,
        library: ModuleFinder,
        texts: Mapping[str, Source],
        folders: Sequence[str] = (),
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.library = library
        self.texts = texts
        self.folders = tuple(folders)
        self.stop = stop
        self._read: dict[str, Reading | None] = {}
        self._lines: dict[str, Sequence[str]] = {}

    def reading(self, path: str) -> Reading | None:
        """Return the names of a file; None where it cannot be read."""
        if path not in self._read:
            self._read[path] = self._recalled(path)
        return self._read[path]

    def glance(self, path: str) -> Reading | None:
        """Return the names of a file that is not asked about again: nothing of it is kept."""
        return self._read[path] if path in self._read else self._made(path)

    def lines(self, path: str) -> Sequence[str]:
        """Return the lines of a file; none where it cannot be read."""
        reading = self._read.get(path)
        if reading is not None:
            return reading.facts.lines
        if path not in self._lines:
            try:
                self._lines[path] = normalized(decoded(read_source(path, MOST_BYTES))[0]).split("\n")
            except (OSError, ValueError, SyntaxError, LookupError):
                self._lines[path] = ()
        return self._lines[path]

    def _recalled(self, path: str) -> Reading | None:
        opened = self.texts.get(path)
        state = self.library.stamp(path) if opened is None else opened if isinstance(opened, str) else tuple(opened)
        if state is None:
            return None
        with _lock:
            known = _readings.get((path, state), _MISSING)
            if known is not _MISSING:
                _readings.move_to_end((path, state))
                return known
        made = self._made(path)
        with _lock:
            for older in [key for key in _readings if key[0] == path]:  # of a text that is edited, one for every edit
                del _readings[older]
            _readings[path, state] = made
            while len(_readings) > KEPT:
                _readings.popitem(last=False)
        return made

    def _made(self, path: str) -> Reading | None:
        if self.stop():
            raise Stopped
        opened = self.texts.get(path)
        if opened is None and not path.endswith((".py", ".pyi")):
            return None
        try:
            source = read_source(path, MOST_BYTES) if opened is None else opened
        except (OSError, ValueError):
            return None
        return reading_of(source, path)

    def module(self, level: int, name: str, importer: str) -> str | None:
        """Return the file, or the folder, of the module that `importer` imports; None where it is not to be read."""
        if not level:
            return self.library.find(name, importer, {}) if name else None
        folder = self.library.place(importer)
        if not folder or level > 16:
            return None
        for _ in range(level):
            folder = os.path.dirname(folder)
        return self.library.inside(folder, name.split(".") if name else (), {})

    def member(self, module: str, name: str) -> str | None:
        """Return the file of a module in a package, given by its own file or folder."""
        folder = os.path.dirname(module) if os.path.basename(module) == "__init__.py" else module
        if folder.endswith(".py") or not name.isidentifier():
            return None
        return self.library.inside(folder, (name,), {})

    def is_own(self, path: str) -> bool:
        """Return whether a file belongs to the workspace, and not to an installed package."""
        if path in self.texts:
            return True
        inside = [item for item in self.library.site if path.startswith(item + os.sep)]
        folders = [*self.folders, *self._projects()]
        own = [item for item in folders if path.startswith(item.rstrip(os.sep) + os.sep)]
        return bool(own) and max(map(len, own)) >= max(map(len, inside), default=0)

    def _projects(self) -> Iterator[str]:
        for path in self.texts:
            if os.path.isabs(path):
                yield self.library.project(path, FOLDERS_UP) or os.path.dirname(path)

    def users(self, path: str, names: Iterable[str]) -> list[str]:
        """Return the files that may import the module at `path` and mention one of its names; `path` is left out."""
        wanted = frozenset(names)
        found = dict.fromkeys(callers_of(path, wanted, self.library, self.folders) if wanted else ())
        words = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(wanted)))})\b")
        for other, source in self.texts.items():
            text = source if isinstance(source, str) else "\n".join(source)
            if wanted and words.search(text):
                found[other] = None
            else:
                found.pop(other, None)
        found.pop(path, None)
        return list(found)

    def nki_files(self) -> Iterator[str]:
        """Yield the files of the workspace that use NKI, those that are open first."""
        yield from self.texts
        for folder in dict.fromkeys((*self.folders, *self._projects())):
            for path, key in files_below(folder):
                if path not in self.texts and uses_nki(key):
                    yield path
