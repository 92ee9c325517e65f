"""Grids: one kernel specialised once for each program of its launch, into one Program."""

from __future__ import annotations

from typing import Any

from nki_lab.kernel_runtime.frontend.issue import Builder
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, NkiTensor, whole


class GridBuilder(Builder):
    """A builder for several programs in turn: what each declares in shared HBM is one tensor.

    The programs run one after the other, which is an order that the chip may take too as long as they do not wait for
    each other. The k-th shared allocation of a program is the k-th of the first, where shape, dtype and name agree.
    """

    _shared: list[Buffer]
    _next: int

    def start(self, grid: tuple[int, ...], ids: tuple[int, ...]) -> None:
        """Begin the program with these indices."""
        if not self.grid:
            self._shared = []
        self.grid, self.program_ids = grid, ids
        self._next = 0

    def allocate(self, shape: Any, dtype: Any, space: Any, *, name: str = "", address: Any = None,
                 kind: str = "temp") -> NkiTensor:  # fmt: skip
        """A fresh tensor; in shared HBM, from the second program on, the one that the first program declared."""
        if space is not MemoryRegion.shared_hbm or kind != "temp" or not self.grid:
            return super().allocate(shape, dtype, space, name=name, address=address, kind=kind)
        position = self._next
        self._next += 1
        made = super().allocate(shape, dtype, space, name=name, address=address, kind=kind)
        buffer = made._buffer
        if position < len(self._shared):
            first = self._shared[position]
            if (first.shape, first.dtype, first.name) == (buffer.shape, buffer.dtype, buffer.name):
                self.program.buffers.pop()
                return whole(first)
        else:
            self._shared.append(buffer)
        return made
