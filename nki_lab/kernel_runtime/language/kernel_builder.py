"""`KernelBuilder`: the builder of kernels in the current dialect, with the language's meaning of Python's operators."""

from __future__ import annotations

from typing import Any, Final

from nki_lab.isa.python_operators import COMPARISONS
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.language import control, operations
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, NkiTensor, whole


class KernelBuilder(Builder):
    """Records a kernel of the current dialect, assignments and operators on tensors included."""

    condition = control.while_continues
    assign = staticmethod(operations.assign)

    def operator(self, name: str, left: Any, right: Any, reflected: bool = False) -> Any:
        """`left <name> right` on tiles."""
        if reflected:
            left, right = right, left
        made = operations.operator(name, left, right)
        if name in _COMPARISONS and isinstance(made, NkiTensor):
            self.compared.add(made._buffer.id)
        return made


_COMPARISONS: Final = frozenset(item.name for item in COMPARISONS)


class GridBuilder(KernelBuilder):
    """A builder for the program of each core in turn: what each declares in shared HBM is one tensor.

    Their bodies follow each other in the Program until `synchronize_cores` puts those that wait for each other into
    an order that the chip may take, which is the one that values are computed in; in time they run side by side. The
    k-th shared allocation of a core is the k-th of the first, where shape, dtype and name agree. All other memory is a
    core's own.
    """

    _shared: list[Buffer]
    _next: int

    def start(self, grid: tuple[int, ...], ids: tuple[int, ...]) -> None:
        """Begin the program with these indices, on the next core."""
        if not self.grid:
            self._shared = []
        else:
            self.program.begin_core()
        self.grid, self.program_ids = grid, ids
        self._next = 0

    def allocate(
        self, shape: Any, dtype: Any, space: Any, *, name: str = "", address: Any = None, kind: str = "temp"
    ) -> NkiTensor:
        """A fresh tensor; in shared HBM, from the second program on, the one that the first program declared."""
        made = super().allocate(shape, dtype, space, name=name, address=address, kind=kind)
        if space is not MemoryRegion.shared_hbm or kind != "temp" or not self.grid:
            made._buffer.core = self.program.cores - 1
            return made
        position = self._next
        self._next += 1
        buffer = made._buffer
        if position < len(self._shared):
            first = self._shared[position]
            if (first.shape, first.dtype, first.name) == (buffer.shape, buffer.dtype, buffer.name):
                self.program.buffers.pop()
                return whole(first)
        else:
            self._shared.append(buffer)
        return made
