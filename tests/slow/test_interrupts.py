"""An interrupt while a run of a million rows is saved or exported: heard within half a second, and nothing half written.

Seconds are of the processor, so that other work on the machine does not count.
"""

from __future__ import annotations

import _thread
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import nki_lab
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.result import Recorded
from tests.recordings import synthetic

MOST: Final = 0.5
"""Seconds from the interrupt to its end."""
ROWS: Final = 1_000_000
SHARES: Final = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
"""Of the time that the whole takes, when it is interrupted."""

Act = Callable[[Recorded, Path], object]


def _save(run: Recorded, folder: Path) -> object:
    return run.save(folder / "run.nkirec")


def _html(run: Recorded, folder: Path) -> object:
    return run.to_html(folder / "run.html")


def _perfetto(run: Recorded, folder: Path) -> object:
    return run.to_perfetto(folder / "run.pftrace")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("large")
    Recording(synthetic(ROWS), {"kernel": "large", "target": "trn2"}).save(folder)
    yield nki_lab.open(folder)


def _interrupted(act: Callable[[], object], after: float) -> float | None:
    """Seconds of the processor from an interrupt to its end; None where the work was over before it."""
    at: list[float] = []

    def interrupt() -> None:
        at.append(time.process_time())
        _thread.interrupt_main()

    timer = threading.Timer(after, interrupt)
    try:
        timer.start()
        act()
        timer.cancel()
        timer.join()
        time.sleep(0.01)  # it may be on its way
    except KeyboardInterrupt:
        return time.process_time() - at[0] if at else None
    return None


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("act", [_save, _html, _perfetto], ids=["save", "to_html", "to_perfetto"])
def test_an_interrupt_is_heard_at_once_and_leaves_nothing(
    act: Act, run: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if act is _perfetto:  # a row takes 50 microseconds
        Recording(synthetic(ROWS // 20), {"kernel": "small", "target": "trn2"}).save(tmp_path / "small.nkirec")
        run = nki_lab.open(tmp_path / "small.nkirec")
    act(run, tmp_path)  # what is worked out once is there from now on
    start = time.perf_counter()
    act(run, tmp_path)
    whole = time.perf_counter() - start
    before = _files(tmp_path)
    found = [_interrupted(lambda: act(run, tmp_path), whole * share) for share in SHARES]
    heard = [seconds for seconds in found if seconds is not None]
    with capsys.disabled():
        print(f"\n{act.__name__}: {whole:.1f} s in all, heard after {', '.join(f'{item:.2f}' for item in heard)} s")
    assert len(heard) >= 3
    assert max(heard) <= MOST
    after = _files(tmp_path)
    assert after.keys() == before.keys() or act is _save
    if act is _save:
        assert len(after) == len(before)
        assert len(nki_lab.open(tmp_path / "run.nkirec").recording) == ROWS


_KERNEL: Final = """
import numpy as np, nki, nki.language as nl

@nki.jit
def long(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(60000):
        nl.store(out, nl.add(nl.load(a), 1.0))
    return out
"""


def _command(folder: Path, page: Path) -> subprocess.Popen[str]:
    """Begin to profile the kernel on the command line, into a page; nothing is taken from an earlier process."""
    path = folder / "long.py"
    path.write_text(_KERNEL, encoding="utf-8")
    given = ["profile", f"{path}::long", "--arg", "a=float32[128,64]", "--html", str(page)]
    return subprocess.Popen(
        [sys.executable, "-m", "nki_lab", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NKI_LAB_CACHE": str(folder / "cache")},
    )


@pytest.fixture(scope="module")
def command_seconds(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Seconds of the processor that the command takes where nobody interrupts it, the fewer of two runs.

    At its very end, while Python frees what it holds, an interrupt ends a process without a word.
    """
    return min(_whole(tmp_path_factory.mktemp("whole")) for _ in range(2))


def _whole(folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with _command(folder, folder / "page.html") as command:
        command.communicate(timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert command.returncode == 0
    assert (folder / "page.html").exists()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _processor(process: int) -> float:
    """Seconds of the processor that a process has taken so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.85])
def test_a_command_that_is_interrupted_says_so_once(tmp_path: Path, share: float, command_seconds: float) -> None:
    with _command(tmp_path, tmp_path / "page.html") as command:
        while _processor(command.pid) < share * command_seconds:
            assert command.poll() is None
            time.sleep(0.02)
        command.send_signal(2)
        out, errors = command.communicate(timeout=60)
    assert command.returncode == 130
    assert errors == "cancelled\n" and not out
    left = sorted(item.name for item in tmp_path.iterdir() if item.name not in ("__pycache__", "cache"))
    assert left == ["long.py"]


@pytest.mark.slow
def test_a_large_instruction_is_interrupted_between_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    import nki
    import nki.language as nl

    @nki.jit
    def large(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        for _ in range(200):
            tile = nl.exp(tile)
            tile = nl.rsqrt(tile)
        nl.store(out, tile)
        return out

    values = np.ones((128, 45_000), np.float32)
    nki_lab.run(large, values, target="trn2")  # later runs have its memory
    start = time.perf_counter()
    nki_lab.run(large, values, target="trn2")
    whole = time.perf_counter() - start
    found = [
        _interrupted(lambda: nki_lab.run(large, values, target="trn2"), whole * share) for share in (0.3, 0.5, 0.7)
    ]
    heard = [seconds for seconds in found if seconds is not None]
    with capsys.disabled():
        print(f"\nnumerics: {whole:.1f} s in all, heard after {', '.join(f'{item:.2f}' for item in heard)} s")
    assert heard and max(heard) <= MOST
