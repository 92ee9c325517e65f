"""`Beta1Builder`: the builder of Beta 1 kernels, with the dialect's meaning of assignments, operators and methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nki_lab.diagnostic import coded_error
from nki_lab.kernel_runtime.beta1 import assignment, elementwise, memory
from nki_lab.kernel_runtime.beta1.builder import DeferringBuilder
from nki_lab.kernel_runtime.language import control
from nki_lab.kernel_runtime.tensor import NkiTensor


def _broadcast_to(tensor: NkiTensor, *shape: Any) -> NkiTensor:
    """`tensor` repeated to a shape, given as one tuple or as sizes."""
    return memory.broadcast_to(tensor, shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)


def _astype(tensor: NkiTensor, dtype: Any) -> NkiTensor:
    """A new tile with the elements cast to `dtype`."""
    return memory.load(tensor, dtype=dtype) if not tensor._buffer.on_chip else memory.copy(tensor, dtype=dtype)


def _assert_shape(tensor: NkiTensor, shape: Any) -> NkiTensor:
    """The tensor itself; NKI203 where its shape is another."""
    if tuple(tensor._shape) == tuple(shape):
        return tensor
    raise coded_error(
        "NKI203",
        f"assert_shape: the tensor is {tuple(tensor._shape)}",
        limit=f"shape {tuple(shape)}",
        help="correct the assertion or the expression",
    )


_METHODS: Mapping[str, Callable[..., Any]] = {
    "astype": _astype,
    "broadcast_to": _broadcast_to,
    "expand_dims": memory.expand_dims,
    "assert_shape": _assert_shape,
}


class Beta1Builder(DeferringBuilder):
    """Records a Beta 1 kernel, assignments and operators on tensors included."""

    condition = control.while_continues
    assign = assignment.assign
    inplace = assignment.inplace

    def operator(self, name: str, left: Any, right: Any, reflected: bool = False) -> Any:
        """`left name right` on tiles: free dimensions of size 1 repeat, partitions do not."""
        return elementwise.operator(name, right, left) if reflected else elementwise.operator(name, left, right)

    def member(self, tensor: NkiTensor, name: str) -> Any:
        """A method of Beta 1 tensors that the current dialect's do not have; None for other names."""
        method = _METHODS.get(name)
        return None if method is None else partial(method, tensor)
