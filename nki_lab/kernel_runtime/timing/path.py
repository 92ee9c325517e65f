"""The critical path: the chain of ops, each let go by the one before it, that ends with the kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.timing.columns import Times
from nki_lab.kernel_runtime.timing.compiled import compiled_follow
from nki_lab.kernel_runtime.timing.event_loop import follow
from nki_lab.kernel_runtime.timing.reasons import FROM_PRODUCER, LAUNCH, NONE, by_reason


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


def path_of(times: Times, launch: int, teardown: int, makespan: int) -> Path:
    """The path that ends with the op whose result is visible last, the first of equals."""
    end = makespan - teardown
    rows = _rows(times)
    steps = [np.array([[-1, 0, end, LAUNCH]] if end and not len(rows) else np.zeros((0, 4)), np.int64)]
    if len(rows):
        found, begin = _steps(times, rows, end, launch)
        steps = [np.array([[-1, 0, begin, LAUNCH]] if begin else np.zeros((0, 4)), np.int64), found]
    if teardown:
        steps.append(np.array([[-1, 0, teardown, LAUNCH]], np.int64))
    table = np.concatenate(steps)
    return Path(row=table[:, 0], work=table[:, 1], wait=table[:, 2], reason=table[:, 3].astype(np.uint8))


def _rows(times: Times) -> Column:
    """Return the ops of the path in order of time."""
    if not len(times.ready):
        return np.zeros(0, np.int64)
    last = int(np.argmax(times.ready))
    compiled = compiled_follow(len(times.ready))
    if compiled is not None:
        found = np.empty(len(times.ready), np.int64)
        return found[: compiled(times.critical_pred, last, found)][::-1]
    rows = [0] * len(times.ready)
    count = follow(times.critical_pred.data, last, rows)
    return np.array(rows[:count][::-1], np.int64)


def _steps(times: Times, rows: Column, end: int, launch: int) -> tuple[Column, int]:
    """Return the steps of ops of which each let the next one go, the last until `end`; when the first of them began."""
    start, before = times.start[rows], rows[:-1]
    stall = times.stall[rows]
    # When the op before let each go: with its result, or with its lane.
    by_result = np.isin(stall[1:], list(FROM_PRODUCER))
    let_go = np.where(by_result, times.ready[before], times.start[before] + times.duration[before])
    released = np.concatenate(([launch], np.minimum(start[1:], let_go)))
    ends = np.append(released[1:], end)
    stretch = np.minimum(times.duration[rows] - times.busy[rows], ends - start)
    setup = np.minimum(times.setup[rows], start - released)
    rest = start - released - setup
    # In order of time an op has up to four steps; its work belongs to the last of those with a wait.
    waits = np.stack((rest, setup, stretch), axis=1)
    reasons = np.stack((stall, times.setup_reason[rows], times.throttle_reason[rows]), axis=1)
    work = ends - start - stretch
    kept = waits != 0
    last = np.where(kept.any(axis=1), 2 - np.argmax(kept[:, ::-1], axis=1), 0)
    alone = ~kept.any(axis=1) & (work != 0)
    works = np.zeros_like(waits)
    works[np.arange(len(rows)), last] = work
    kept[alone, 0] = True
    reasons[alone, 0] = NONE
    table = np.stack((np.broadcast_to(rows[:, None], waits.shape), works, waits, reasons), axis=2)
    return table[kept].astype(np.int64), int(released[0])
