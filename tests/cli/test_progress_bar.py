"""The bar of `nki-lab run` and `profile`: on a terminal, and nowhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

pytestmark = pytest.mark.extended

KERNEL = """
import time
import numpy as np, nki, nki.language as nl

@nki.jit
def slow(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    for i in range(3000):
        tile = nl.add(tile, 1.0)
        if i % 1000 == 500:
            time.sleep(0.7)
    nl.store(out, tile)
    return out

if __name__ == "__main__":
    print(slow(np.ones((128, 64), np.float32))[0, 0])
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "slow.py"
    path.write_text(KERNEL, encoding="utf-8")
    return path


def _errors_of(arguments: list[str], *, columns: int = 100) -> tuple[str, str]:
    """What a command prints, and what it shows on the terminal that its errors go to."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "nki_lab", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                read = os.read(ours, 4096)
            except OSError:  # Linux says so at the end of a terminal
                break
            if not read:
                break
            shown += read
        os.close(ours)
        assert process.stdout is not None
        printed = process.stdout.read()
        assert process.wait(60) == 0, shown.decode()
    return printed, shown.decode()


def test_a_terminal_shows_how_far_a_run_is(script: Path) -> None:
    printed, shown = _errors_of(["run", str(script)])
    assert printed == "3001.0\n"
    assert "slow: specialising: " in shown
    assert shown.endswith("\r")  # the line is empty again


def test_a_profile_shows_a_bar_too(script: Path) -> None:
    printed, shown = _errors_of(["profile", f"{script}::slow", "--arg", "a=float32[128,64]", "--target", "trn2"])
    assert printed.startswith("slow on trn2: ")
    assert "slow: specialising: " in shown


def test_no_progress_shows_none(script: Path) -> None:
    assert _errors_of(["run", "--no-progress", str(script)]) == ("3001.0\n", "")


def test_a_pipe_gets_none(script: Path) -> None:
    command = [sys.executable, "-m", "nki_lab", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("3001.0\n", "")


def test_a_sweep_has_a_bar_of_its_points(tmp_path: Path) -> None:
    path = tmp_path / "swept.py"
    path.write_text(
        "import nki, nki.language as nl\n\nTILE = 64\n\n@nki.jit\ndef copy(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    for i in range(0, 512, TILE):\n"
        "        nl.store(out[:, i : i + TILE], nl.load(a[:, i : i + TILE]))\n    return out\n",
        encoding="utf-8",
    )
    given = ["sweep", f"{path}::copy", "--vary", "TILE=64,128,256", "--arg", "a=float32[128,512]"]
    printed, shown = _errors_of(given)
    assert "copy" in shown and "3/3" in shown and "points" in shown
    assert "256" in printed
    plain = subprocess.run([sys.executable, "-m", "nki_lab", *given], capture_output=True, text=True, check=True)
    assert plain.stderr == ""
