"""Garbage is collected seldom while a kernel is worked on, and as before afterwards."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from nki_lab.kernel_runtime.garbage import gc_relaxed


@pytest.fixture(autouse=True)
def threshold() -> Iterator[tuple[int, int, int]]:
    """The threshold before, there again after the test."""
    former = gc.get_threshold()
    yield former
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
