"""The other side of a crosscheck: a script that runs one kernel on the installed NKI, in a process of its own.

It is called with a folder that holds `task.json` and arrays, and writes `result.json` and arrays there. Nothing of
nki_lab is imported: the NKI that is found is the installed one, and its interpreter may have no nki_lab.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import pickle
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BYTES = 64 * 2**20
"""Bytes of intermediate values that are kept; of further ones only digests are."""


def main(folder: Path) -> None:
    """Do the task in `folder`."""
    sys.path[:] = [item for item in sys.path if Path(item or ".").resolve() != Path(__file__).resolve().parent]
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    sys.path += [item for item in task["path"] if item not in sys.path]
    result: dict[str, Any] = {"outputs": [], "steps": [], "exposed": False, "error": None}
    try:
        nki = importlib.import_module(task["package"])
        result |= {"version": str(getattr(nki, "__version__", "")), "place": str(getattr(nki, "__file__", ""))}
        steps = _Steps(folder, importlib.import_module(f"{task['package']}.isa"))
        kernel = _kernel(task)
        result["loaded"] = True
        given = [_value(item, folder, task) for item in task["args"]]
        named = {name: _value(item, folder, task) for name, item in task["kwargs"].items()}
        output = _run(nki, kernel, task, given, named)
        result |= {"steps": steps.found, "exposed": steps.exposed}
        outputs = _leaves(output)
        for number, leaf in enumerate(outputs):
            result["outputs"].append(save(folder / f"output{number}.bin", leaf))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what the other side says
        text = "".join(traceback.format_exception(error))
        result["error"] = {"type": type(error).__name__, "message": str(error), "traceback": text}
    temporary = folder / "result.json.new"
    temporary.write_text(json.dumps(result), encoding="utf-8")
    temporary.replace(folder / "result.json")


def _run(nki: Any, kernel: Any, task: dict[str, Any], given: list[Any], named: dict[str, Any]) -> Any:
    grid = task["grid"]
    launched = kernel if not grid else kernel[grid[0] if len(grid) == 1 else tuple(grid)]
    if task["where"] == "device":
        return launched(*given, **named)
    if hasattr(nki, "simulate_kernel"):  # Beta 1
        return nki.simulate_kernel(launched, *given, **named)
    return nki.simulate(launched)(*given, **named)


# -- the kernel --------------------------------------------------------------------------------------------------------


def _kernel(task: dict[str, Any]) -> Any:
    """Return the kernel: of its module where that can be imported, else of its source without what that runs."""
    module = None
    if task["module"] != "__main__":
        found = importlib.util.find_spec(task["module"]) if _is_importable(task["module"]) else None
        if found is not None and found.origin and Path(found.origin).resolve() == Path(task["file"]).resolve():
            module = importlib.import_module(task["module"])
    if module is None:
        module = types.ModuleType("crosschecked")
        module.__file__ = task["file"]
        sys.modules["crosschecked"] = module
        sys.path.insert(0, str(Path(task["file"]).resolve().parent))
        tree = ast.parse(task["source"], task["file"])
        tree.body = [node for node in tree.body if _is_kept(node)]
        exec(compile(tree, task["file"], "exec"), vars(module))
    value: Any = module
    for name in task["name"].split("."):
        value = getattr(value, name)
    return value


def _is_importable(name: str) -> bool:
    parent = name.rpartition(".")[0]
    try:
        return not parent or importlib.util.find_spec(parent) is not None
    except ImportError:
        return False


def _is_kept(node: ast.stmt) -> bool:
    """Whether a statement defines something; calls, loops and what concerns nki_lab belong to the script."""
    if isinstance(node, ast.Expr | ast.For | ast.While | ast.With | ast.Assert | ast.Delete | ast.AugAssign):
        return False
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return True
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    imported = {alias.name.partition(".")[0] for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)}
    return "nki_lab" not in names | imported | {str(getattr(node, "module", "")).partition(".")[0]}


# -- values ------------------------------------------------------------------------------------------------------------


def _value(item: dict[str, Any], folder: Path, task: dict[str, Any]) -> Any:
    """Return an argument of its description."""
    ((kind, value),) = item.items()
    if kind == "array":
        return load(folder, value)
    if kind == "dtype":
        return getattr(importlib.import_module(f"{task['package']}.language"), value)
    if kind == "member":
        found: Any = importlib.import_module(f"{task['package']}.isa")
        for name in value:
            found = getattr(found, name)
        return found
    if kind in ("tuple", "list"):
        parts = [_value(part, folder, task) for part in value]
        return tuple(parts) if kind == "tuple" else parts
    if kind == "dict":
        return {key: _value(part, folder, task) for key, part in value.items()}
    if kind == "pickle":
        return pickle.loads(base64.b64decode(value))
    return ast.literal_eval(value)


def load(folder: Path, facts: dict[str, Any]) -> Any:
    """Return the array of a description."""
    import numpy as np

    name = facts["dtype"]
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    return np.fromfile(folder / facts["file"], dtype).reshape(facts["shape"])


def save(path: Path, value: Any) -> dict[str, Any]:
    """Write an array's bytes; returns its description."""
    array = array_of(value)
    array.tofile(path)
    return {"file": path.name, "dtype": array.dtype.name, "shape": list(array.shape)}


def array_of(value: Any) -> Any:
    """Return a value as a dense array of NumPy; TypeError for what is no array of numbers."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        # Tensors of simulators have their values in an attribute.
        inner = [getattr(value, name) for name in ("data", "_data", "value") if hasattr(value, name)]
        value = next((item for item in inner if isinstance(item, np.ndarray)), value)
    array = np.ascontiguousarray(_of_torch(value) if hasattr(value, "detach") else value)
    if array.dtype == object or array.dtype.fields:
        raise TypeError(f"a {type(value).__name__} is no array of numbers")
    return array.reshape(np.shape(value))


def _of_torch(value: Any) -> Any:
    plain = value.detach().cpu()
    if str(plain.dtype) != "torch.bfloat16":
        return plain.numpy()
    torch, ml_dtypes = importlib.import_module("torch"), importlib.import_module("ml_dtypes")  # NumPy has no bfloat16
    return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def _leaves(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


# -- intermediate values -----------------------------------------------------------------------------------------------


class _Steps:
    """The results of instructions as they are called, where the installed simulator lets them be read."""

    def __init__(self, folder: Path, isa: types.ModuleType) -> None:
        self.folder = folder
        self.found: list[dict[str, Any]] = []
        self.exposed = False
        self._kept = 0
        self._depth = 0
        for name, function in list(vars(isa).items()):
            if isinstance(function, types.FunctionType) and not name.startswith("_"):
                self._wrap(isa, name, function)

    def _wrap(self, isa: types.ModuleType, name: str, function: Callable[..., Any]) -> None:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return

        def called(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                result = function(*args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth:
                frame = sys._getframe(1)
                try:
                    written = signature.bind(*args, **kwargs).arguments.get("dst", result)
                    self._note(name, frame.f_code.co_filename, frame.f_lineno, written)
                except Exception:  # noqa: BLE001 - values that cannot be read are not exposed
                    return result
            return result

        called.__name__, called.__doc__ = name, function.__doc__
        called.__signature__ = signature  # type: ignore[attr-defined]
        setattr(isa, name, called)

    def _note(self, name: str, file: str, line: int, written: Any) -> None:
        array = array_of(written)
        facts: dict[str, Any] = {"name": name, "file": file, "line": line}
        facts |= {"dtype": array.dtype.name, "shape": list(array.shape)}
        facts["digest"] = hashlib.sha256(array.tobytes()).hexdigest()
        if self._kept + array.nbytes <= _BYTES:
            self._kept += array.nbytes
            facts |= save(self.folder / f"step{len(self.found)}.bin", array)
        self.found.append(facts)
        self.exposed = True


if __name__ == "__main__":
    os.environ["NKI_LAB_CROSSCHECK"] = "1"
    main(Path(sys.argv[1]))
