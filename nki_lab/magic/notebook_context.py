"""The notebook around a cell: what completes its first line, and other cells and modules as texts for the check."""

from __future__ import annotations

import argparse
import ast
import linecache
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell

from nki_lab.isa.arch import TARGETS
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.magic.checking import Text
from nki_lab.result.inputs import NAMES
from nki_lab.source import module_at
from nki_lab.source.module import tree_of


def install(shell: InteractiveShell, parser: argparse.ArgumentParser) -> None:
    """Complete `%%nki` in this shell, as its parser has it."""

    def complete(_shell: object, event: Any) -> list[str]:
        return candidates(event.text_until_cursor, parser)

    shell.set_hook("complete_command", complete, str_key="%%nki")


def candidates(line: str, parser: argparse.ArgumentParser) -> list[str]:
    """Return the possible ends of `line`: values of the option before it, else the options not yet given."""
    words = line.split()
    if not words or words[0] != "%%nki":
        return []
    part = "" if line[-1].isspace() else words[-1]
    before = words if not part else words[:-1]
    values = {
        "--target": list(TARGETS),
        "--inputs": [f"{name}(seed=0)" if name in NAMES[:2] else name for name in NAMES],
    }
    if before[-1] in values:
        return [item for item in values[before[-1]] if item.startswith(part)]
    if before[-1] == "--save":
        return []
    options = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    return [name for name in options if name.startswith(part) and name not in before and name != "--help"]


MOST: Final = 64
"""Cells that one check reads."""

Meaning = Callable[[ast.Module, Mapping[str, object], "NotebookContext"], list[str]]


class NotebookContext:
    """The cells that a cell takes functions from; `modules` are those that it reaches, by the names of their files.

    `arrays` are the variables of the notebook that these cells read and that are arrays.

    `meanings` gives the statements that say what a cell's names mean in the notebook.
    """

    def __init__(self, namespace: Mapping[str, object], meanings: Meaning) -> None:
        self._namespace = namespace
        self._meanings = meanings
        self._names: dict[str, str] = {}
        self.modules: dict[str, Text] = {}
        self.arrays: dict[str, TensorSpec] = {}

    def statement(self, name: str, value: object) -> str:
        """The import that binds `name` to a function or class of the user's; "" for another value."""
        inner = function_of(value)
        own = getattr(inner, "__name__", None)
        module = getattr(inner, "__module__", None)
        if not isinstance(own, str) or not own.isidentifier() or not isinstance(module, str):
            return ""
        if module in ("__main__", "builtins"):
            cell = self._cell(file_of(inner)) if module == "__main__" else ""
            return f"from {cell} import {own} as {name}" if cell else ""
        held = getattr(sys.modules.get(module), own, None)
        return f"from {module} import {own} as {name}" if held is value or held is inner else ""

    def _cell(self, file: str) -> str:
        """The module of a cell; "" where its text is not at hand."""
        if file in self._names:
            return self._names[file]
        if file not in linecache.cache or len(self._names) >= MOST:
            return ""
        module = module_at(file)
        if module is None:
            return ""  # line magics among its lines
        name = self._names[file] = f"_nki_lab_cell_{len(self._names)}"  # before its own context: cells meet in rings
        tree = tree_of(module.text, module.file)  # the module's own has what its names meant when it was checked
        head = "; ".join(self._meanings(tree, self._namespace, self))
        self.modules[f"{name}.py"] = Text(module.text, module.file, head)
        return name


def function_of(value: object) -> object:
    """The function inside a kernel; a function or class itself; None for other values."""
    if isinstance(value, FunctionType | type):
        return value
    inner = getattr(value, "function", None) if type(value).__module__.startswith("nki_lab.") else None
    return inner if isinstance(inner, FunctionType) else None


def file_of(value: object) -> str:
    """The file of a function's text, of a class that of one of its methods."""
    for part in vars(value).values() if isinstance(value, type) else (value,):
        code = getattr(getattr(part, "__func__", getattr(part, "fget", part)), "__code__", None)
        if code is not None and code.co_filename != "<string>":
            return str(code.co_filename)
    return ""
