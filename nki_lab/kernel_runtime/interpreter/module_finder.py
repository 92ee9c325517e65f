"""Finding the modules that a file imports on the disk. They are read and parsed, never executed or imported."""

# ruff: noqa: PTH100, PTH114, PTH112, PTH116, PTH117, PTH118, PTH119, PTH120, PTH208
# Paths are joined and compared by the thousand: as texts that takes a tenth of the time.
from __future__ import annotations

import os
import re
import stat
import sys
import zlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.source.module import PARSER_FAILURES, ModuleSource, decoded, normalized, parsed
from nki_lab.source_files import leads_outside, read_source

NOTEBOOK: Final = "_nki_lab_notebook"
"""The module whose names are the arrays of a library."""
MOST_BYTES: Final = 4 << 20
"""Size of a module beyond which it is not read."""
KEPT: Final = 512
"""Parsed modules that are remembered, by file and modification time."""
ANCESTORS: Final = 8
"""Folders above a file that an absolute import may start from: projects nest no deeper."""

# Packages that the evaluator has its own picture of, or none: their source says nothing about kernels.
_FOREIGN: Final = frozenset(sys.stdlib_module_names) | {
    "nki", "nki_lab", "neuronxcc", "numpy", "torch", "torch_neuronx", "torch_xla", "jax", "jaxlib", "jax_neuronx",
    "libneuronxla", "ml_dtypes", "scipy", "pandas", "tensorflow", "pytest", "hypothesis", "IPython", "matplotlib",
    "transformers",
}  # fmt: skip
_USES_NKI: Final = re.compile(rb"\b(?:nki|nl|nisa|neuronxcc|nkilib)\b")

Stamp = tuple[int, int, int] | None
"""Modification time, size and kind of a path; None where there is nothing."""
Reads = dict[str, Stamp]
"""Stamps of all paths that a search looked at: as long as they are the same, so is its result."""


@dataclass(frozen=True)
class Buffer:
    """The text of a file that is open in an editor, in UTF-8. Its tree goes when the next text takes its place."""

    data: bytes
    _modules: dict[str, ModuleSource | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def stamp(self) -> tuple[int, int, int]:
        """Return what stands for the modification time and size of a file: none on a disk has these."""
        return -1 - zlib.crc32(self.data), len(self.data), 0

    def module(self, shown: str) -> ModuleSource | None:
        """Return the module that findings call `shown`; None where the text is no Python."""
        if shown not in self._modules:
            self._modules[shown] = _module_of(self.data, shown)
        return self._modules[shown]


class ModuleFinder:
    """Finds modules as the Python that runs the file would.

    `paths` are folders that the project names; `site` are those of installed packages, of which only modules that use
    NKI are read; `folder` is where a text without a file stands; `given` are modules that are on no disk,
    by the name of a file; `arrays` are what the module `NOTEBOOK` has. `buffers` are the texts of files that are open
    in an editor, by their paths: they count in place of the disk's. `refresh` forgets the stamps, and what was
    `remembered` of the disk beside them.
    """

    def __init__(
        self,
        paths: Iterable[str | Path] = (),
        site: Iterable[str | Path] = (),
        folder: str | Path = "",
        given: Mapping[str, ModuleSource] | None = None,
        arrays: Mapping[str, TensorSpec] | None = None,
    ) -> None:
        self.given = given or {}
        self.arrays = arrays or {}
        self.folder = os.path.abspath(folder) if folder else ""
        self.paths = tuple(os.path.abspath(item) for item in paths)
        self.site = tuple(os.path.abspath(item) for item in site)
        self.buffers: Mapping[str, Buffer] = {}
        self._stamps: dict[str, Stamp] = {}
        self._near: dict[str, tuple[str, ...]] = {}
        self.remembered: dict[Hashable, Any] = {}

    def refresh(self) -> None:
        """Forget the stamps: files may have changed."""
        self._stamps.clear()
        self._near.clear()
        self.remembered.clear()

    @property
    def looked_at(self) -> frozenset[str]:
        """Return the paths that were looked at since the last `refresh`, those without a file included."""
        return frozenset(self._stamps)

    def holds(self, reads: Reads) -> bool:
        """Return whether everything that was looked at is as it was."""
        return all(self.stamp(path) == then for path, then in reads.items())

    def stamp(self, path: str, reads: Reads | None = None) -> Stamp:
        """Return the stamp of `path` and enter it into `reads`."""
        if path in self.buffers:
            self._stamps[path] = self.buffers[path].stamp
        elif path not in self._stamps:
            try:
                found = os.stat(path)
            except (OSError, ValueError):
                self._stamps[path] = None
            else:
                folder = stat.S_ISDIR(found.st_mode)
                # A folder's own times change with every file in it, which says nothing.
                self._stamps[path] = (0, 0, 1) if folder else (found.st_mtime_ns, found.st_size, 0)
        if reads is not None:
            reads[path] = self._stamps[path]
        return self._stamps[path]

    def place(self, file: str) -> str:
        """Return the full path of a checked file: one that exists, or, with the name of a text, one in `folder`."""
        if os.path.isabs(file):
            return file
        path = os.path.abspath(file)
        if _is_file(self.stamp(path)):
            return path
        return os.path.join(self.folder, "text.py") if self.folder else ""

    def lacks(self, name: str, file: str) -> bool:
        """Return whether no module of that name is installed or beside `file`: Python would not find it either."""
        top = name.partition(".")[0]
        if not top or not self.site or top in _FOREIGN:
            return False
        folders = (*self.near(file, {}), *self.paths, *self.site)
        return all(self.inside(folder, (top,), {}) is None for folder in folders)

    def find(self, name: str, file: str, reads: Reads) -> str | None:
        """Return the file (or folder, of a package without one) of the module `name` that `file` imports absolutely.

        None where there is none, or where it is not to be read.
        """
        if f"{name}.py" in self.given:
            return f"{name}.py"
        parts = name.split(".")
        if parts[0] in _FOREIGN or len(parts) > 16 or not all(part.isidentifier() for part in parts):
            return None
        for folder in (*self.near(file, reads), *self.paths):
            found = self.inside(folder, parts, reads)
            if found is not None:
                return found
        for folder in self.site:
            found = self.inside(folder, parts, reads)
            if found is not None:
                own = file.startswith(os.path.join(folder, parts[0]) + os.sep)
                return found if own or self._uses_nki(found) else None
        return None

    def inside(self, folder: str, parts: Iterable[str], reads: Reads) -> str | None:
        """Return the file of a module below `folder`, or the folder of a package without `__init__`."""
        place = folder
        parts = list(parts)
        for part in parts[:-1]:
            place = os.path.join(place, part)
            if not _is_folder(self.stamp(place, reads)):
                return None
        place = os.path.join(place, parts[-1]) if parts else place
        for candidate in (os.path.join(place, "__init__.py"), *([f"{place}.py"] if parts else [])):
            if _is_file(self.stamp(candidate, reads)):
                return candidate
        return place if _is_folder(self.stamp(place, reads)) else None

    def near(self, file: str, reads: Reads) -> tuple[str, ...]:
        """Return the folders that an import in `file` may start from: its own and those above it in its project."""
        path = self.place(file)
        if not path:
            return ()
        folder = os.path.dirname(path)
        if folder not in self._near:
            found = []
            place = folder
            for _ in range(ANCESTORS):
                found.append(place)
                if _is_folder(self.stamp(os.path.join(place, "src"))):
                    found.append(os.path.join(place, "src"))
                above = os.path.dirname(place)
                inside = _is_file(self.stamp(os.path.join(place, "__init__.py")))
                if above == place or (not inside and self._is_root(place)):
                    break
                place = above
            self._near[folder] = tuple(found)
        return self._near[folder]

    def above(self, file: str, most: int) -> list[str]:
        """Return the folder of a file and those above it, up to the root of its project; at most `most`."""
        path = self.place(file)
        found: list[str] = []
        place = os.path.dirname(path)
        while path and len(found) < most:
            found.append(place)
            place, below = os.path.dirname(place), place
            if place == below or self._is_root(below):
                break
        return found

    def project(self, file: str, most: int) -> str:
        """Return the folder of the project that a file is in, at most `most` folders above; empty without one."""
        found = self.above(file, most)
        return found[-1] if found and self._is_root(found[-1]) else ""

    def _is_root(self, folder: str) -> bool:
        marks = (".git", "pyproject.toml", "setup.py", "setup.cfg")
        return any(self.stamp(os.path.join(folder, mark)) is not None for mark in marks)

    def _uses_nki(self, path: str) -> bool:
        if not path.endswith(".py"):
            return True
        text = self.data(path)
        # The file that opens a package may be empty, and the package be one of kernels.
        return text is not None and (_USES_NKI.search(text) is not None or len(text) < 4096)

    def load(self, path: str, reads: Reads, shown: str = "") -> ModuleSource | None:
        """Return the module of a file, which findings call `shown`; None where it cannot be read as Python."""
        if path in self.given:
            return self.given[path]
        if self._leads_outside(path):
            return None
        buffer = self.buffers.get(path)
        stamp = self.stamp(path, reads)
        return _parsed(path, stamp, shown or path) if buffer is None else buffer.module(shown or path)

    def _leads_outside(self, path: str) -> bool:
        """Return whether a file is a link out of its project and its environment: it may be anybody's."""
        if not os.path.islink(path) or any(path.startswith(os.path.join(folder, "")) for folder in self.site):
            return False
        own = self.project(path, 64) or os.path.dirname(path)
        return leads_outside(path, (own, *self.paths, *self.site, *([self.folder] if self.folder else [])))

    def data(self, path: str) -> bytes | None:
        """Return the bytes of a file, as the editor has them where it is open there; None where it cannot be read."""
        if self._leads_outside(path):
            return None
        buffer = self.buffers.get(path)
        return _bytes(path, self.stamp(path)) if buffer is None else buffer.data


def _is_folder(found: Stamp) -> bool:
    return found is not None and found[2] == 1


def _is_file(found: Stamp) -> bool:
    return found is not None and found[2] == 0


@lru_cache(KEPT)
def _parsed(path: str, stamp: Stamp, shown: str) -> ModuleSource | None:
    data = _bytes(path, stamp)
    return None if data is None else _module_of(data, shown)


def _module_of(data: bytes, shown: str) -> ModuleSource | None:
    try:
        return parsed(normalized(decoded(data)[0]), shown)
    except (*PARSER_FAILURES, LookupError):
        return None


def _bytes(path: str, stamp: Stamp) -> bytes | None:
    try:
        return None if stamp is None else read_source(path, MOST_BYTES)
    except (OSError, ValueError):
        return None


@cache
def site_folders(interpreter: str | Path | None = None) -> tuple[str, ...]:
    """Return the folders of a Python's installed packages, by its own or its environment's folder; it is not started.

    Without one: those of this process. Folders that a `.pth` file in them names by path belong to it.
    """
    if interpreter is None:
        found = [item for item in sys.path if os.path.basename(item) in ("site-packages", "dist-packages")]
    else:
        place = Path(os.path.abspath(interpreter))
        roots = [place, *place.parents[:2]]
        patterns = ("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages")
        found = [str(item) for root in roots if root.is_dir() for pattern in patterns for item in root.glob(pattern)]
    return tuple(dict.fromkeys((*found, *(item for folder in found for item in _linked(folder)))))


def _linked(folder: str) -> list[str]:
    """Return the folders that path files name: that is how a project is installed for editing."""
    found = []
    try:
        names = sorted(item for item in os.listdir(folder) if item.endswith(".pth"))[:64]
        for name in names:
            lines = read_source(os.path.join(folder, name), 1 << 16).decode(errors="replace").splitlines()
            paths = [os.path.join(folder, line.strip()) for line in lines if line.strip()]
            found += [path for path in paths if os.path.isdir(path)]
    except OSError:
        return found
    return found
