"""Guards: what a cached program read of Python's names, to be compared with what they mean now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any, Final

MISSING: Final = object()
"""Stands for a name that a namespace does not have."""


class Guards:
    """The functions, names and closure cells behind a key, with their values of then.

    All values are constants by `programs.key_of`: what is the same object has the same value.
    """

    __slots__ = ("_cells", "_functions", "_names", "_watched")

    def __init__(self) -> None:
        self._functions: list[tuple[FunctionType, CodeType, Any, Any]] = []
        self._names: list[tuple[Mapping[str, Any], str, object]] = []
        self._watched: set[tuple[int, str]] = set()  # of those, to hold each once
        self._cells: list[tuple[CellType, object]] = []

    def watch(self, function: FunctionType, names: Iterable[str]) -> None:
        """Note a function, its default values, its closure, and what `names` mean in its module."""
        named = function.__kwdefaults__
        self._functions.append((function, function.__code__, function.__defaults__, named))
        space = function.__globals__
        for name in names:
            self.watch_name(space, name)
        if named:
            for name in named:
                self.watch_name(named, name)
        self._cells += [(cell, cell.cell_contents) for cell in function.__closure__ or ()]

    def watch_name(self, space: Mapping[str, Any], name: str) -> None:
        """Note the meaning of a name."""
        if (id(space), name) not in self._watched:
            self._watched.add((id(space), name))
            self._names.append((space, name, space.get(name, MISSING)))

    def hold(self) -> bool:
        """Check that everything is as it was."""
        for function, code, defaults, named in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not named
                or function.__dict__
            ):
                return False
        for space, name, value in self._names:
            if space.get(name, MISSING) is not value:
                return False
        try:
            return all(cell.cell_contents is value for cell, value in self._cells)
        except ValueError:  # a cell that was emptied
            return False
