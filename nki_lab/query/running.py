"""Writes the cells of a notebook, or of a script, that run a kernel on the simulator with drawn values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from keyword import iskeyword
from pathlib import Path
from typing import Final

import numpy as np

from nki_lab.isa.dtype import NamedDType
from nki_lab.kernel_runtime.interpreter import Signature
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.source import SyntaxFacts

_EXAMPLE: Final = "rng.standard_normal((128, 512)).astype(nl.float32)"
_HEAD: Final = """import numpy as np

import nki_lab

nki_lab.activate()
import nki.language as nl
"""


def arguments_text(signature: Signature) -> str:
    """Return the arguments of a call of `nki_lab.run` for a signature, arrays drawn by a generator `rng`."""
    parts = [_value(item) for item in signature.args]
    parts += [f"{name}={_value(item)}" for name, item in signature.kwargs.items()]
    if signature.grid:
        parts.append(f"grid={signature.grid!r}")
    return ", ".join(parts)


def _value(value: object) -> str:
    match value:
        case TensorSpec(shape=shape, dtype=dtype):
            kind = np.dtype(dtype.host).kind
            drawn = f"rng.integers(0, {2 if kind == 'b' else 8}, {shape!r})" if kind in "iub" else ""
            return f"{drawn or f'rng.standard_normal({shape!r})'}.astype(nl.{dtype.name})"
        case tuple() | list():
            inner = ", ".join(map(_value, value))
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
        case Mapping():
            return "{" + ", ".join(f"{_value(key)}: {_value(item)}" for key, item in value.items()) + "}"
        case None | bool() | int() | float() | str():
            return repr(value)
        case NamedDType() | np.dtype():
            return f"nl.{value.name}"
        case Enum():
            return f"nisa.{type(value).__name__}.{value.name}"
        case _:
            return "..."


def example_arguments(facts: SyntaxFacts, kernel: str) -> str:
    """Return arguments for a kernel whose shapes are not known: an array for each parameter without a default."""
    node = facts.parsed.function(kernel)
    if node is None:
        return ""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)]
    needed += [arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return ", ".join(f"{arg.arg}={_EXAMPLE}" for arg in needed)


def call_cell(kernel: str, arguments: str, target: str, *, known: bool, page: str = "") -> str:
    """Return the cell that runs a kernel and shows the run, or writes it as a page into the file `page`.

    Without `known` shapes it says that they are examples.
    """
    nisa = "import nki.isa as nisa\n" if "nisa." in arguments else ""
    note = "" if known else "# The shapes are examples: the source gives none.\n"
    call = f'nki_lab.run({kernel}, {arguments}, target="{target}")' if arguments else f"nki_lab.run({kernel})"
    shown = f"run.to_html({page!r})" if page else "run.view()"
    return f"{nisa}rng = np.random.default_rng(0)\n{note}run = {call}\n{shown}\n"


def cell(kernel: str, arguments: str, target: str, *, known: bool) -> str:
    """Return one cell for the notebook that defines a kernel."""
    return f"{_HEAD}\n{call_cell(kernel, arguments, target, known=known)}"


def script(file: str, kernel: str, arguments: str, target: str, *, known: bool, page: str = "") -> str:
    """Return a script in cells (`# %%`) that imports a kernel from its file and runs it, as `call_cell` says."""
    folder, module = _module(Path(file))
    path = f"import sys\n\nsys.path.insert(0, {str(folder)!r})\n"
    if all(part.isidentifier() and not iskeyword(part) for part in module.split(".")):
        path += f"from {module} import {kernel}\n"
    else:
        path += f"from importlib import import_module\n\n{kernel} = import_module({module!r}).{kernel}\n"
    call = call_cell(kernel, arguments, target, known=known, page=page)
    return f"# %% {kernel} on the simulator\n{_HEAD}{path}\n# %%\n{call}"


def _module(path: Path) -> tuple[Path, str]:
    """Return the folder that a file's module is imported from, and the module's name."""
    names = [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)
