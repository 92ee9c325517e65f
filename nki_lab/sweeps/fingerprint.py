"""Digests of kernels and values: equal in each process as long as they mean the same, whatever stands around them.

A kernel's digest is that of its code and of all that it names: helpers, constants, other kernels, and modules of
the user's. Lines, comments and names of files are no part of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.dialects.kernel import Kernel
from nki_lab.isa.dtype import dtype_of
from nki_lab.session.arrays import kind_of
from nki_lab.source_files import read_source
from nki_lab.sweeps import reach
from nki_lab.sweeps.parcel import packed
from nki_lab.testing import plain_array


def fingerprint(value: object, *, without: Collection[str] = ()) -> str:
    """Return the digest of a value; globals and outer variables called as in `without` do not count."""
    walk = _Walk(frozenset(without))
    walk.feed(value)
    return walk.hash.hexdigest()[:32]


def layout(kernel: Kernel) -> str:
    """Return the digest of where a kernel and the functions that it names stand: a finding's place holds as long."""
    walk = _Walk(frozenset())
    walk.feed(kernel)
    return hashlib.sha256(repr(sorted(walk.places)).encode()).hexdigest()[:32]


class _Walk:
    def __init__(self, without: frozenset[str]) -> None:
        self.hash = hashlib.sha256()
        self.places: set[tuple[str, int]] = set()
        self._without = without
        self._seen: dict[int, int] = {}
        self._held: list[object] = []  # ids stay taken as long

    def feed(self, value: Any) -> None:
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes) or value is Ellipsis:
            self._add(kind.__name__, repr(value))
        elif kind in (tuple, list):
            self._parts(kind.__name__, value)
        elif kind in (set, frozenset):
            self._add(kind.__name__, *sorted(fingerprint(item) for item in value))
        elif isinstance(value, np.ndarray) or kind_of(value):
            array = plain_array(value)
            self._add("array", array.dtype.name, repr(array.shape), hashlib.sha256(array.tobytes()).hexdigest())
        elif id(value) in self._seen:
            self._add("seen", str(self._seen[id(value)]))
        else:
            self._seen[id(value)] = len(self._seen)
            self._held.append(value)
            self._object(value, kind)

    def _add(self, *texts: str) -> None:
        for text in texts:
            content = text.encode("utf-8", "surrogatepass")
            self.hash.update(b"%d:" % len(content) + content)

    def _parts(self, name: str, values: Any) -> None:
        self._add(name, str(len(values)))
        for value in values:
            self.feed(value)

    def _object(self, value: Any, kind: type) -> None:
        if issubclass(kind, Mapping):
            self._parts("mapping", [part for pair in value.items() for part in pair])
        elif issubclass(kind, Kernel):
            self._parts(kind.__name__, (value.function, value.keywords, value.grid, value.schedule))
        elif kind is FunctionType:
            self._function(value)
        elif issubclass(kind, ModuleType):
            self._module(value)
        elif issubclass(kind, type):
            self._add("class", value.__module__, value.__qualname__)
            if (name := _dtype(value)) is None and sys.modules.get(value.__module__) is not None:
                self.feed(sys.modules[value.__module__])
            self._add(name or "")
        elif issubclass(kind, Enum):
            self._add("enum", kind.__qualname__, value.name)
        elif (name := _dtype(value)) is not None:
            self._add("dtype", name)
        elif dataclasses.is_dataclass(kind):
            self._add(kind.__qualname__)
            self._parts("fields", [getattr(value, item.name) for item in dataclasses.fields(kind)])
        else:
            self._add("pickle", kind.__qualname__, hashlib.sha256(packed(value, kind.__name__)).hexdigest())

    def _function(self, function: FunctionType) -> None:
        if reach.by_name(function):
            self._add("function", function.__module__, function.__qualname__)
            return
        self.places.add((function.__code__.co_filename, function.__code__.co_firstlineno))
        self._code(function.__code__)
        for kind, names in (("global", reach.globals_read(function)), ("cell", reach.cells_of(function))):
            for name, value in sorted(names.items()):
                self._add(kind, name)
                if name not in self._without:
                    self.feed(value)
        self.feed(function.__defaults__)
        self.feed(function.__kwdefaults__)

    def _code(self, code: CodeType) -> None:
        self._parts("code", (code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
                             code.co_flags, code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount,
                             code.co_exceptiontable))  # fmt: skip
        for item in code.co_consts:
            if isinstance(item, CodeType):
                self._code(item)
            else:
                self.feed(item)

    def _module(self, module: ModuleType) -> None:
        self._add("module", module.__name__)
        if not reach.is_users(module):
            return
        try:
            self._add(hashlib.sha256(read_source(Path(str(module.__file__)))).hexdigest())
        except OSError:
            self._add("unread")
        for name, value in sorted(vars(module).items()):
            home = sys.modules.get(getattr(value, "__module__", None) or "") if callable(value) else value
            if isinstance(home, ModuleType) and home is not module and reach.is_users(home):
                self._add(name)
                self.feed(home)


def _dtype(value: Any) -> str | None:
    if isinstance(value, str | int | float):
        return None
    try:
        return dtype_of(value).name
    except (NkiError, TypeError, ValueError, AttributeError):
        return None
