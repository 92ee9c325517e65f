"""`nki-lab migrate` on the command line: diffs, writing, comparing, and files that it must not harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nki_lab import cli

KERNEL = """\
import neuronxcc.nki.language as nl
from neuronxcc import nki


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(512)[None, :]
    nl.store(out[i_p, i_f], value=nl.load(x[i_p, i_f]) * 2)
    return out
"""
ARGUMENT = ["--arg", "x=float32[128,512]"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "kernels.py"
    made.write_text(KERNEL)
    return made


def test_the_diff_is_printed_and_nothing_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["migrate", str(file), *ARGUMENT]) == 0
    out = capsys.readouterr().out
    assert "-    i_p = nl.arange(128)[:, None]\n" in out and "1 of 1 file would change" in out
    assert file.read_text() == KERNEL


def test_verified_kernels_are_equal(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["migrate", str(file), *ARGUMENT, "--verify"]) == 0
    assert "kernel: equal on (x=float32[128,512])" in capsys.readouterr().out


def test_arguments_go_to_the_kernels_that_have_them(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(KERNEL + KERNEL[KERNEL.index("\n\n@nki.jit") :].replace("kernel(x)", "other(x, y)"))
    assert cli.main(["migrate", str(file), *ARGUMENT, "--verify"]) == 1
    out = capsys.readouterr().out
    assert "kernel: equal on (x=float32[128,512])" in out
    missing = "pass --arg x=dtype[sizes] --arg y=dtype[sizes]\n"
    assert f"other: its arguments are not known: {missing}" in out and "new error" not in out


def test_a_kernel_without_shapes_is_not_compared_and_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["migrate", str(file), "--verify"]) == 1
    assert "its arguments are not known: pass --arg" in capsys.readouterr().out


def test_a_kernel_that_a_function_makes_is_not_compared(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = KERNEL.index("@nki.jit")
    inner = "".join(f"    {line}\n" for line in KERNEL[start:].splitlines())
    file.write_text(f"{KERNEL[:start]}def make():\n{inner}    return kernel\n\n\nother = nki.jit(print)\n")
    assert cli.main(["migrate", str(file), *ARGUMENT, "--verify"]) == 1
    assert "kernel: a function or class makes it: only kernels of the module itself are run" in capsys.readouterr().out


def test_shapes_come_from_the_project_as_for_check(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file.parent / "pyproject.toml").write_text('[tool.nki-lab.shapes]\nkernel = { x = "float32[128,512]" }\n')
    assert cli.main(["migrate", str(file), "--verify"]) == 0
    assert "kernel: equal" in capsys.readouterr().out


def test_writing_keeps_rights_and_links(file: Path, tmp_path: Path) -> None:
    file.chmod(0o750)
    link = tmp_path / "link.py"
    link.symlink_to(file)
    assert cli.main(["migrate", str(link), *ARGUMENT, "--write"]) == 0
    assert link.is_symlink() and file.stat().st_mode & 0o777 == 0o750
    assert "neuronxcc" not in file.read_text()
    after = file.read_bytes()
    assert cli.main(["migrate", str(link), *ARGUMENT, "--write"]) == 0
    assert file.read_bytes() == after


def test_line_ends_stay(file: Path) -> None:
    file.write_bytes(KERNEL.replace("\n", "\r\n").encode())
    assert cli.main(["migrate", str(file), *ARGUMENT, "--write"]) == 0
    data = file.read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n") > 5


def test_line_ends_of_two_kinds_stay_where_they_are(file: Path) -> None:
    lines = KERNEL.splitlines()
    file.write_bytes("".join(line + "\r" * (number % 2) + "\n" for number, line in enumerate(lines)).encode())
    before = file.read_bytes().split(b"\n")
    assert cli.main(["migrate", str(file), *ARGUMENT, "--write"]) == 0
    after = file.read_bytes().split(b"\n")
    assert after[0] == b"import nki.language as nl"
    assert after[1] == b"import nki\r"
    kept = [line for line in before if b"nki" not in line and b"arange" not in line and b"i_p" not in line]
    assert [line for line in after if line in kept] == kept


def test_a_declared_encoding_stays(file: Path) -> None:
    file.write_bytes(("# -*- coding: latin-1 -*-\n# caf\u00e9\n" + KERNEL).encode("latin-1"))
    assert cli.main(["migrate", str(file), *ARGUMENT, "--write"]) == 0
    data = file.read_bytes()
    assert b"# caf\xe9\n" in data and b"neuronxcc" not in data


def test_what_is_no_text_is_told_and_untouched(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = b"import neuronxcc.nki as nki\n# \xff\xfe\n"
    file.write_bytes(data)
    assert cli.main(["migrate", str(file), "--write"]) == 1
    assert "NKI018" in capsys.readouterr().out and file.read_bytes() == data


@pytest.mark.skipif(os.name == "nt", reason="rights of folders are others there")
def test_a_folder_that_takes_no_files_is_told_and_the_file_untouched(file: Path) -> None:
    file.parent.chmod(0o555)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "nki_lab", "migrate", str(file), *ARGUMENT, "--write"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        file.parent.chmod(0o755)
    if os.geteuid() != 0:  # root may write everywhere
        assert done.returncode == 1 and "NKI021" in done.stdout and file.read_text() == KERNEL
    assert not list(file.parent.glob(".kernels*"))


def test_json_has_everything(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["migrate", str(file), *ARGUMENT, "--verify", "--format", "json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["changed"] and not report["written"] and report["kernels"] == ["kernel"]
    assert report["rows"]["13"] == 2 and report["verified"][0]["outcome"] == "equal"
    assert report["diff"].startswith("--- ")


def test_what_is_left_has_a_code_and_a_remedy(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(KERNEL.replace("@nki.jit", "@nki.benchmark"))
    assert cli.main(["migrate", str(file), *ARGUMENT]) == 1
    out = capsys.readouterr().out
    assert "NKI610" in out and "nki_lab.profile" in out and "left to you: 1" in out


def test_later_releases_are_mended_as_by_fix(file: Path) -> None:
    file.write_text(
        "import nki\nimport nki.language as nl\n\n\n@nki.jit\ndef kernel(x):\n    n = nl.tile_size.psum_fmax\n"
        "    for i in nl.affine_range(2):\n        pass\n    return x\n"
    )
    assert cli.main(["migrate", str(file), "--from", "0.3", "--write"]) == 0
    assert "psum_bank_fmax" in file.read_text() and "in range(2)" in file.read_text()


def test_files_that_are_not_there_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["migrate", str(tmp_path / "none.py")]) == 1
    assert "NKI018" in capsys.readouterr().out


def test_a_form_feed_ends_no_line_of_the_diff(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(KERNEL.replace("    out = ", "    text = '\f\u2028'\n    out = "), encoding="utf-8")
    assert cli.main(["migrate", str(file), *ARGUMENT]) == 0
    out = capsys.readouterr().out
    assert "     text = '\f\u2028'\n" in out and "No newline at end of file" not in out
