"""Plausible mistakes on the command line: each is answered with what to do about it."""

from __future__ import annotations

import errno
import os
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


def test_a_folder_without_files_leaves_nothing_to_migrate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["migrate", str(tmp_path)]) == cli.main(["check", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "NKI025" in out and "left to you" not in out


@pytest.mark.parametrize("command", [["stubs"], ["profile", "k.py::scaled", "--arg", "a=float32[128,4]", "--save"]])
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("k.py", "k.py is a file, not a folder"),
        ("k.py/inner", "k.py is a file, not a folder"),
        (os.devnull, f"{os.devnull} is a device, not a folder"),
        ("circle", os.strerror(errno.ELOOP)),
        ("n" * 300, os.strerror(errno.ENAMETOOLONG)),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="names and links of Windows are others")
def test_what_stands_in_the_way_of_a_folder_is_named(
    command: list[str],
    place: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "circle").symlink_to("circle")
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command, place]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"NKI021 {place}") and f": {reason}\n  = help:  choose another place; " in told
    assert sorted(item.name for item in tmp_path.iterdir()) == ["circle", "k.py"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_recording_follows_a_link_to_a_folder_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "link").symlink_to("made")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["profile", "k.py::scaled", "--arg", "a=float32[128,4]", "--save", "link"]) == 0
    assert (tmp_path / "made" / "nki_lab.json").is_file() and (tmp_path / "link").is_symlink()


NAME = "a\x1b[31m\u202e\n.py"


@pytest.mark.skipif(os.name == "nt", reason="names of Windows have no such characters")
@pytest.mark.parametrize("command", [["migrate"], ["check", "--statistics"], ["check", "--diff"], ["signatures"]])
def test_names_of_files_do_not_steer_a_terminal(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if command != ["signatures"]:
        text = "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n\n\n@nki.jit\ndef k(x):\n    y = nl.load(x)\n"
        (tmp_path / NAME).write_text(text, encoding="utf-8")
    cli.main([*command, NAME])
    told = capsys.readouterr()
    assert "a\\x1b[31m\\u202e\\n.py" in told.out + told.err or command[-1] == "--diff"
    assert not set("\x1b\u202e") & set(told.out + told.err)
