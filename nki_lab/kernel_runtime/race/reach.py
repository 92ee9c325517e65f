"""Whether one op waits for another through what both cores read, write and meet over, whatever their queues do."""

from __future__ import annotations

import numpy as np

from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.schedule import firm_edges


class Reach:
    """The order that the compiler keeps: through memory, registers, the user's edges and the cores' meetings."""

    def __init__(self, program: Program, allocation: Allocation) -> None:
        found = firm_edges(program, allocation)
        order = np.argsort(found.pred, kind="stable")
        self._after = found.op[order]
        self._start = np.searchsorted(found.pred[order], np.arange(len(program) + 1))
        self._known: dict[int, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}

    def __call__(self, early: int, late: int) -> bool:
        """Whether `late` runs after `early` for certain."""
        known = self._known.get(early)
        if known is None:
            known = self._known[early] = self._from(early)
        return bool(known[late])

    def _from(self, early: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        seen = np.zeros(len(self._start) - 1, bool)
        edge = np.array([early])
        while len(edge):
            length = self._start[edge + 1] - self._start[edge]
            rows = np.repeat(self._start[edge] - (np.cumsum(length) - length), length) + np.arange(int(length.sum()))
            edge = np.unique(self._after[rows])
            edge = edge[~seen[edge]]
            seen[edge] = True
        return seen
