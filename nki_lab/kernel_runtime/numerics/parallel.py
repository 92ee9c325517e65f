"""Work of several threads: NumPy and BLAS let go of Python's lock in large operations.

Bands of a slab are worth it. Single instructions are not: `np.exp` of a tile of 128 x 512 takes 25 us alone and 67 us
in two threads, one of which is started for it; copies of such tiles take less.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np


def in_parallel(work: Callable[[int], None], count: int, stop: Callable[[], None]) -> None:
    """Call `work` with 0 here and with 1 ... `count` - 1 in threads of their own; return when all have ended.

    Each call takes what is to do from a common supply, so that none is missed where a thread cannot be had. Where one
    fails, or this thread is interrupted, `stop` is called, which asks the others to end; then the error is raised.
    """
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            with np.errstate(all="ignore"):  # a thread has its own
                work(number)
        except BaseException as error:  # noqa: BLE001 - raised where the work was asked for
            failures.append(error)
            stop()

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(1, count)]
    try:
        for thread in threads:
            try:
                thread.start()
            except RuntimeError:  # the system has no more
                break
        work(0)
    except BaseException as error:  # noqa: BLE001 - raised below, when nobody works any more
        failures.insert(0, error)
        stop()
    for thread in threads:
        _await(thread, stop, failures)
    if failures:
        raise failures[0]


def _await(thread: threading.Thread, stop: Callable[[], None], failures: list[BaseException]) -> None:
    """Wait for a thread, whatever comes: it works in memory of the caller's."""
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:  # noqa: BLE001 - an interrupt
            failures.insert(0, error)
            stop()
