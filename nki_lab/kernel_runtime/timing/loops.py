"""The time that loops on the device take the engines' sequencers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.timing.costs import picoseconds


def loop_times(program: Program, core: int, order: NDArray[np.uint32]) -> list[int]:
    """Return the picoseconds that a lane's sequencer spends on loops before each op of its `order`.

    guess: every engine of a core counts, compares and branches for itself at the begin of each iteration, those too in
    which it has no op.
    """
    begins = np.array(sorted(row for row in program.begins if program.core_of(row) == core), np.int64)
    passed = np.searchsorted(begins, order.astype(np.int64), "right")
    latest = np.maximum.accumulate(np.concatenate(([0], passed)))
    times: list[int] = (np.diff(latest) * picoseconds(program.arch.loop_overhead_ns)).tolist()
    return times
