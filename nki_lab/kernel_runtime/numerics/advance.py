"""How far the values of a program are, told while calls are made, at a cost that no kernel notices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.numerics.program_plan import ProgramPlan
from nki_lab.kernel_runtime.numerics.slab import Slab
from nki_lab.kernel_runtime.numerics.variant_plan import PlannedStep
from nki_lab.kernel_runtime.progress import Monitor, current_monitor

_QUICK: Final = 0.02
_SLOW: Final = 0.08
_MOST: Final = 1024
_SILENT: Final = Monitor()


class Advance:
    """Tells the monitor of a run which share of a program's instructions is executed.

    Without a `plan` that is the number of the last one. With one, slabs execute many at the place of their first, and
    elided loads are executed by nobody: then it is the share of the work, in instructions.
    """

    def __init__(self, total: int) -> None:
        self.monitor = current_monitor()
        self._total = total
        self._rows: np.ndarray | None = None
        self._worked: np.ndarray | None = None
        self._size = 16
        self.end = 0  # the index after the last one executed

    def renew(self) -> None:
        """Begin anew, in another run of the same program."""
        self.monitor = current_monitor()
        self.end = 0

    def rest(self) -> None:
        """Forget who was told."""
        self.monitor = _SILENT

    def follow(self, plan: ProgramPlan) -> None:
        """Count by the rows of a plan."""
        weights = np.ones(len(plan.rows))
        slabs: Mapping[int, Slab] = plan.slabs
        weights[np.searchsorted(plan.rows, list(slabs))] = [len(slab.ops) for slab in slabs.values()]
        worked = np.cumsum(weights)
        self._rows, self._worked = plan.rows, worked * (self._total / max(1.0, worked[-1] if len(worked) else 1.0))

    def after(self, index: int) -> int:
        """Return the number of instructions that are executed when that of this index is."""
        if self._rows is None or self._worked is None:
            return index + 1
        place = int(np.searchsorted(self._rows, index, "right"))
        return int(self._worked[place - 1]) if place else 0

    def within(self, slab: Slab) -> Callable[[float], None]:
        """Return what a slab tells which share of it is done."""
        before, end = self.after(slab.first - 1), self.after(slab.first)

        def report(share: float) -> None:
            self.monitor.advance(before + int(share * (end - before)))

        return report

    def pieces(self, steps: Sequence[PlannedStep]) -> Iterator[Sequence[PlannedStep]]:
        """Yield the steps in pieces of some hundredths of a second, and tell how far they are after each."""
        first, count = 0, len(steps)
        while first < count:
            piece = steps[first : first + self._size]
            start = time.perf_counter()
            yield piece
            took = time.perf_counter() - start
            self.end = piece[-1][0] + 1
            self.monitor.advance(self.after(piece[-1][0]))
            first += len(piece)
            if took < _QUICK:
                self._size = min(_MOST, 2 * self._size)
            elif took > _SLOW:
                self._size = max(1, self._size // 2)
