"""First mistakes: each says the one thing to do, and ends at the user's own line."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.cli import main
from nki_lab.diagnostic import NkiError

ROOT = Path(__file__).parents[1]
X = np.ones((128, 64), np.float32)


@nki.jit
def kernel(x, how=""):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = helper(nl.load(x), how)
    nl.store(out, tile)
    return out


def helper(tile, how):
    if how == "operand":
        nisa.tensor_copy(dst=tile, src=tile[:, :32])
    if how == "name":
        nl.nonsense(tile)
    if how == "python":
        return 1 // 0
    return tile


def undecorated(x):
    return nl.load(x)


def raised(call: Any, *args: Any, **kwargs: Any) -> NkiError:
    """Return the error of a call, whose traceback is to have nothing of the package."""
    with pytest.raises(NkiError) as caught:
        call(*args, **kwargs)
    return caught.value


def functions(error: BaseException) -> list[str]:
    """Return the functions of a traceback; this file's own callers are left out."""
    steps = traceback.extract_tb(error.__traceback__)
    assert not [step.filename for step in steps if "nki_lab" in Path(step.filename).parts[-3:]]
    return [step.name for step in steps][1:]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python adds the frame of an entry point again")
@pytest.mark.parametrize("how", ["operand", "name", "python"])
@pytest.mark.parametrize(
    "entry",
    [lambda how: kernel(X, how), lambda how: nki_lab.run(kernel, X, how), lambda how: nki.simulate(kernel)(X, how)],
)
def test_tracebacks_have_the_users_frames_only(entry: Any, how: str) -> None:
    assert functions(raised(entry, how)) == ["<lambda>", "kernel", "helper"]


def test_one_cause_is_shown_once() -> None:
    error = raised(kernel, X, "python")
    text = "".join(traceback.format_exception(error))
    assert text.count("ZeroDivisionError: integer division") == 1
    assert "direct cause" not in text
    assert "During handling" not in text
    assert isinstance(error, ZeroDivisionError)
    assert isinstance(error.__context__, ZeroDivisionError)


def test_all_frames_are_shown_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_LAB_TRACEBACK", "full")
    error = raised(kernel, X, "operand")
    assert len(traceback.extract_tb(error.__traceback__)) > 6


@pytest.mark.parametrize("value", [[1, 2, 3], [[1.0, 2.0]], (1, 2)])
def test_a_list_used_as_a_tensor_is_named_where_it_is_passed(value: Any) -> None:
    error = raised(kernel, value)
    (item,) = error.diagnostics
    assert (item.code, item.operand, item.help) == ("NKI001", "x", "pass an array: np.array(x, np.float32)")
    assert item.message == f"argument x is a {type(value).__name__}"
    assert item.file == __file__
    assert functions(error) == []
    run = nki_lab.run(kernel, value, on_error="report")
    assert [item.code for item in run.diagnostics] == ["NKI001"]


def test_a_function_without_a_decorator_is_named() -> None:
    (item,) = raised(undecorated, X).diagnostics
    assert (item.code, item.message) == ("NKI005", "nl.load is called outside a kernel")
    assert item.help == "decorate undecorated with @nki.jit, or call it from a kernel"
    assert item.line == undecorated.__code__.co_firstlineno + 1


SCRIPT = """
import importlib.util
import sys
import nki_lab
assert importlib.util.find_spec("nki") is None
assert not {"numpy", "nki_lab.dialects"} & {*sys.modules}
try:
    import nki
except ImportError as error:
    assert error.name == "nki" and isinstance(error, ModuleNotFoundError)
import neuronxcc.nki as nki
"""
ACTIVE = """
import nki_lab
nki_lab.activate()
import nki.isa as nisa
def plain():
    nisa.core_barrier(data=None, cores=(0, 1))
plain()
"""


def ran(folder: Path, text: str) -> str:
    (folder / "script.py").write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("PYTEST_VERSION", None)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


def test_an_import_before_activation_says_what_to_do(tmp_path: Path) -> None:
    errors = ran(tmp_path, SCRIPT)
    assert "NKI030 No module named 'neuronxcc': the simulator is not active" in errors
    assert " | import neuronxcc.nki as nki\n   | ^^^" in errors
    assert "= help:  call nki_lab.activate() before it, or run the script with nki-lab run" in errors
    assert errors.count("File ") == 1


def test_errors_that_end_a_script_show_no_frames_of_ours(tmp_path: Path) -> None:
    errors = ran(tmp_path, ACTIVE)
    assert "NKI005" in errors
    assert errors.count("File ") == 2
    assert "decorate plain with @nki.jit" in errors


def test_a_missing_argument_points_at_the_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("import nki\n\n@nki.jit\ndef scaled(x, factor, *, more=1):\n    return x\n", encoding="utf-8")
    assert main(["profile", f"{file}::scaled", "--arg", "x=float32[4,4]"]) == 1
    errors = capsys.readouterr().err
    assert f"--> {file}:4:5" in errors
    assert "= help:  --arg factor=float32[128,512], for tensors of that shape" in errors
    assert main(["compile", f"{file}::scaled", "--arg", "factr=3"]) == 1
    errors = capsys.readouterr().err
    assert "did you mean factor?" in errors
    assert f"--> {file}:4:5" in errors
