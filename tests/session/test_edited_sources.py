"""Modules that are edited and loaded again between runs: places are those of the text that runs."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError

TEXT = """import nki
import nki.isa as nisa
import nki.language as nl


def added(total, x):
    tile = nl.load(x)
    nisa.tensor_tensor(total, total, tile, nl.add)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros(x.shape, dtype=nl.float32)
    for i in range(2):
        added(total, x)
    nl.store(out, total)
    return out
"""
X = np.ones((4, 3), np.float32)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "reloaded_kernels.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module("reloaded_kernels")
    del sys.modules["reloaded_kernels"]


def edit(module: ModuleType, old: str, new: str) -> None:
    assert module.__file__ is not None
    Path(module.__file__).write_text(TEXT.replace(old, new))
    importlib.reload(module)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ("nl.zeros", "nl.full", None),
        ("(x.shape, dtype=nl.float32)", "(x.shape, nl.float32)", 2.0),
        ("    nisa.tensor_tensor(total, total, tile, nl.add)", "    done = nisa.tensor_tensor(total, total, tile, nl.add)", 2.0),
        ("range(2)", "range(0, 3, 1)", 3.0),
        ("def added", "# A comment.\n\n\ndef added", 2.0),
    ],
)  # fmt: skip
def test_a_module_that_was_loaded_again_runs_at_its_new_places(
    module: ModuleType, old: str, new: str, want: float | None
) -> None:
    nki_lab.run(module.kernel, X).check(np.full(X.shape, 2.0))
    edit(module, old, new)
    if want is None:
        with pytest.raises(NkiError, match=r"NKI00[23]"):
            nki_lab.run(module.kernel, X)
        return
    run = nki_lab.run(module.kernel, X).check(np.full(X.shape, want))
    lines = TEXT.replace(old, new).splitlines()
    texts = [lines[site.line - 1] for site in run.program.sites if site.file == module.__file__ and site.line]
    assert any("tensor_tensor" in text for text in texts)
    assert any("nl.store" in text for text in texts)
    assert {row.variable for row in run.program.iterations} == {"i"}


def test_a_check_reads_the_text_of_now(module: ModuleType) -> None:
    assert not [item for item in nki_lab.check(function=module.kernel, args=[X]) if item.severity == "error"]
    edit(module, "nl.add)", "nl.added)")
    found = [item for item in nki_lab.check(function=module.kernel, args=[X]) if item.severity == "error"]
    assert [(item.code, item.line) for item in found] == [("NKI006", 8)]


def test_a_text_of_other_code_hides_no_run(module: ModuleType) -> None:
    file = str(module.__file__)
    lines = TEXT.replace("total = nl.zeros(x.shape, dtype=nl.float32)", "pass").splitlines(keepends=True)
    linecache.cache[file] = (len(TEXT), None, lines, file)
    nki_lab.run(module.kernel, X).check(np.full(X.shape, 2.0))
