"""Modules of the user's inside one evaluation: each is evaluated once, from its text, when it is first imported."""

# ruff: noqa: PTH109, PTH117, PTH119, PTH120
# Paths are joined and compared by the thousand: as texts that takes a tenth of the time.
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from nki_lab.kernel_runtime.frontend.evaluator.library import NOTEBOOK, Library, Reads
from nki_lab.kernel_runtime.frontend.evaluator.values import MISSING, UNKNOWN, Frame, Namespace
from nki_lab.source.module import ModuleSource

if TYPE_CHECKING:
    from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine

MOST: Final = 256
"""Modules that one evaluation reads."""
DEEPEST: Final = 32
"""Imports inside imports."""

_OWN_NAMES: Final = ("__builtins__", "__doc__", "__file__", "__loader__", "__package__", "__spec__", "__annotations__")


class Home:
    """A module that is being evaluated: its text, its names, and the frame of its statements.

    Modules among `open_stars` may have bound any name here: everything is imported from them, and they are not known.
    """

    __slots__ = ("base", "globals", "module", "open_stars")

    def __init__(self, m: Machine, module: ModuleSource, name: str) -> None:
        self.module = module
        self.globals: dict[str, Any] = dict.fromkeys(_OWN_NAMES, UNKNOWN)
        self.globals |= {"__name__": name, "__debug__": True}
        self.base = Frame(m, None, None, self.globals)
        self.base.home = self
        known = m.imports.module
        self.open_stars = {name for name in module.stars if name.startswith(".") or known(name) is UNKNOWN}

    @property
    def file(self) -> str:
        """The module's file."""
        return self.module.file


class Shelf:
    """The user's modules that an evaluation has met; `reads` is what the search for them looked at."""

    def __init__(self, m: Machine, library: Library | None) -> None:
        self._m = m
        self._library = library
        self._open = ExitStack()
        self._found: dict[str, Namespace] = {}
        self._depth = 0
        self.homes: dict[str, Home] = {}
        self.reads: Reads = {}
        own = "" if library is None else library.place(m.module.file)
        if own:  # a module that imports the evaluated one has that
            self._found[own] = Namespace(m.module.name, m.home.globals, place=own)
            self.homes[own] = m.home

    def absolute(self, name: str, home: Home) -> Any:
        """The module `name`; MISSING where no file is it."""
        if self._library is None:
            return MISSING
        if name == NOTEBOOK:  # a kernel takes arrays as arguments only
            return Namespace(name, self._library.arrays) if self._m.host else MISSING
        path = self._library.find(name, home.file, self.reads)
        return MISSING if path is None else self._module(path, name)

    def relative(self, level: int, name: str, home: Home) -> Any:
        """The module `name` counted from the package of `home`, `level - 1` packages up; MISSING for none."""
        folder = "" if self._library is None else self._library.place(home.file)
        if self._library is None or not folder or level > 16:
            return MISSING
        for _ in range(level):
            folder = os.path.dirname(folder)
        path = self._library.inside(folder, name.split(".") if name else (), self.reads)
        return MISSING if path is None else self._module(path, name or os.path.basename(folder))

    def member(self, module: Namespace, name: str) -> Any:
        """The module `name` of a package; MISSING where it has none."""
        if self._library is None or not name.isidentifier():
            return MISSING
        key = module.place
        folder = os.path.dirname(key) if os.path.basename(key) == "__init__.py" else key
        if folder.endswith(".py"):
            return MISSING
        path = self._library.inside(folder, (name,), self.reads)
        return MISSING if path is None else self._module(path, f"{module.name}.{name}")

    def module_of(self, file: str) -> ModuleSource:
        """The module that findings call `file`."""
        return next(home.module for home in self.homes.values() if home.file == file)

    def _module(self, path: str, name: str) -> Any:
        if path in self._found:
            return self._found[path]
        assert self._library is not None
        source = self._library.load(path, self.reads, self._shown(path)) if path.endswith(".py") else None
        full = len(self._found) >= MOST or self._depth >= DEEPEST
        if full or (source is None and path.endswith(".py")):
            return UNKNOWN
        names: Mapping[str, Any] = {}
        if source is not None:
            home = self.homes[path] = Home(self._m, source, name)
            names = home.globals
        made = self._found[path] = Namespace(name, names, place=path)
        if source is not None:
            self._evaluate(self.homes[path])
        return made

    def _shown(self, path: str) -> str:
        """How findings name a file: from the working directory where the evaluated one is named so."""
        here = os.getcwd() + os.sep
        inside = not os.path.isabs(self._m.module.file) and path.startswith(here)
        return path.removeprefix(here) if inside else path

    def _evaluate(self, home: Home) -> None:
        from nki_lab.kernel_runtime.frontend.evaluator.statements import build_block

        m = self._m
        self._open.enter_context(home.module.shown())
        guards, m.guards = m.guards, 0  # what a module's own statements do is not for the importer's handlers
        calls, m.calls = m.calls, []
        self._depth += 1
        try:
            build_block(home.module.tree.body, home.module.scope)(home.base)
        finally:
            self._depth -= 1
            m.guards, m.calls = guards, calls

    @contextmanager
    def opened(self) -> Iterator[None]:
        """While this lasts, places in the modules are read in the texts that were evaluated."""
        with self._open:
            yield

    def is_absent(self, name: str) -> bool:
        """Whether the interpreter would find no module of that name."""
        return self._library is not None and self._library.lacks(name, self._m.module.file)


def public_names(names: Mapping[str, Any]) -> list[str]:
    """What `from module import *` binds."""
    listed = names.get("__all__")
    if isinstance(listed, list | tuple) and all(isinstance(item, str) for item in listed):
        return [item for item in listed if item in names]
    return [name for name in names if not name.startswith("_")]
