"""`[tool.nki-lab.shapes]` gives arguments to kernels and to the functions that they call, and to nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nki_lab import cli
from nki_lab.cli import shape_names
from tests.cli.test_check import found, settings

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n"
HELPER = HEAD + "def fill(tile, n):\n    nisa.tensor_copy(dst=tile[0:64, 0:n], src=tile[0:64, 0:64])\n    return tile\n"


def codes(capsys: pytest.CaptureFixture[str], folder: Path, status: int) -> list[tuple[str, int]]:
    return [(item["code"], item["line"]) for item in found(capsys, folder, status=status)]


def test_a_helper_is_evaluated_with_its_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.py").write_text(HELPER, encoding="utf-8")
    assert codes(capsys, tmp_path, 0) == []
    settings(tmp_path, '[tool.nki-lab.shapes]\nfill = { tile = "sbuf float32[128,64]", n = 64 }\n')
    assert codes(capsys, tmp_path, 0) == []
    settings(tmp_path, '[tool.nki-lab.shapes]\n"k.py::fill" = [{ tile = "sbuf float32[128,64]", n = 32 }]\n')
    assert codes(capsys, tmp_path, 1) == [("NKI203", 6)]


def test_the_memory_of_a_helper_s_tensor_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.py").write_text(HELPER, encoding="utf-8")
    for memory, expected in (("", 1), ("hbm ", 1), ("psum ", 0)):
        settings(tmp_path, f'[tool.nki-lab.shapes]\nfill = {{ tile = "{memory}float32[128,64]", n = 64 }}\n')
        assert [code for code, _ in codes(capsys, tmp_path, expected)] == ["NKI201"] * expected


def test_what_a_helper_writes_is_for_its_caller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        HEAD
        + "def fill(tile):\n    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)\n    nisa.memset(dst=t, value=0.0)\n    nisa.memset(dst=tile, value=0.0)\n    return [t]\n"
    )
    (tmp_path / "k.py").write_text(text, encoding="utf-8")
    settings(tmp_path, '[tool.nki-lab.shapes]\nfill = { tile = "sbuf float32[128,64]" }\n')
    assert codes(capsys, tmp_path, 0) == []


@pytest.mark.parametrize(
    ("key", "message", "remedy"),
    [
        ("fil", "the project has no function of that name", "did you mean fill?"),
        ('"k.py::fil"', "k.py has no function of that name", "did you mean fill?"),
        ('"kk.py::fill"', "shapes names kk.py, which is no file", "did you mean k.py?"),
        ('"no/where.py::fill"', "which is no file", ""),
        ("zzzzzz", "the project has no function of that name", "name a function at the top level"),
    ],
)
def test_a_name_that_no_function_has_is_refused(
    tmp_path: Path, key: str, message: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.py").write_text(HELPER, encoding="utf-8")
    settings(tmp_path, f"[tool.nki-lab.shapes]\nfill = {{ n = 1 }}\n{key} = {{ n = 64 }}\n")
    (item,) = [item for item in found(capsys, tmp_path) if item["code"] == "NKI024"]
    assert (Path(item["file"]).name, item["line"]) == ("pyproject.toml", 3)
    assert message in item["message"]
    assert item["help"].startswith(remedy)


def test_folders_of_modules_that_are_not_there_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.py").write_text(HELPER, encoding="utf-8")
    (tmp_path / "lib").mkdir()
    settings(tmp_path, '[tool.nki-lab]\npaths = ["lib", "nodir"]\npython = "~nobody-here/env"\n')
    items = [item for item in found(capsys, tmp_path, status=0) if item["code"] == "NKI024"]
    assert [(item["line"], item["severity"], item["message"]) for item in items] == [
        (2, "warning", "paths names nodir, which is no folder"),
        (3, "warning", "python names ~nobody-here/env, which is no interpreter and no environment"),
    ]
    assert cli.main(["check", "--diff", str(tmp_path)]) == 0


def test_names_anywhere_in_the_project_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "k.py").write_text("import nki\nmade = nki.jit(print)\n", encoding="utf-8")
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": "import nki\ndef celled(x):\n    return x\n"}
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}), encoding="utf-8")
    (tmp_path / "one.py").write_text("x = 1\n", encoding="utf-8")
    settings(tmp_path, "[tool.nki-lab.shapes]\nmade = { n = 1 }\ncelled = { x = 1 }\n")
    assert codes(capsys, tmp_path / "one.py", 0) == []


def test_of_a_large_project_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shape_names, "MOST_FILES", 2)
    for name in "abc":
        (tmp_path / f"{name}.py").write_text("x = 1\n", encoding="utf-8")
    settings(tmp_path, "[tool.nki-lab.shapes]\ngone = { n = 1 }\n")
    assert codes(capsys, tmp_path, 0) == []
