"""`KernelBuilder`: the builder of kernels in the current dialect, with the language's meaning of Python's operators."""

from __future__ import annotations

from typing import Any, Final

from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.language import control, operations
from nki_lab.kernel_runtime.tensor import NkiTensor, VirtualRegister


class KernelBuilder(Builder):
    """Records a kernel of the current dialect, assignments and operators on tensors included."""

    def condition(self, register: VirtualRegister) -> bool | None:
        """Whether the `while register:` that asks goes on; None for other uses of a register as a condition."""
        return control.while_continues(self, register)

    def assign(self, target: NkiTensor, value: Any) -> None:
        """`target[...] = value`: a copy."""
        operations.assign(target, value)

    def operator(self, name: str, left: Any, right: Any, reflected: bool = False) -> Any:
        """`left <name> right` on tiles."""
        if reflected:
            left, right = right, left
        made = operations.operator(name, left, right)
        if name in _COMPARISONS and isinstance(made, NkiTensor):
            self.compared.add(made._buffer.id)
        return made


_COMPARISONS: Final = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))
