"""The order between ops of two cores, as far as barriers and exchanges determine it.

Cores run side by side. An op comes before an op of the other core where its own core synchronizes afterwards, and the
other core does so first: one synchronization is enough, since each core goes on in its own order. So everything that is
side by side with an op is an interval of the other core, from one synchronization to another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Program


class Interval(NamedTuple):
    """For some ops of a core the ops of the other core that no synchronization orders: after `low`, before `high`."""

    low: Column
    high: Column


class Synchronizations:
    """The synchronizations, seen from either core; `chosen` are rows of `Program.synchronizations`, by default all."""

    def __init__(self, program: Program, chosen: list[int] | None = None) -> None:
        pairs = np.array(program.synchronizations, np.int64).reshape(-1, 2)
        pairs = pairs if chosen is None else pairs[chosen]
        cores = program.core_column()
        self._end = len(program)
        self._sides: dict[int, tuple[Column, Column, Column]] = {}
        for core in np.unique(cores[pairs]).tolist():
            mine = np.where(cores[pairs[:, 0]] == core, pairs[:, 0], pairs[:, 1])
            order = np.argsort(mine)
            mine, other = mine[order], (pairs.sum(axis=1) - mine)[order]
            # The latest op that the other core has come to by then, and the earliest that waits.
            self._sides[core] = (mine, np.maximum.accumulate(other), np.minimum.accumulate(other[::-1])[::-1])

    def interval(self, core: int, op: Column) -> Interval:
        """The stretch of the other core that is side by side with each of `op`, which are ops of `core`."""
        mine, latest, earliest = self._sides.get(core, (np.zeros(0, np.int64),) * 3)
        return Interval(
            np.concatenate((np.full(1, -1), latest))[np.searchsorted(mine, op, "right")],
            np.concatenate((earliest, np.full(1, self._end)))[np.searchsorted(mine, op, "left")],
        )
