"""Kernels as bytes, for another process: a function goes as its code with all that it names, wherever it is defined.

Functions of installed packages go by name, and so do modules. Those of a script, a notebook cell, another function or a
module of the user's go by value: the other process runs none of the user's files for them, so that a script needs no
`if __name__ == "__main__"`, and what was changed in memory is what runs. Their source text goes along, for messages and
for what is read from the source.
"""

from __future__ import annotations

import importlib
import io
import linecache
import marshal
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final

from nki_lab.diagnostic import NkiError, Span, coded_error, diagnose, error_of
from nki_lab.dialects.kernel import Kernel
from nki_lab.late_annotations import annotations_of
from nki_lab.own_faults import version
from nki_lab.source_files import lines_of
from nki_lab.sweeps import reach

_FIELDS: Final = ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__")


def packed(value: object, what: str, place: Span | None = None) -> bytes:
    """Return a value as bytes; NKI001 where a part of it cannot go to another process. `what` names it.

    `place` is that of findings about it in the other process.
    """
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    try:
        pickler.dump(value)
    except NkiError:
        raise
    except Exception as error:
        raise coded_error(
            "NKI001",
            f"{what} cannot be sent to another process: {error}",
            operand=what,
            limit="functions, constants, arrays, dtypes, containers of these, and what pickle takes",
            help="pass what the kernel needs of it as arguments",
        ) from error
    return pickle.dumps((_versions(), pickler.sources, what, place, stream.getvalue()))


def unpacked(content: bytes) -> Any:
    """Return the value of bytes that `packed` made; each call gives a copy of its own. NKI012 for other versions,
    NKI001 where something in it is not found here by its name.
    """
    made_by, sources, what, place, inner = pickle.loads(content)
    if made_by != _versions():
        here, there = (f"Python {found[0]}.{found[1]} with nki_lab {found[2]}" for found in (_versions(), made_by))
        raise coded_error(
            "NKI012",
            f"this worker runs {here}, the session {there}",
            limit="workers have the session's versions",
            help="start the workers from the same environment",
        )
    for name, text in sources.items():
        if name not in linecache.cache and not Path(name).is_file():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        return pickle.loads(inner)
    except (ImportError, AttributeError) as error:
        raise error_of(
            diagnose(
                "NKI001",
                f"{what} needs what a worker cannot import, from a folder that Python searches: {error}",
                span=place,
                operand=what,
                limit="classes and modules that a kernel or its arguments name are found by their names on sys.path",
                help="put the module into a folder that Python searches, PYTHONPATH for example, or pass plain values",
            )
        ) from error


def _versions() -> tuple[int, int, str]:
    return (*sys.version_info[:2], version())


class _Pickler(pickle.Pickler):
    """Pickles functions and kernels by value. `sources` are the texts that their code comes from."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self.sources: dict[str, str] = {}
        self._scopes: dict[int, dict[str, Any]] = {}
        self._dialect = reach.dialect_names()

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)  # kernels say another class to `inspect`
        known = self._dialect.get(id(value))
        if known is not None:
            return _named, known
        if issubclass(kind, Kernel):
            fields = {name: getattr(value, name) for name in ("keywords", "grid", "schedule", "notes")}
            return _blank_kernel, (kind,), (value.function, fields), None, None, _fill_kernel
        if kind is FunctionType and not reach.by_name(value):
            return self._function(value)
        if issubclass(kind, ModuleType):
            return self._module(value)
        if issubclass(kind, type):
            _require_importable(value)
        return NotImplemented

    def _function(self, function: FunctionType) -> Any:
        code = function.__code__
        if code.co_filename not in self.sources and not reach.is_installed(code.co_filename):
            self.sources[code.co_filename] = "".join(lines_of(code.co_filename, function.__globals__))
        kept = {name: function.__globals__[name] for name in ("__name__", "__package__", "__file__")
                if isinstance(function.__globals__.get(name), str)}  # fmt: skip
        scope = self._scopes.setdefault(id(function.__globals__), kept)
        state = (
            {name: getattr(function, name) for name in _FIELDS} | {"__annotations__": annotations_of(function)},
            reach.globals_read(function),
            reach.cells_of(function),
            dict(vars(function)),
        )
        return _blank_function, (marshal.dumps(code), scope), state, None, None, _fill_function

    def _module(self, module: ModuleType) -> Any:
        name = module.__name__
        if name == "__main__" or sys.modules.get(name) is not module:
            raise coded_error(
                "NKI001",
                f"the module {name} cannot be imported by that name in another process",
                limit="modules that a kernel names are found on sys.path",
                help="put the file into a folder that Python searches",
            )
        return importlib.import_module, (name,)


def _require_importable(value: type) -> None:
    """Refuse a class that another process does not find by its name."""
    found: Any = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    if value.__module__ == "__main__" or (found is not value and value.__module__ != "builtins"):
        raise coded_error(
            "NKI001",
            f"the class {value.__qualname__} is defined in a script, a notebook or a function",
            operand=value.__name__,
            limit="classes that a kernel names are found by their names in a module",
            help="move it into a module that the script or the notebook imports",
        )


def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _blank_kernel(kind: type[Kernel]) -> Kernel:
    return kind.__new__(kind)


def _fill_kernel(kernel: Kernel, state: tuple[Callable[..., Any], dict[str, Any]]) -> None:
    function, fields = state
    type(kernel).__init__(kernel, function, **fields)


def _blank_function(code: bytes, scope: dict[str, Any]) -> FunctionType:
    loaded: CodeType = marshal.loads(code)
    cells = tuple(CellType() for _ in loaded.co_freevars)
    return FunctionType(loaded, scope, closure=cells)


def _fill_function(function: FunctionType, state: tuple[dict[str, Any], ...]) -> None:
    fields, names, cells, attributes = state
    for name, value in fields.items():
        setattr(function, name, value)
    function.__globals__.update(names)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name in cells:
            cell.cell_contents = cells[name]
    vars(function).update(attributes)
