"""Modules of the user's inside one evaluation: each is evaluated once, from its text, when it is first imported."""

# ruff: noqa: PTH109, PTH117, PTH119, PTH120
# Paths are joined and compared by the thousand: as texts that takes a tenth of the time.
from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from nki_lab.kernel_runtime.interpreter.module_finder import ModuleFinder, Reads
from nki_lab.kernel_runtime.interpreter.values import MISSING, UNKNOWN, Names, Namespace, Value
from nki_lab.source.module import ModuleSource

MOST: Final = 256
"""Modules that one evaluation reads."""
DEEPEST: Final = 32
"""Imports inside imports."""

_OWN_NAMES: Final = ("__builtins__", "__doc__", "__file__", "__loader__", "__package__", "__spec__", "__annotations__")


class ModuleScope:
    """A module that is being evaluated: its text and its names.

    Modules among `open_stars` may have bound any name here: everything is imported from them, and they are not known.
    `read` are the names that were looked up.
    """

    __slots__ = ("file", "globals", "open_stars", "read", "source")

    def __init__(self, source: ModuleSource, name: str, is_known: Callable[[str], bool]) -> None:
        self.source = source
        self.file = source.file
        self.globals: Names = dict.fromkeys(_OWN_NAMES, UNKNOWN) | {"__name__": name, "__debug__": True}
        self.read: set[str] = set()
        self.open_stars = {name for name in source.stars if name.startswith(".") or not is_known(name)}


class ModuleCache:
    """The user's modules that an evaluation has imported; `reads` is everything that the search for them looked at.

    `enter` makes the scope of a module, `evaluate` runs its statements. Until `opened` is left, places in the modules
    are read in the texts that were evaluated.
    """

    def __init__(
        self,
        library: ModuleFinder | None,
        main: ModuleScope,
        enter: Callable[[ModuleSource, str], ModuleScope],
        evaluate: Callable[[ModuleScope], None],
    ) -> None:
        self._library = library
        self._main = main
        self._enter = enter
        self._evaluate = evaluate
        self.opened = ExitStack()
        self._found: dict[str, Namespace] = {}
        self._depth = 0
        self.scopes: dict[str, ModuleScope] = {}
        self.reads: Reads = {}
        own = "" if library is None else library.place(main.file)
        if own:  # a module that imports the evaluated one has that
            self._found[own] = Namespace(main.source.name, main.globals, place=own)
            self.scopes[own] = main

    def copied(self) -> tuple[dict[str, Namespace], dict[str, ModuleScope], Reads]:
        """Return a copy of what is known of the modules by now."""
        return dict(self._found), dict(self.scopes), dict(self.reads)

    def take(self, known: tuple[dict[str, Namespace], dict[str, ModuleScope], Reads]) -> None:
        """Know the modules that another evaluation had imported when it was `copied`."""
        found, scopes, reads = known
        self._found, self.scopes, self.reads = dict(found), dict(scopes), dict(reads)
        for scope in self.scopes.values():
            self.opened.enter_context(scope.source.shown())

    def namespaces(self) -> list[Namespace]:
        """Return the modules and packages that are known by now."""
        return list(self._found.values())

    def absolute(self, name: str, importer: ModuleScope) -> Value:
        """Return the module `name`; MISSING where no file is it."""
        if self._library is None:
            return MISSING
        return self._module(self._library.find(name, importer.file, self.reads), name)

    def relative(self, level: int, name: str, importer: ModuleScope) -> Value:
        """Return the module `name`, `level - 1` packages above that of `importer`; MISSING for none."""
        folder = "" if self._library is None else self._library.place(importer.file)
        if self._library is None or not folder or level > 16:
            return MISSING
        for _ in range(level):
            folder = os.path.dirname(folder)
        path = self._library.inside(folder, name.split(".") if name else (), self.reads)
        return self._module(path, name or os.path.basename(folder))

    def member(self, module: Namespace, name: str) -> Value:
        """Return the module `name` of a package; MISSING where it has none."""
        if self._library is None or not name.isidentifier():
            return MISSING
        key = module.place
        folder = os.path.dirname(key) if os.path.basename(key) == "__init__.py" else key
        if folder.endswith(".py"):
            return MISSING
        return self._module(self._library.inside(folder, (name,), self.reads), f"{module.name}.{name}")

    def file(self, path: str, name: str) -> Value:
        """Return the module of a file; MISSING where there is none."""
        if self._library is None or self._library.stamp(path, self.reads) is None:
            return MISSING
        return self._module(path, name)

    def folders_above(self, most: int) -> list[str]:
        """Return the folder of the evaluated module and those above it in its project."""
        return [] if self._library is None else self._library.above(self._main.file, most)

    def source_of(self, file: str) -> ModuleSource:
        """Return the module that findings call `file`."""
        return next(scope.source for scope in self.scopes.values() if scope.file == file)

    def _module(self, path: str | None, name: str) -> Value:
        if path is None:
            return MISSING
        if path in self._found:
            return self._found[path]
        assert self._library is not None
        source = self._library.load(path, self.reads, self._shown(path)) if path.endswith(".py") else None
        full = len(self._found) >= MOST or self._depth >= DEEPEST
        if full or (source is None and path.endswith(".py")):
            return UNKNOWN
        if source is None:
            return self._found.setdefault(path, Namespace(name, {}, place=path))
        scope = self.scopes[path] = self._enter(source, name)
        module = self._found[path] = Namespace(name, scope.globals, place=path)
        self.opened.enter_context(source.shown())
        self._depth += 1
        try:
            self._evaluate(scope)
        finally:
            self._depth -= 1
        return module

    def _shown(self, path: str) -> str:
        """Return a file's name in findings: from the working directory where the evaluated one is named so."""
        here = os.getcwd() + os.sep
        inside = not os.path.isabs(self._main.file) and path.startswith(here)
        return path.removeprefix(here) if inside else path

    def is_absent(self, name: str) -> bool:
        """Return whether Python would find no module of that name."""
        return self._library is not None and self._library.lacks(name, self._main.file)


def public_names(names: Mapping[str, Value]) -> list[str]:
    """Return the names that `from module import *` binds."""
    listed = names.get("__all__")
    if isinstance(listed, list | tuple) and all(isinstance(item, str) for item in listed):
        return [item for item in listed if item in names]
    return [name for name in names if not name.startswith("_")]
