"""Work that may crash is done in other processes, whose end costs one result and no more."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from nki_lab import contained
from nki_lab.contained import Companion, SuddenEnd, in_copies
from nki_lab.kernel_runtime.numerics.pool import Pool

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, where other tests have loaded it

ROOT = Path(__file__).resolve().parents[1]
forks = pytest.mark.skipif(sys.platform != "linux", reason="copies of a process are for Linux")


def hostile(item: str) -> str:
    contained.note(f"working on {item}")
    if item == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "leave":
        sys.exit(3)
    if item == "fail":
        raise ValueError(item)
    return item.upper()


@forks
def test_an_item_that_ends_its_copy_costs_its_own_result_only() -> None:
    results = list(in_copies(hostile, ["a", "crash", "b", "fail", "leave", "c", "crash"]))
    crashed = SuddenEnd(-signal.SIGKILL, "working on crash")
    assert results == [
        "A", crashed, "B", SuddenEnd(1, "working on fail"), SuddenEnd(1, "working on leave"), "C", crashed,
    ]  # fmt: skip
    assert str(crashed) == "its process was ended by SIGKILL"
    assert str(results[3]) == "its process ended with status 1"


def test_what_has_threads_of_its_own_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contained, "threading", SimpleNamespace(active_count=lambda: 1))
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    assert contained.can_fork() is (sys.platform == "linux")
    monkeypatch.setitem(sys.modules, "jax", sys)
    assert not contained.can_fork()


@forks
def test_a_copy_collects_garbage_seldom_and_its_host_as_before() -> None:
    before = gc.get_threshold()
    assert list(in_copies(lambda _: gc.get_threshold(), [0])) == [(2_000_000, *before[1:])]
    assert gc.get_threshold() == before


@forks
def test_a_copy_is_made_while_memory_is_mapped() -> None:
    for _ in range(20):
        pool = Pool()
        pool.foresee([64 << 20])
        assert list(in_copies(lambda one: one.take(64 << 20).memory.nbytes, [pool])) == [64 << 20]
        pool.close()


@forks
def test_who_wants_no_more_results_leaves_no_copy_behind() -> None:
    results = in_copies(_forever, ["a", "b"])
    process = next(results)
    results.close()
    assert not Path(f"/proc/{process}").exists()


def _forever(item: str) -> int:
    if item == "b":
        time.sleep(1000)
    return os.getpid()


@forks
def test_what_is_printed_before_a_copy_is_printed_once(tmp_path: Path) -> None:
    script = "from nki_lab.contained import in_copies\nprint('once')\nprint(list(in_copies(abs, [-1, -2])))"
    file = tmp_path / "script.py"
    file.write_text(script, encoding="utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True, timeout=60,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    assert done.stdout == "once\n[1, 2]\n"


def test_a_companion_that_ends_is_started_again() -> None:
    companion = Companion()
    first = companion.call(os.getpid)
    assert companion.call(abs, -7) == 7
    assert companion.call(os.getpid) == first != os.getpid()
    assert companion.call(os._exit, 3) == SuddenEnd(3)
    assert companion.call(os.kill, companion.call(os.getpid), signal.SIGSEGV) == SuddenEnd(-signal.SIGSEGV)
    second = companion.call(os.getpid)
    assert isinstance(second, int)
    assert second != first
    companion.close()
    assert not Path(f"/proc/{second}").exists()


def test_what_a_companion_prints_and_reads_is_none_of_its_answers() -> None:
    companion = Companion()
    assert companion.call(print, "text") is None
    assert companion.call(input) == SuddenEnd(1)  # the end of what it can read
    companion.close()


def test_an_interrupt_ends_the_work_of_a_companion(tmp_path: Path) -> None:
    script = """
import os, sys, threading, time, signal
from nki_lab.contained import Companion
companion = Companion()
process = companion.call(os.getpid)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    companion.call(time.sleep, 1000)
except KeyboardInterrupt:
    print(os.path.exists(f"/proc/{process}"), companion.call(abs, -1))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    assert done.stdout == "False 1\n"
