"""The critical path: the chain of ops, each let go by the one before it, that ends with the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.timing.columns import Times
from nki_lab.kernel_runtime.timing.compiled import compiled_follow
from nki_lab.kernel_runtime.timing.event_loop import follow
from nki_lab.kernel_runtime.timing.reasons import FROM_PRODUCER, LAUNCH, NONE, by_reason
from nki_lab.kernel_runtime.vocabulary import STALL_REASONS


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
    begin, steps = end, []
    if len(rows):
        found, begin = _steps(times, rows, end, launch)
        steps.append(found)
    if begin:
        steps.insert(0, _launch(begin))
    if teardown:
        steps.append(_launch(teardown))
    row, work, wait, reason = (np.concatenate(column) for column in zip(_launch(0, 0), *steps, strict=True))
    return Path(row=row, work=work, wait=wait, reason=reason)


_BY_RESULT: Final = np.isin(np.arange(len(STALL_REASONS)), list(FROM_PRODUCER))

_Steps = tuple[Column, Column, Column, NDArray[np.uint8]]
"""Row, work, wait and reason of some steps."""


def _launch(wait: int, count: int = 1) -> _Steps:
    """Return the step of what the launch of a kernel takes before its first op, or after its last."""
    return (
        np.full(count, -1, np.int64),
        np.zeros(count, np.int64),
        np.full(count, wait, np.int64),
        np.full(count, LAUNCH, np.uint8),
    )


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


def _steps(times: Times, rows: Column, end: int, launch: int) -> tuple[_Steps, int]:
    """Return the steps of ops of which each let the next one go, the last until `end`; when the first of them began."""
    start, before = times.start[rows], rows[:-1]
    stall = times.stall[rows]
    # When the op before let each go: with its result, or with its lane.
    by_result = _BY_RESULT[stall[1:]]
    let_go = np.where(by_result, times.ready[before], times.start[before] + times.duration[before])
    released = np.concatenate(([launch], np.minimum(start[1:], let_go)))
    ends = np.append(released[1:], end)
    stretch = np.minimum(times.duration[rows] - times.busy[rows], ends - start)
    setup = np.minimum(times.setup[rows], start - released)
    rest = start - released - setup
    # In order of time an op has up to four steps; its work belongs to the last of those with a wait.
    work = ends - start - stretch
    has_setup, has_stretch = setup != 0, stretch != 0
    has_rest = (rest != 0) | ~(has_setup | has_stretch) & (work != 0)  # or nothing but work
    count = has_rest.astype(np.int64) + has_setup + has_stretch
    behind = np.cumsum(count)
    first, total = behind - count, int(behind[-1])
    found_work, wait, reason = np.zeros(total, np.int64), np.zeros(total, np.int64), np.zeros(total, np.uint8)
    parts = (
        (has_rest, first, rest, stall),
        (has_setup, first + has_rest, setup, times.setup_reason[rows]),
        (has_stretch, behind - 1, stretch, times.throttle_reason[rows]),
    )
    for has, place, mine, why in parts:
        at = place[has]
        wait[at], reason[at] = mine[has], why[has]
    reason[wait == 0] = NONE
    some = count > 0
    found_work[(behind - 1)[some]] = work[some]
    return (np.repeat(rows, count), found_work, wait, reason), int(released[0])
