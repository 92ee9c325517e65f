"""What differs between systems is guarded: the doors work without the modules and flags that only Linux has.

A process without them stands for Windows here; the workflow runs the suite on Windows and macOS themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nki_lab.file_system import locked, relative, rename_over, sync
from tests.test_extras import WITHOUT

ROOT = Path(__file__).parents[1]
KERNELS = """import nki
import nki.language as nl


@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out
"""
LEAN = """
import errno, os, signal, socket
for module, names in (
    (os, ("O_DIRECTORY", "O_NONBLOCK", "sched_getaffinity", "fork", "geteuid", "getuid", "getloadavg", "register_at_fork")),
    (errno, ("EDQUOT",)),
    (signal, ("SIGALRM", "SIGKILL", "setitimer", "alarm")),
    (socket, ("AF_UNIX",)),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""


def test_every_door_works_without_what_windows_lacks(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    (tmp_path / "other.py").write_text(KERNELS.replace("return out", "return 3 +"), encoding="utf-8")
    script = """
    import numpy as np

    import nki_lab
    from nki_lab.cli import checking, main

    if __name__ == "__main__":
        nki_lab.activate()
        from kernels import copied

        run = nki_lab.run(copied, np.ones((128, 8), np.float32), target="trn2")
        run.save("run.nkirec")
        run.save("run.nkirec")
        assert nki_lab.open("run.nkirec").summary == run.summary
        run.to_html("run.html")
        run.to_csv("tables")
        run.to_csv("tables")
        run.to_explorer("explorer")
        checking._start_method = lambda: "spawn"
        assert main(["check", "kernels.py", "other.py", "--jobs", "2"]) == 1
        assert main(["doctor"]) == 0
        assert main(["signatures"]) in (0, 1)
        import nki_lab.lsp.worker as worker

        worker._bound_memory()
        print("end")
    """
    path = tmp_path / "script.py"
    lacking = {"fcntl", "resource", "termios", "pwd", "grp", "pty", "tty"}
    path.write_text(LEAN + WITHOUT.format(names=lacking) + textwrap.dedent(script), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, path.name], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("end\n")
    assert "NKI101" in done.stdout


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_output_goes_through_every_code_page(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS.replace("load(a))", "load(a))  # µ × → 中"), encoding="utf-8")
    command = [sys.executable, "-m", "nki_lab", "profile", "kernels.py::copied", "--arg", "a=float32[128,512]"]
    done = subprocess.run(
        [*command, "--target", "trn2"], cwd=tmp_path, capture_output=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "nl.load(a))  # " in done.stdout.decode(encoding)
    for arguments in (["explain", "NKI213"], ["check", "kernels.py", "--target", "trn2"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "nki_lab", *arguments], cwd=tmp_path, capture_output=True, check=False, timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
        )  # fmt: skip
        assert b"Traceback" not in done.stderr
        assert done.returncode == 0, done.stderr


def test_names_are_taken_over_in_one_step(tmp_path: Path) -> None:
    draft, target = tmp_path / "draft", tmp_path / "target"
    target.write_text("old")
    draft.write_text("new")
    sync(draft)
    sync(tmp_path)
    with locked(tmp_path) as alone:
        assert alone
        rename_over(draft, target)
    assert target.read_text() == "new"
    with pytest.raises(FileNotFoundError):
        rename_over(draft, target)


def test_a_path_that_nothing_relative_leads_to_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert relative(tmp_path / "a" / "b.py", tmp_path) == str(Path("a", "b.py"))

    def on_another_drive(*_: object) -> str:
        raise ValueError("path is on mount 'C:', start on mount 'D:'")

    monkeypatch.setattr("nki_lab.file_system.os.path.relpath", on_another_drive)
    assert relative(tmp_path) == str(tmp_path)
