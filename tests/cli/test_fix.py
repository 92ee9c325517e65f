"""`nki-lab check --fix` and `--diff`: files are mended whole, or stay as they are."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nki_lab import cli
from nki_lab.cli import checking
from nki_lab.cli.checking import replace_file
from nki_lab.diagnostic import NkiError, diagnose

KERNEL = b"""import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

@nki.jit
def k(x: nt.tensor[128, 64], pads=[1, 2]):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x, dge_mode=2)
    nisa.dma_copy(dst=out, src=t)
    return out
"""
MENDED = KERNEL.replace(b"[1, 2]", b"(1, 2)").replace(b"dge_mode=2", b"dge_mode=nisa.dge_mode.hwdge")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "k.py"
    path.write_bytes(KERNEL)
    return path


def test_findings_with_one_remedy_are_mended(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--fix", str(file)]) == 0
    assert file.read_bytes() == MENDED
    assert capsys.readouterr().out == "no findings\n2 mended in 1 file\n"
    before = file.stat()
    assert cli.main(["check", "--fix", str(file)]) == 0
    assert file.stat().st_ino == before.st_ino  # nothing to mend: not written


def test_only_what_is_wanted_is_mended(file: Path) -> None:
    cli.main(["check", "--fix", "--select", "NKI6", str(file)])
    assert file.read_bytes() == MENDED.replace(b"(1, 2)", b"[1, 2]")


def test_in_other_formats_the_count_stands_beside(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["check", "--fix", "--format", "json", str(file)])
    assert capsys.readouterr() == ("[]\n", "2 mended in 1 file\n")


@pytest.mark.parametrize("options", [["--diff"], ["--diff", "--fix"]])
def test_a_diff_changes_nothing(file: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", *options, str(file)]) == 1
    assert file.read_bytes() == KERNEL
    out, error = capsys.readouterr()
    assert error == "1 file would change\n"
    assert out.startswith(f"--- {file}\n+++ {file}\n@@ ")
    assert [line for line in out.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")] == [
        "-def k(x: nt.tensor[128, 64], pads=[1, 2]):", "+def k(x: nt.tensor[128, 64], pads=(1, 2)):",
        "-    nisa.dma_copy(dst=t, src=x, dge_mode=2)",
        "+    nisa.dma_copy(dst=t, src=x, dge_mode=nisa.dge_mode.hwdge)",
    ]  # fmt: skip
    file.write_bytes(MENDED)
    assert cli.main(["check", *options, str(file)]) == 0


def test_a_diff_of_a_last_line_without_an_end_says_so(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(b"import nki\n@nki.jit\ndef k(x, p=[1]): return x")
    assert cli.main(["check", "--diff", str(file)]) == 1
    assert capsys.readouterr().out.count("\n\\ No newline at end of file\n") == 2


@pytest.mark.parametrize("name", ["none.py", "pyproject.toml"])
def test_a_diff_of_what_cannot_be_read_fails(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.nki-lab]\nx = 1\n", encoding="utf-8")
    assert cli.main(["check", "--diff", str(tmp_path / name)]) == 1
    assert "0 files would change" in capsys.readouterr().err


def test_files_are_mended_in_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(3):
        (tmp_path / f"k{i}.py").write_bytes(KERNEL)
    assert cli.main(["check", "--fix", "--jobs", "2", str(tmp_path)]) == 0
    assert {(tmp_path / f"k{i}.py").read_bytes() for i in range(3)} == {MENDED}
    assert capsys.readouterr().out.endswith("6 mended in 3 files\n")


def test_rights_and_links_stay(file: Path, tmp_path: Path) -> None:
    file.chmod(0o754)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert cli.main(["check", "--fix", str(link)]) == 0
    assert link.is_symlink()
    assert file.read_bytes() == MENDED
    assert stat.S_IMODE(file.stat().st_mode) == 0o754
    assert sorted(item.name for item in tmp_path.iterdir()) == ["k.py", "link"]


def test_line_ends_and_encoding_stay(file: Path) -> None:
    head = "# coding: latin-1\r\n# é\r\n".encode("latin-1")
    file.write_bytes(head + KERNEL.replace(b"\n", b"\r\n"))
    cli.main(["check", "--fix", str(file)])
    assert file.read_bytes() == head + MENDED.replace(b"\n", b"\r\n")


@pytest.mark.parametrize("options", [["--fix"], ["--diff"]])
def test_a_file_of_which_nothing_can_be_mended_is_named(
    file: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = KERNEL + b"\ndef other(:\n"
    file.write_bytes(broken)
    cli.main(["check", *options, str(file)])
    said = capsys.readouterr()
    assert f"left: {file}: it has a syntax error on line 14, so nothing in it is mended\n" in said.out + said.err
    assert file.read_bytes() == broken


def test_a_diff_counts_lines_as_other_tools_do(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(KERNEL.replace(b"    out", b"\f    out"))
    cli.main(["check", "--diff", "--select", "NKI606", str(file)])
    assert "@@ -7,6 +7,6 @@" in (fed := capsys.readouterr().out)
    assert "No newline" not in fed
    file.write_bytes(KERNEL.replace(b"\n", b"\r"))
    cli.main(["check", "--diff", "--select", "NKI606", str(file)])
    assert capsys.readouterr().out == fed.replace("\f", "")


def test_a_disk_that_takes_nothing_leaves_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert cli.main(["check", "--fix", str(file)]) == 1
    assert "NKI021" in (out := capsys.readouterr().out)
    assert "No space left on device" in out
    assert file.read_bytes() == KERNEL
    assert [item.name for item in file.parent.iterdir()] == ["k.py"]


def test_a_file_that_has_changed_meanwhile_stays(file: Path) -> None:
    with pytest.raises(NkiError, match="changed meanwhile"):
        replace_file(file, b"as it was read", MENDED)
    assert file.read_bytes() == KERNEL
    assert [item.name for item in file.parent.iterdir()] == ["k.py"]


def test_an_edit_that_brings_an_error_along_does_not_keep_others_from_being_made(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examined = checking._examined

    def worse(job: checking.Job, source: Any) -> Any:
        found = examined(job, source)
        if b"hwdge" not in source:
            return found
        findings = (*found.examination.findings, diagnose("NKI203", "worse"))
        return replace(found, examination=replace(found.examination, findings=findings))

    monkeypatch.setattr(checking, "_examined", worse)
    many = KERNEL.replace(b"pads=[1, 2]", b"pads=[1, 2], more=[3], others=[4]")
    file.write_bytes(many)
    assert cli.main(["check", "--fix", str(file)]) == 0  # a deprecated literal is a warning
    assert file.read_bytes() == many.replace(b"[1, 2]", b"(1, 2)").replace(b"[3]", b"(3,)").replace(b"[4]", b"(4,)")
    out = capsys.readouterr().out
    assert "3 mended in 1 file\nleft: 1 fix that would bring an error along\n" in out
    assert out.endswith(f"  {file}:10:42: NKI606: NKI203 worse (line 0)\n")


def test_without_libcst_it_is_said_and_nothing_is_mended(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "libcst", None)
    assert cli.main(["check", "--fix", str(file)]) == 1
    assert "NKI022 --fix needs the package libcst" in capsys.readouterr().out
    assert file.read_bytes() == KERNEL
