"""Whether one op waits for another through what both cores read, write and meet over, whatever their queues do."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.schedule import firm_edges

_MOST_STEPS: Final = 1_000_000  # ops that all searches together come to; of what is asked later nothing is said


class Reach:
    """The order that the compiler keeps: through memory, registers, the user's edges and the cores' synchronizations.

    The graph is made when it is first asked for.
    """

    def __init__(self, program: Program, allocation: Allocation | None) -> None:
        self._program = program
        self._allocation = allocation
        self._left = _MOST_STEPS

    @cached_property
    def _graph(self) -> tuple[list[int], list[int]]:
        """The ops that wait for each op, and where those of an op begin."""
        program = self._program
        found = firm_edges(program, self._allocation or allocate(program))
        order = np.lexsort((found.op, found.pred))
        return found.op[order].tolist(), np.searchsorted(found.pred[order], np.arange(len(program) + 1)).tolist()

    def __call__(self, early: int, late: int) -> bool:
        """Whether `late` runs after `early` for certain, or too much has been asked."""
        if self._left <= 0:
            return True
        # Only the user has ops wait for later ones.
        last = len(self._program) if self._program.user_edges else late
        if early > last:
            return False
        after, start = self._graph
        seen = {early}
        ahead = [early]
        while ahead:
            op = ahead.pop()
            for other in after[start[op] : start[op + 1]]:
                if other == late:
                    self._left -= len(seen)
                    return True
                if other <= last and other not in seen:
                    seen.add(other)
                    ahead.append(other)
        self._left -= len(seen)
        return False
