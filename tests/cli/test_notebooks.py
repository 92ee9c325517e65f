"""Notebooks are checked by cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nki_lab import cli

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl"


def notebook(folder: Path, *cells: str, kind: str = "code", **metadata: Any) -> str:
    path = folder / "a.ipynb"
    made = [{"cell_type": "markdown", "source": ["# prose\n"], "metadata": {}}]
    made += [
        {"cell_type": kind, "source": text.splitlines(keepends=True), "metadata": {}, "outputs": []} for text in cells
    ]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made}), "utf-8")
    return str(path)


def found(capsys: pytest.CaptureFixture[str], path: str, status: int) -> list[tuple[str, str, int]]:
    assert cli.main(["check", "--format", "json", path]) == status
    return [(item["code"], item["file"], item["line"]) for item in json.loads(capsys.readouterr().out)]


def test_findings_stand_in_their_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(
        tmp_path, HEAD, "%%nki\n@nki.jit\ndef k(a):\n    return (lambda x: x)(a)\n",
        "!ls\nimport numpy as np\nk(np.zeros((2, 2)))",
    )  # fmt: skip
    assert found(capsys, path, 1) == [("NKI104", f"{path}:cell 3", 4)]


def test_names_of_one_cell_are_known_in_the_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "    t = nl.ndarray((128, 600), dtype=nl.float32, buffer=nl.sbuf)\n    nisa.dma_copy(dst=t, src=a)\n    u = nl.copy(t[:, 0:3])\n    nisa.tensor_copy(dst=t, src=u)\n"
    launch = "import numpy as np\nk(np.zeros((128, 600), np.float32))"
    path = notebook(tmp_path, HEAD, f"@nki.jit\ndef k(a):\n{body}", launch)
    assert ("NKI203", f"{path}:cell 3", 6) in found(capsys, path, 1)
    cli.main(["check", path])
    out = capsys.readouterr().out
    assert "6 |     nisa.tensor_copy(dst=t, src=u)" in out
    assert "made at line 5 of cell 3" in out
    assert f"({path}:cell 4:2:1)" in out


def test_comments_silence_in_cells_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(
        tmp_path, HEAD, "@nki.jit\ndef k(a):  # nki: noqa\n    return (lambda x: x)(a)  # nki: noqa[NKI104]\n"
    )
    assert found(capsys, path, 0) == []


def test_a_broken_cell_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(tmp_path, HEAD, "x = (", "@nki.jit\ndef k():\n    return (lambda x: x)(1)\n")
    codes = found(capsys, path, 1)
    assert ("NKI101", f"{path}:cell 3", 1) in codes
    assert ("NKI104", f"{path}:cell 4", 3) in codes


def test_a_magic_that_binds_names_keeps_us_from_complaining(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(tmp_path, "%run setup.py", "@nki.jit\ndef k(a):\n    return helper((lambda x: x)(a))\n")
    assert [code for code, _, _ in found(capsys, path, 1) if code != "NKI121"] == ["NKI104"]


def test_other_languages_and_prose_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(capsys, notebook(tmp_path, "x = (", language_info={"name": "julia"}), 0) == []
    assert found(capsys, notebook(tmp_path, "x = (", kind="markdown"), 0) == []
    assert found(capsys, notebook(tmp_path), 0) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"cells": 3}', b'{"cells": [3]}', b"\xff\xfe\x00", b"\x00" * 9, b"[" * 100_000,
     b'{"cells": [], "metadata": []}', b'{"cells": [{"cell_type": "code", "source": [3]}]}'],
)  # fmt: skip
def test_what_is_no_notebook_is_said(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ipynb").write_bytes(data)
    assert found(capsys, str(tmp_path), 1) == [("NKI018", str(tmp_path / "a.ipynb"), 1)]


def test_notebooks_are_not_mended(tmp_path: Path) -> None:
    path = notebook(tmp_path, HEAD, "@nki.jit\ndef k(a, p=[1]):\n    return a\n")
    before = Path(path).read_bytes()
    assert cli.main(["check", "--fix", path]) == 1
    assert Path(path).read_bytes() == before
