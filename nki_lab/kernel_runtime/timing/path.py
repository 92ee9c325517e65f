"""The critical path: the chain of ops, each let go by the one before it, that ends with the kernel."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.timing.reasons import FROM_PRODUCER, LAUNCH, NONE, by_reason


class Columns:
    """Times of ops in picoseconds.

    `start`, `duration`: when an op takes its lane, and for how long. `ready`: when its result is visible, -1 before
    that is known. `stall`: what its lane waited for before it, `critical_pred`: the op whose end let it start (-1:
    none). `setup`: the last stretch of that wait, which the lane spent on `setup_reason`. `busy`: its own work within
    `duration`; the rest went to `throttle_reason`. `served`: when the descriptors of a transfer begin to be made.
    """

    __slots__ = (
        "busy",
        "critical_pred",
        "duration",
        "ready",
        "served",
        "setup",
        "setup_reason",
        "stall",
        "start",
        "throttle_reason",
    )

    def __init__(self, count: int) -> None:
        nothing = bytes(8 * count)
        self.start = array("q", nothing)
        self.duration = array("q", nothing)
        self.ready = array("q", b"\xff" * (8 * count))
        self.critical_pred = array("q", b"\xff" * (8 * count))
        self.busy = array("q", nothing)
        self.served = array("q", nothing)
        self.setup = array("q", nothing)
        self.setup_reason = bytearray(count)
        self.stall = bytearray(count)
        self.throttle_reason = bytearray(count)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """Steps of the critical path in order of time. Works and waits add up to the makespan.

    Step i is op `row[i]`, which first waited `wait[i]` picoseconds for `reason[i]` and then worked `work[i]` of them
    until it let the next step go. An op may have several steps, for several reasons; -1 is the end of the kernel.
    `waits` sums the waits by number of reason.
    """

    row: Column
    work: Column
    wait: Column
    reason: NDArray[np.uint8]

    @property
    def waits(self) -> dict[int, int]:
        """Picoseconds of waiting by number of reason."""
        return by_reason((self.reason, self.wait))

    @property
    def length(self) -> int:
        """Picoseconds from its begin to its end."""
        return int(self.work.sum() + self.wait.sum())


def path_of(columns: Columns, launch: int, teardown: int, makespan: int) -> Path:
    """The path that ends with the op whose result is visible last, the first of equals."""
    steps = array("q")  # (row, work, wait, reason) after each other, backwards
    if teardown:
        steps.extend((-1, 0, teardown, LAUNCH))
    end = makespan - teardown
    row = int(np.argmax(np.array(columns.ready, np.int64))) if len(columns.start) else -1
    while row >= 0:
        end = _step(columns, row, end, launch, steps)
        row = columns.critical_pred[row]
    if end:
        steps.extend((-1, 0, end, LAUNCH))
    table = np.array(steps, np.int64).reshape(-1, 4)[::-1]
    return Path(row=table[:, 0], work=table[:, 1], wait=table[:, 2], reason=table[:, 3].astype(np.uint8))


def _step(columns: Columns, row: int, end: int, launch: int, steps: array[int]) -> int:
    """Add the steps of one op that has the path until `end`; when the op before it let it go."""
    start, before = columns.start[row], columns.critical_pred[row]
    stretch = min(columns.duration[row] - columns.busy[row], end - start)
    released = launch if before < 0 else min(start, _release(columns, row, before))
    setup = min(columns.setup[row], start - released)
    rest = start - released - setup
    waits = [(stretch, columns.throttle_reason[row]), (setup, columns.setup_reason[row]), (rest, columns.stall[row])]
    work = end - start - stretch
    for time, reason in waits:
        if time:
            steps.extend((row, work, time, reason))
            work = 0
    if work:
        steps.extend((row, work, 0, NONE))
    return released


def _release(columns: Columns, row: int, before: int) -> int:
    """When the op before let this one go: with its result, or with its lane."""
    if columns.stall[row] in FROM_PRODUCER:
        return columns.ready[before]
    return columns.start[before] + columns.duration[before]
