"""Data for the other side of a crosscheck: the kernel's source, and its arguments with arrays in files."""

from __future__ import annotations

import ast
import base64
import inspect
import pickle
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from nki_lab.crosschecks.other_side import save
from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.isa.dtype import DType, NamedDType, dtype_of
from nki_lab.session.arrays import kind_of
from nki_lab.source.callables import code_of, plain_function
from nki_lab.source_files import lines_of
from nki_lab.testing import plain_array


def described(value: Any, folder: Path, name: str) -> dict[str, Any]:
    """Return an argument as data, its arrays in files of `folder`; NKI001 for what cannot be sent."""
    if kind_of(value):
        number = len([*folder.glob("input*.bin")])
        return {"array": save(folder / f"input{number}.bin", plain_array(value, name))}
    if isinstance(value, NamedDType | DType | np.dtype) or (isinstance(value, type) and _is_dtype(value)):
        return {"dtype": dtype_of(value).name}
    if isinstance(value, Enum) and type(value).__module__.startswith(("nki_lab", "nki", "neuronxcc")):
        return {"member": [type(value).__name__, value.name]}
    if type(value) in (tuple, list):
        parts = [described(item, folder, f"{name}[{number}]") for number, item in enumerate(value)]
        return {type(value).__name__: parts}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: described(item, folder, f"{name}[{key!r}]") for key, item in value.items()}}
    try:
        if ast.literal_eval(repr(value)) == value:
            return {"literal": repr(value)}
    except (ValueError, SyntaxError):
        pass
    try:
        return {"pickle": base64.b64encode(pickle.dumps(value)).decode()}
    except Exception as error:
        raise coded_error(
            "NKI001",
            f"{name} is a {type(value).__name__}, which cannot be sent to another process",
            operand=name,
            limit="arguments of a crosscheck are arrays, dtypes, constants, containers of these, and what pickle takes",
            help="pass its fields as arguments of their own",
        ) from error


def _is_dtype(value: type) -> bool:
    try:
        dtype_of(value)
    except NkiError:
        return False
    return True


def source_of(function: Any) -> dict[str, str]:
    """Return where the other side finds a function: module, file, the file's text and the name in it.

    NKI001 for a function that no module has by its name.
    """
    plain = plain_function(function)
    code = code_of(function)
    name = getattr(plain, "__qualname__", "")
    if code is None or "<" in name or "." in name:
        raise coded_error(
            "NKI001",
            f"the kernel {name or repr(function)} is defined inside another function or class",
            operand="kernel",
            limit="the other side of a crosscheck loads the kernel by its name in a module",
            help="define it at the top level of a module",
        )
    file = code.co_filename
    text = "".join(lines_of(file))
    if not Path(file).is_file():
        text = preamble(ast.parse(text), getattr(plain, "__globals__", {})) + text
    return {"module": str(getattr(plain, "__module__", "")), "file": file, "source": text, "name": name}


def preamble(tree: ast.Module, namespace: Mapping[str, object]) -> str:
    """Return the source of what a cell takes from a notebook: modules, functions and constants, for the line above."""
    found: dict[str, str] = {}
    trees = [tree]
    while trees:
        part = trees.pop()
        bound = {node.name for node in ast.walk(part) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for name in {node.id for node in ast.walk(part) if isinstance(node, ast.Name)} - bound - {*found}:
            value = namespace.get(name)
            if isinstance(value, ModuleType):
                found[name] = f"import {value.__name__} as {name}"
            elif callable(value) and code_of(value) is not None and code_of(value).co_name == name:  # type: ignore[union-attr]
                found[name] = inspect.getsource(plain_function(value))  # type: ignore[arg-type]
                trees.append(ast.parse(found[name]))
            elif isinstance(value, bool | int | float | str | tuple):
                found[name] = f"{name} = {value!r}"
    return "\n".join(sorted(found.values(), key=lambda text: not text.startswith("import"))) + "\n"
