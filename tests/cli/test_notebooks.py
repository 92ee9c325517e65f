"""Notebooks are checked by cells."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nki_lab import cli
from nki_lab.cli.notebooks import notebook_of
from nki_lab.diagnostic import NkiError

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
    [b"", b"{", b"[]", b"{}", b'{"cells": 3}', b"\xff\xfe\x00", b"\x00" * 9, b"[" * 100_000,
     b'{"cells": [], "metadata": []}', b'{"cells": [], "metadata": {"language_info": []}}'],
)  # fmt: skip
def test_what_is_no_notebook_is_said(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ipynb").write_bytes(data)
    assert found(capsys, str(tmp_path), 1) == [("NKI018", str(tmp_path / "a.ipynb"), 1)]


def test_notebooks_are_not_mended(tmp_path: Path) -> None:
    path = notebook(tmp_path, HEAD, "@nki.jit\ndef k(a, p=[1]):\n    return a\n")
    before = Path(path).read_bytes()
    assert cli.main(["check", "--fix", path]) == 1
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize(
    ("data", "message", "place"),
    [
        ('{"nbformat": 3, "worksheets": []}', "has nbformat 3, which keeps no list of cells", (1, 1)),
        ('{"nbformat": 4}', "is no notebook: it has no cells", (1, 1)),
        ('{"cells": null}', "is no notebook: its cells are null, not a list", (1, 1)),
        ('{"cells": {}}', "is no notebook: its cells are an object, not a list", (1, 1)),
        ("[1]", "is no notebook: it holds a list, not an object", (1, 1)),
        ('{"cells": [\n  }', "is no notebook: it is no JSON: Expecting value", (2, 3)),
        ("[" * 100_000, "is no notebook: it is nested too deeply", (1, 1)),
    ],
)
def test_what_keeps_a_notebook_from_being_read_is_said_in_words(
    tmp_path: Path, data: str, message: str, place: tuple[int, int]
) -> None:
    path = tmp_path / "a.ipynb"
    with pytest.raises(NkiError) as caught:
        notebook_of(data.encode(), str(path))
    (item,) = caught.value.diagnostics
    assert item.message == f"{path} {message}"
    assert (item.file, item.line, item.column) == (str(path), *place)
    assert ("jupyter nbconvert --to notebook" in item.help) is ("nbformat 3" in message)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (1, "is a number, not an object"),
        ({"cell_type": "code", "source": 5}, "cannot be read: its source is a number, not a text"),
        ({"cell_type": "code", "source": ["x", None]}, "cannot be read: a line of its source is null, not a text"),
    ],
)
def test_a_cell_that_is_none_costs_one_finding_and_no_other_cell(
    tmp_path: Path, cell: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = notebook(tmp_path, HEAD, "@nki.jit\ndef k():\n    return (lambda x: x)(1)\n")
    whole = json.loads(Path(path).read_text("utf-8"))
    whole["cells"].insert(1, cell)
    whole["metadata"]["long"] = 0
    Path(path).write_text(json.dumps(whole).replace('"long": 0', f'"long": {"9" * 5000}'), "utf-8")
    assert found(capsys, path, 1) == [("NKI018", f"{path}:cell 2", 1), ("NKI104", f"{path}:cell 4", 3)]
    cli.main(["check", path])
    assert f"cell 2 of {path} {message}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ([1], "metadata of {} are a list, not an object"),
        ({"language_info": []}, "language_info in the metadata of {} is a list, not an object"),
        ({"kernelspec": {"language": 3}}, "kernelspec.language in the metadata of {} is a number, not a text"),
    ],
)
def test_odd_metadata_cost_one_finding(
    tmp_path: Path, metadata: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = notebook(tmp_path, HEAD, "@nki.jit\ndef k():\n    return (lambda x: x)(1)\n")
    whole = json.loads(Path(path).read_text("utf-8"))
    Path(path).write_text(json.dumps({**whole, "metadata": metadata}), "utf-8")
    assert found(capsys, path, 1) == [("NKI018", path, 1), ("NKI104", f"{path}:cell 3", 3)]
    cli.main(["check", path])
    assert message.format(path) in capsys.readouterr().out


def test_a_character_that_python_cannot_read_is_told_in_its_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = notebook(tmp_path, "x = 1\n", 'y = 2\ns = "\0"', "z = \0\n", 's = "\ud800"')
    assert found(capsys, path, 1) == [
        ("NKI101", f"{path}:cell {number}", line) for number, line in ((3, 2), (4, 1), (5, 1))
    ]


def test_each_cell_has_its_own_mistake_that_the_compiler_finds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = notebook(tmp_path, "return 5", "x = 1\nyield x\nreturn x", "await f()", "y = (yield 2)")
    assert found(capsys, path, 1) == [
        ("NKI101", f"{path}:cell 2", 1), ("NKI101", f"{path}:cell 3", 2), ("NKI101", f"{path}:cell 5", 1),
    ]  # fmt: skip


def test_messages_count_lines_from_the_first_of_their_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(tmp_path, "x = 1\ny = 2\n", "z = 3\ndef f():\nw = 1", "s = '''\nabc")
    cli.main(["check", path])
    out = capsys.readouterr().out
    assert "expected an indented block after function definition on line 2" in out
    assert re.search(r"unterminated triple-quoted string literal \(detected at line [12]\)", out)
