"""`nki-lab check`: which files, which findings, which exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nki_lab import cli
from nki_lab.cli import checking
from nki_lab.query import EvaluationRequest, Examination

BAD = "import nki\n\n@nki.jit\ndef k(a):\n    return (lambda x: x)(a)\n"
GOOD = "x = 1\n"
ROOT = Path(__file__).parents[2]


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


def found(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 1) -> list[dict[str, Any]]:
    """The findings that the command prints as JSON."""
    assert cli.main(["check", "--format", "json", *map(str, arguments)]) == status
    out: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return out


def errors(items: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(Path(item["file"]).name, item["code"]) for item in items if item["severity"] == "error"]


def settings(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(textwrap.dedent(text), encoding="utf-8")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows copies no processes")
def test_copies_of_the_command_give_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.12 and later warn where a process is copied that has threads, as those of BLAS."""
    fork = os.fork

    def warning() -> int:
        warnings.warn("This process is multi-threaded, use of fork() may lead to deadlocks", DeprecationWarning, 2)
        return fork()

    monkeypatch.setattr("threading.active_count", lambda: 1)
    monkeypatch.setattr("os.fork", warning)
    write(tmp_path, **{f"k{i}": GOOD for i in range(4)})
    assert found(capsys, tmp_path, "--jobs", "2", status=0) == []


# -- processes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_several_processes_say_what_one_says(
    tmp_path: Path, threads: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threading.active_count", lambda: threads)
    write(tmp_path, **{f"k{i}": BAD if i % 2 else GOOD for i in range(6)})
    alone = found(capsys, tmp_path, "--jobs", "1")
    assert [item["file"] for item in alone if item["code"] == "NKI104"] == [
        str(tmp_path / f"k{i}.py") for i in (1, 3, 5)
    ]
    assert found(capsys, tmp_path, "--jobs", "3") == alone


@pytest.mark.parametrize("processes", [1, 2])
def test_a_file_that_ends_its_process_keeps_its_syntax_findings_and_costs_no_other(
    processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fatal(checking.Document):
        def examine(self, request: EvaluationRequest) -> Examination:
            if self.file.endswith("b.py"):
                assert request.budget.begun is not None
                request.budget.begun("softmax")
                os.kill(os.getpid(), 9)
            return super().examine(request)

    monkeypatch.setattr(checking, "Document", Fatal)
    monkeypatch.setattr(checking, "can_fork", lambda: True)
    write(tmp_path, a=BAD, b=BAD, c=BAD)
    jobs = [checking.Job(file=str(tmp_path / f"{name}.py"), target="trn2") for name in "abc"]
    answers = list(checking.check_files(jobs, processes))
    codes = [[item.code for item in answer.findings if item.code != "NKI121"] for answer in answers]
    assert codes == [["NKI104"], ["NKI104", "NKI901"], ["NKI104"]]
    missing = answers[1].findings[-1]
    assert missing.file == jobs[1].file
    assert missing.message == (
        "evaluating kernel softmax failed, its process was ended by SIGKILL: "
        "only the syntax of this file is checked, and a run is not affected"
    )


def test_nothing_is_left_behind_when_the_command_is_killed(tmp_path: Path) -> None:
    script = """
        import os, signal, sys, time
        from nki_lab.cli import checking

        def main():
            with checking._pool(1) as pool:
                print(pool.submit(os.getpid).result(), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        if __name__ == "__main__":
            main()
    """
    file = tmp_path / "killed.py"
    file.write_text(textwrap.dedent(script), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    worker = int(done.stdout)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_mistake_of_ours_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(checking, "Document", broken)
    write(tmp_path, k=GOOD)
    (item,) = checking.check_file(checking.Job(file=str(tmp_path / "k.py"), target="trn2")).findings
    assert (item.code, item.message) == ("NKI901", "nki_lab failed with RuntimeError: boom")


def test_few_files_are_checked_without_other_processes() -> None:
    assert checking.default_processes(1) == checking.default_processes(15) == 1
    assert 1 <= checking.default_processes(10_000) <= (os.cpu_count() or 1)


# -- which findings ----------------------------------------------------------------------------------------------------


def test_codes_are_selected_and_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, k=BAD)
    assert errors(found(capsys, tmp_path, "--select", "NKI104")) == [("k.py", "NKI104")]
    assert found(capsys, tmp_path, "--select", "NKI2,NKI3", status=0) == []
    assert found(capsys, tmp_path, "--ignore", "NKI10", "--ignore", "NKI121", status=0) == []
    assert errors(found(capsys, tmp_path, "--select", "ALL", "--ignore", "NKI12")) == [("k.py", "NKI104")]


def test_the_project_s_choice_is_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, k=BAD)
    settings(tmp_path, '[tool.nki-lab]\nselect = ["NKI2"]\nignore = ["NKI121"]\n')
    assert found(capsys, tmp_path, status=0) == []
    assert errors(found(capsys, tmp_path, "--select", "NKI1")) == [("k.py", "NKI104")]
    assert found(capsys, tmp_path, "--select", "NKI121", status=0) == []


def test_a_broken_file_is_said_whatever_is_selected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, k="x = (\n")
    assert errors(found(capsys, tmp_path, "--select", "NKI2")) == [("k.py", "NKI101")]
    assert found(capsys, tmp_path, "--ignore", "NKI101", status=0) == []


SHAPELESS = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def k(a):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a)
"""


def test_shapes_come_from_the_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, k=SHAPELESS)
    assert "NKI121" in {item["code"] for item in found(capsys, tmp_path, status=0)}
    settings(tmp_path, '[tool.nki-lab.shapes]\nk = { a = "float32[128,65]" }\n')
    assert "NKI121" not in {item["code"] for item in found(capsys, tmp_path)}
    settings(tmp_path, '[tool.nki-lab.shapes]\n"k.py::k" = [{ a = "float32[128,64]" }]\n')
    assert errors(found(capsys, tmp_path, status=0)) == []


# 200 KiB a partition: more than trn1 has, less than trn2 has.
LARGE = """
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

@nki.jit
def k(a: nt.tensor[128, 64]):
    tiles = []
    for i in range(4):
        tile = nl.ndarray((128, 51200), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.memset(tile, 0)
        tiles.append(tile)
    out = nl.ndarray((128, 8), dtype=nl.uint8, buffer=nl.sbuf)
    for tile in tiles:
        nisa.tensor_copy(out, tile[:, 0:8])
"""


def test_the_target_is_the_command_s_else_the_environment_s_else_the_project_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, k=LARGE)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    settings(tmp_path, '[tool.nki-lab]\ntarget = "trn1"\n')
    over = [("k.py", "NKI315")]
    assert errors(found(capsys, tmp_path)) == over
    assert errors(found(capsys, tmp_path, "--target", "trn2", status=0)) == []
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    assert errors(found(capsys, tmp_path, status=0)) == []
    assert errors(found(capsys, tmp_path, "--target", "trn1")) == over


# -- which files -------------------------------------------------------------------------------------------------------


def test_folders_that_hold_other_people_s_files_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (".git", "node_modules", "__pycache__", "env", "lib/site-packages", "kernels"):
        (tmp_path / name).mkdir(parents=True)
        write(tmp_path / name, k=BAD)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert {item["file"] for item in found(capsys, tmp_path)} == {str(tmp_path / "kernels" / "k.py")}


def test_what_is_excluded_is_left_out_unless_it_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old").mkdir()
    write(tmp_path / "old", k=BAD)
    write(tmp_path, new=GOOD)
    settings(tmp_path, '[tool.nki-lab]\nexclude = ["old"]\n')
    assert found(capsys, tmp_path, status=0) == []
    named = tmp_path / "old" / "k.py"
    assert errors(found(capsys, named)) == [("k.py", "NKI104")]
    assert found(capsys, named, "--force-exclude", status=0) == []


def test_a_file_named_twice_is_checked_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, k=BAD)
    (tmp_path / "link.py").symlink_to(tmp_path / "k.py")
    assert errors(found(capsys, tmp_path / "k.py", tmp_path, tmp_path)) == [("k.py", "NKI104")]


def test_a_named_file_needs_no_ending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script").write_text(BAD, encoding="utf-8")
    assert errors(found(capsys, tmp_path / "script")) == [("script", "NKI104")]


@pytest.mark.parametrize("content", [None, "notes.txt"])
def test_a_folder_without_python_is_said(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if content:
        (tmp_path / content).touch()
    (item,) = found(capsys, tmp_path, status=0)
    assert (item["code"], item["severity"]) == ("NKI025", "warning")


# -- what goes wrong on the way ----------------------------------------------------------------------------------------


def test_links_in_a_circle_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, k=BAD)
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a.py").symlink_to(tmp_path / "b.py")
    (tmp_path / "b.py").symlink_to(tmp_path / "a.py")
    assert set(errors(found(capsys, tmp_path))) == {("k.py", "NKI104"), ("a.py", "NKI018"), ("b.py", "NKI018")}
    assert errors(found(capsys, tmp_path / "a.py")) == [("a.py", "NKI018")]


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"\x7fELF\x02\x01\x01\0\0", "NKI101"), (b"\xff\xfe\x00", "NKI101"), (b"# coding: nowhere\n", "NKI101"),
     (b"x = " + b"(" * 5000, "NKI101"), (b"", None), (b"\xef\xbb\xbfx = 1\r\n", None)],
)  # fmt: skip
def test_whatever_a_file_holds_there_is_an_answer(
    tmp_path: Path, data: bytes, code: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.py").write_bytes(data)
    expected = [("k.py", code)] if code else []
    assert errors(found(capsys, tmp_path, status=1 if code else 0)) == expected
    assert cli.main(["check", "--fix", str(tmp_path)]) == (1 if code else 0)
    assert (tmp_path / "k.py").read_bytes() == data


@pytest.mark.parametrize("name", ["none.py", "none/", "a\0b.py", "x" * 400, "k.py/k.py"])
def test_what_is_not_there_is_said(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, k=GOOD)
    assert [item["code"] for item in found(capsys, f"{tmp_path}/{name}")] == ["NKI018"]


def test_a_near_name_is_suggested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, softmax=GOOD)
    assert found(capsys, tmp_path / "softmx.py")[0]["help"] == "did you mean softmax.py?"


def test_what_is_neither_file_nor_folder_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert "it is a pipe, not a file" in found(capsys, tmp_path / "pipe.py")[0]["message"]
    assert "it is a pipe, not a file" in found(capsys, tmp_path)[0]["message"]


def test_a_file_that_may_not_be_read_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, k=GOOD)

    def refuse(path: str) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("nki_lab.cli.checking.read_source", refuse)
    (item,) = found(capsys, tmp_path / "k.py")
    assert (item["code"], item["message"]) == ("NKI018", f"{tmp_path / 'k.py'}: Permission denied")


def test_a_folder_that_may_not_be_entered_is_said_and_the_rest_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    for folder in (tmp_path, closed):
        write(folder, k=BAD)
    stat = os.stat

    def refuse(path: Any, *arguments: Any, **keywords: Any) -> os.stat_result:
        if os.fspath(path).startswith(f"{closed}/"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *arguments, **keywords)

    monkeypatch.setattr(os, "stat", refuse)
    items = found(capsys, tmp_path)
    assert errors(items) == [("closed", "NKI018"), ("k.py", "NKI104")]
    assert items[0]["message"] == f"{closed}: Permission denied"
    for path in (closed, closed / "k.py"):
        assert errors(found(capsys, path)) == [("k.py", "NKI018")]


@pytest.mark.parametrize("text", ["[tool.nki-lab\n", '[tool.nki-lab]\nignroe = ["NKI1"]\n'])
def test_settings_that_cannot_be_understood_stop_the_check_below_them(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    for folder in ("a", "a/b", "c"):
        write(tmp_path / folder, k=BAD)
    settings(tmp_path / "a", text)
    assert errors(found(capsys, tmp_path)) == [("pyproject.toml", "NKI024"), ("k.py", "NKI104")]


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [[], ["--select", "E501"], ["--ignore", "NKI999"], ["--target", "trn9"], ["--jobs", "0"], ["--jobs", "x"],
     ["--format", "xml"], ["--nothing"], ["--sarif", ""], ["--coverage-html", ""]],
)  # fmt: skip
def test_a_wrong_command_line_ends_with_2(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, k=GOOD)
    try:
        status: Any = cli.main(["check", *([str(tmp_path)] if arguments else []), *arguments])
    except SystemExit as leaving:
        status = leaving.code
    out, error = capsys.readouterr()
    assert (status, out) == (2, "")
    assert error


def test_the_examples_have_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(ROOT / "examples"), "--format", "github"]) == 0
    assert "::error" not in capsys.readouterr().out


def test_the_hooks_are_commands_that_exist(tmp_path: Path) -> None:
    import yaml

    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [hook["id"] for hook in hooks] == ["nki-lab-check", "nki-lab-fix"]
    write(tmp_path, k=BAD)
    for hook in hooks:
        program, *arguments = hook["entry"].split()
        assert program == "nki-lab"
        assert {"python", "jupyter"} == set(hook["types_or"])
        command = [sys.executable, "-m", "nki_lab", *arguments, str(tmp_path / "k.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
        assert done.returncode == 1
        assert "NKI104" in done.stdout


def test_statistics_say_what_was_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "import nki\nimport nki.language as nl\nimport nki.typing as nt\nfrom nowhere import made\n\n@nki.jit\n"
        "def kernel(x: nt.tensor[128, 64]):\n    t = nl.load(x)\n    u = nl.load(made(x))\n"
        "    out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)\n    nl.store(out, t)\n    return out\n",
        encoding="utf-8",
    )
    cli.main(["check", "--statistics", str(file)])
    shown = capsys.readouterr().out.splitlines()
    head, first, every, shares, _, why, reason = shown[-7:]
    assert head.split() == ["NKI", "calls", "all", "fully", "partly", "by", "name", "skipped"]
    assert first.split() == [str(file), "4", "3", "1", "0", "0"]
    assert every.split() == ["all", "files", "4", "3", "1", "0", "0"]
    assert shares.split() == ["75", "%", "25", "%", "0", "%", "0", "%"]
    assert why == "not checked fully, because"
    assert reason == "  1  partly: an operand is not known, or not in every iteration"


def test_a_finding_in_a_helper_is_shown_once_in_the_helpers_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings(tmp_path, "")
    head = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
    helper = f"{head}def narrowed(t):\n    nisa.tensor_copy(dst=t, src=t[:, 0:32])\n"
    kernel = (
        f"{head}from helpers import narrowed\n@nki.jit\ndef kernel(x: nki.typing.tensor[128, 64]):\n"
        "    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)\n    nisa.dma_copy(dst=t, src=x)\n"
        "    narrowed(t)\n    return x\n"
    )
    write(tmp_path, a=kernel, b=kernel, helpers=helper)
    (item,) = [item for item in found(capsys, tmp_path) if item["severity"] == "error"]
    assert (Path(item["file"]).name, item["line"], item["code"]) == ("helpers.py", 5, "NKI203")
    assert [Path(other["file"]).name for other in item["related"] if other["message"] == "reached from this call"]
    (alone,) = [item for item in found(capsys, tmp_path / "helpers.py") if item["severity"] == "error"]
    assert (Path(alone["file"]).name, alone["line"], alone["code"]) == ("helpers.py", 5, "NKI203")
    (caller,) = [item for item in found(capsys, tmp_path / "a.py") if item["severity"] == "error"]
    assert Path(caller["file"]).name == "helpers.py"
