"""Plausible mistakes on the command line: each is answered with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_lab import cli

KERNEL = "import nki\n\n\n@nki.jit\ndef scaled(a):\n    return a\n"


@pytest.mark.parametrize(
    ("given", "status", "message", "remedy"),
    [
        (["profile", "nothere.py::k"], 1, "NKI018 nothere.py does not exist", "check the path: it is looked for in "),
        (["run", "folder"], 1, "NKI018 folder is a folder", "name a file in it"),
        (["profile", "empty.py::k"], 1, "NKI102 empty.py has no kernel k", "decorate a function at the top level"),
        (["profile", "k.py::zzz"], 1, "NKI102 k.py has no kernel zzz", "for example k.py::scaled"),
        (["explain", "zzzzzz"], 1, "NKI006 'zzzzzz' is no code", "for example NKI213"),
        (["check", "bytes.py", "--target", "trn22"], 2, "NKI004 target is 'trn22'", "did you mean trn2, trn3 or trn1?"),
        (["profile", "bytes.py::k"], 1, "NKI101 the file is not text", "save it as UTF-8"),
    ],
)
def test_a_mistake_is_told_with_its_remedy(
    given: list[str],
    status: int,
    message: str,
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00bad")
    monkeypatch.chdir(tmp_path)
    assert cli.main(given) == status
    told = capsys.readouterr().err
    assert told.startswith(message), told
    assert f"  = help:  {remedy}" in told
    assert "Traceback" not in told


def test_a_path_without_files_is_no_file_to_migrate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli.main(["migrate", "folder", "nothere.py"]) == 1
    assert "\n0 of 0 files would change\n" in capsys.readouterr().out
