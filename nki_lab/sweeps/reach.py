"""The code of a function, and the names that it reads: what a copy of it needs in another process."""

from __future__ import annotations

import ast
import dis
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import nki_lab.source_files as _ours
from nki_lab.dialects.kernel import Kernel
from nki_lab.late_annotations import annotations_of
from nki_lab.source.callables import plain_function

_DIALECTS: Final = ("nki", "neuronxcc")
_PACKAGE: Final = str(Path(_ours.__file__).resolve().parent)
_INSTALLED: Final = tuple({
    _PACKAGE, *(str(Path(path).resolve()) for name, path in sysconfig.get_paths().items() if "lib" in name)
})  # fmt: skip


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those inside of it."""
    yield code
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from codes_of(item)


@lru_cache(maxsize=1024)
def _names_of(code: CodeType) -> tuple[str, ...]:
    steps = (step for inner in codes_of(code) for step in dis.get_instructions(inner))
    return tuple(dict.fromkeys(step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")))


def function_of(value: object) -> FunctionType | None:
    """Return the Python function inside of a kernel, a partial or a wrapper; None where there is none."""
    found = plain_function(value.function if isinstance(value, Kernel) else value)
    return found if isinstance(found, FunctionType) else None


def globals_read(function: FunctionType) -> dict[str, Any]:
    """Return the globals that a function's code and its annotations name, with their values; builtins are left out."""
    names = dict.fromkeys(_names_of(function.__code__))
    for text in annotations_of(function).values():
        if isinstance(text, str):
            names |= dict.fromkeys(_names_in(text))
    scope = function.__globals__
    return {name: scope[name] for name in names if name in scope}


def _names_in(text: str) -> list[str]:
    try:
        return [node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)]
    except (SyntaxError, ValueError):
        return []


def cells_of(function: FunctionType) -> dict[str, Any]:
    """Return the variables of enclosing functions that a function reads, by name; those still unset are left out."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


@lru_cache(maxsize=1024)
def is_installed(file: str) -> bool:
    """Return whether a file belongs to Python, to an installed package or to nki_lab: the same in each process."""
    if file.startswith("<frozen"):
        return True
    try:
        path = str(Path(file).resolve())
    except (OSError, ValueError):
        return False
    return any(path.startswith((f"{place}/", f"{place}\\")) for place in _INSTALLED)


def is_users(module: ModuleType) -> bool:
    """Return whether a module is a user's own, so that its text may change from call to call."""
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and module.__name__.partition(".")[0] not in _DIALECTS and not is_installed(file)


def by_name(value: Any) -> bool:
    """Return whether a function of an installed package is found by its name in its module."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    code = getattr(value, "__code__", None)
    if module is None or (code is not None and not is_installed(code.co_filename)):
        return False
    found: Any = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def dialect_names() -> dict[int, tuple[str, str]]:
    """Return the module and name of each object of the dialects, by the object's id."""
    found: dict[int, tuple[str, str]] = {}
    for path, module in list(sys.modules.items()):
        if path.partition(".")[0] in _DIALECTS and isinstance(module, ModuleType):
            for name, value in list(vars(module).items()):
                is_plain = isinstance(value, bool | int | float | str | tuple | list | dict | type(None) | ModuleType)
                if not is_plain and not name.startswith("_"):
                    found.setdefault(id(value), (path, name))
    return found
