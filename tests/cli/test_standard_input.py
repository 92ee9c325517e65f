"""`nki-lab check -`: a text from standard input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from nki_lab import cli

BAD = b"import nki\n\n@nki.jit\ndef k(a, pads=[1, 2]):\n    return a\n"


def given(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_findings_stand_in_the_text_of_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, BAD)
    assert cli.main(["check", "-"]) == 1
    shown = capsys.readouterr().out
    assert "error: NKI114 " in shown
    assert " --> <stdin>:4:15\n" in shown
    assert "4 | def k(a, pads=[1, 2]):" in shown


@pytest.mark.parametrize("content", [b"", b"x = 1\r\n"])
def test_a_right_text_has_no_findings(
    content: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, content)
    assert cli.main(["check", "-"]) == 0
    assert capsys.readouterr().out == "no findings\n"


def test_standard_input_is_read_beside_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.py").write_bytes(BAD)
    given(monkeypatch, BAD)
    assert cli.main(["check", "--format", "json", "-", str(tmp_path), "-"]) == 1
    found = [item["file"] for item in json.loads(capsys.readouterr().out) if item["code"] == "NKI114"]
    assert found == ["<stdin>", str(tmp_path / "k.py")]


def test_settings_of_the_working_folder_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.nki-lab]\nignore = ["NKI114"]\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    given(monkeypatch, BAD)
    cli.main(["check", "-"])
    assert "NKI114" not in capsys.readouterr().out


def test_fix_is_refused_and_diff_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given(monkeypatch, BAD)
    assert cli.main(["check", "--fix", "-"]) == 2
    refused = "nki-lab check: error: --fix cannot change standard input: take --diff, which prints the changes, "
    assert capsys.readouterr().err == f"{refused}or name a file\n"
    assert cli.main(["check", "--fix", "--diff", "-"]) == 1
    assert "+++ <stdin>\n" in (shown := capsys.readouterr().out)
    assert "\n+def k(a, pads=(1, 2)):\n" in shown


def test_standard_input_may_be_closed_or_too_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remedy = "pipe a text into it, or name a file"
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["check", "-"]) == 2
    assert capsys.readouterr().err == f"nki-lab check: error: - reads standard input, but it is closed: {remedy}\n"
    given(monkeypatch, b"#" * ((64 << 20) + 1))
    assert cli.main(["check", "-"]) == 2
    assert "it has more than 67108864 bytes" in capsys.readouterr().err


def test_a_file_of_that_name_is_read_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "-").write_bytes(BAD)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "./-"]) == 1
    assert "-:4:15" in capsys.readouterr().out
