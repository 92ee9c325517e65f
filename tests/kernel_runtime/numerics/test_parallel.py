"""Threads that share work: all of it is done, whatever some of them meet, and none works on when the call has ended."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from nki_lab.kernel_runtime.numerics.parallel import in_parallel


def test_all_work_is_done_once() -> None:
    waiting, done = iter(range(1000)), []
    in_parallel(lambda _: done.extend(waiting), 3, lambda: None)
    assert sorted(done) == list(range(1000))


def test_one_thread_does_it_all_where_there_are_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    waiting, done = iter(range(100)), []
    in_parallel(lambda _: done.extend(waiting), 4, lambda: None)
    assert done == list(range(100))


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_asks_the_others_to_end_and_is_raised_when_they_have(failing: int) -> None:
    stopped, ended = threading.Event(), []

    def work(number: int) -> None:
        if number == failing:
            raise KeyboardInterrupt
        assert stopped.wait(10)
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        in_parallel(work, 3, stopped.set)
    assert sorted(ended) == sorted({0, 1, 2} - {failing})


@pytest.mark.filterwarnings("error")
def test_numbers_that_overflow_are_silent_in_each_thread() -> None:
    with np.errstate(all="ignore"):
        in_parallel(lambda _: np.float32(3e38) * np.ones(4, np.float32) * np.float32(10), 3, lambda: None)
