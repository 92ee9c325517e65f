"""`Beta1Builder`: the builder of Beta 1 kernels, with the dialect's meaning of assignments, operators and methods."""

from __future__ import annotations

from typing import Any

from nki_lab.kernel_runtime.beta1 import assignment, elementwise, methods
from nki_lab.kernel_runtime.beta1.builder import DeferringBuilder
from nki_lab.kernel_runtime.language import control
from nki_lab.kernel_runtime.tensor import NkiTensor, VirtualRegister


class Beta1Builder(DeferringBuilder):
    """Records a Beta 1 kernel, assignments and operators on tensors included."""

    def condition(self, register: VirtualRegister) -> bool | None:
        """Whether the `while register:` that asks goes on; None for other uses of a register as a condition."""
        return control.while_continues(self, register)

    def assign(self, target: NkiTensor, value: Any) -> None:
        """`target[...] = value`: the value's instruction writes the target, else a copy or fill does."""
        assignment.assign(self, target, value)

    def inplace(self, name: str, tensor: NkiTensor, other: Any) -> NkiTensor:
        """`tensor name= other`: one instruction that reads and writes the tensor."""
        return assignment.inplace(self, name, tensor, other)

    def operator(self, name: str, left: Any, right: Any, reflected: bool = False) -> Any:
        """`left name right` on tiles: free dimensions of size 1 repeat, partitions do not."""
        if reflected:
            left, right = right, left
        return elementwise.operator(name, left, right)

    def member(self, tensor: NkiTensor, name: str) -> Any:
        """A method of Beta 1 tensors that the current dialect's do not have; None for other names."""
        return methods.member(tensor, name)
