"""Modules of the user's: found, read and evaluated as a run would import them, and never imported."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from nki_lab import spec
from nki_lab.kernel_runtime.frontend.evaluator import Evaluation, Library, ModuleSource, Signature, evaluate
from tests.verdicts import Verdict, missed, traced

PACKAGES = Path(__file__).parents[2] / "packages"


def evaluated(file: Path, *arguments: object, library: Library | None = None) -> Evaluation:
    module = ModuleSource.parse(file.read_text(encoding="utf-8"), str(file))
    found = library or Library(site=(str(file.parents[-2]),))
    return evaluate(module, "kernel", Signature(args=arguments), arch="trn2", library=found)


def test_a_kernel_over_many_modules_is_evaluated_as_it_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PACKAGES))
    module = importlib.import_module("production.scaled_activation")
    x = spec((256, 1024), "float32")
    made = evaluated(PACKAGES / "production" / "scaled_activation.py", x)
    assert not missed(made)
    assert [str(item) for item in made.diagnostics] == []
    assert Verdict(program=made.program.text()) == traced(module.kernel, (x,), "trn2")
    assert made.operations
    assert not made.unknown
    assert {Path(item.file).name for item in made.modules} >= {"config.py", "sizes.py", "tiles.py", "naming.py"}
