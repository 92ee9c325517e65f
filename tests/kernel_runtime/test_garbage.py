"""Garbage is collected seldom while a kernel is worked on, and as before afterwards; at last all of it goes."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from nki_lab.kernel_runtime.garbage import gc_relaxed


@pytest.fixture(autouse=True)
def threshold() -> Iterator[tuple[int, int, int]]:
    """The threshold before, there again after the test."""
    former = gc.get_threshold()
    yield former
    gc.enable()
    gc.set_threshold(*former)


def test_the_threshold_rises_and_comes_back(threshold: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="inside"), gc_relaxed():
        assert gc.get_threshold() == (500_000, *threshold[1:])
        raise ValueError("inside")
    assert gc.get_threshold() == threshold


@pytest.mark.parametrize("mine", [(0, 10, 10), (1_000_000, 5, 5)], ids=["off", "higher"])
def test_a_threshold_that_collects_less_stays(mine: tuple[int, int, int]) -> None:
    gc.set_threshold(*mine)
    with gc_relaxed():
        assert gc.get_threshold() == mine
    assert gc.get_threshold() == mine


def test_the_last_one_out_restores(threshold: tuple[int, int, int]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with gc_relaxed():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with gc_relaxed():
        thread.start()
        assert inside.wait(10)
    assert gc.get_threshold() == (500_000, *threshold[1:])
    leave.set()
    thread.join()
    assert gc.get_threshold() == threshold


MEMORY = """
import gc, os, weakref
from pathlib import Path
from nki_lab.kernel_runtime.garbage import collect_all

class Node: ...

def resident():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

gc.disable()
before = resident()
circles = [(Node(), b"x" * 100_000) for _ in range(400)]  # 40 MB, each below what the allocator maps by itself
for node, data in circles:
    node.other, node.data = node, data
seen = [weakref.ref(node) for node, _ in circles]
kept = b"x" * 100_000  # above all of them: the heap cannot simply end earlier
del circles, node, data
full = resident()
collect_all()
assert not any(item() for item in seen)
print(full - before >> 20, resident() - before >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads how much memory the process has as Linux tells it")
def test_collecting_all_frees_circles_and_gives_their_memory_back() -> None:
    # In a process of its own: a large heap has room for all of it.
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    full, left = map(int, done.stdout.split())
    assert full > 30
    assert left < 10
