"""Launch grids of Beta 1: `kernel[4, 2]`, `nl.nc`, `nl.spmd_dim`, and where an instance stands in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Union

from nki_lab.diagnostic import coded_error
from nki_lab.kernel_runtime.beta1 import assignment, elementwise, memory
from nki_lab.kernel_runtime.beta1.builder import DeferringBuilder
from nki_lab.kernel_runtime.language import control, operations
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.kernel_runtime.tensor.buffer import integer_of


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


TENSOR_METHODS: Mapping[str, Callable[..., Any]] = {
    "astype": _astype,
    "broadcast_to": _broadcast_to,
    "expand_dims": memory.expand_dims,
    "assert_shape": _assert_shape,
}
"""Methods of tensors that the current dialect does not have; the first parameter is the tensor."""


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
        method = TENSOR_METHODS.get(name)
        return None if method is None else partial(method, tensor)


Axis = Union[int, "Cores", "GridAxis"]
"""The size of a grid axis, or of a factor of one."""


@dataclass(frozen=True, slots=True, repr=False)
class Cores:
    """`nl.nc(n)`: a grid axis, or a factor of one, that is spread over n physical NeuronCores."""

    count: int

    def __mul__(self, inner: int) -> GridAxis:
        return GridAxis(self, inner)

    def __rmul__(self, outer: int) -> GridAxis:
        return GridAxis(outer, self)

    def __repr__(self) -> str:
        return f"nc({self.count})"


@dataclass(frozen=True, slots=True, repr=False)
class GridAxis:
    """`nl.spmd_dim(outer, inner)`: instance i is (i // inner, i % inner), and the `nc` factor is its core."""

    outer: Axis
    inner: Axis

    @property
    def size(self) -> int:
        return _size(self.outer) * _size(self.inner)

    def core(self, instance: int) -> int:
        """The physical core of an instance on this axis."""
        inner = _size(self.inner)
        if isinstance(self.inner, Cores):
            return instance % inner
        return instance // inner if isinstance(self.outer, Cores) else 0

    def __repr__(self) -> str:
        return f"spmd_dim({self.outer!r}, {self.inner!r})"


def nc(n: int) -> Cores:
    """A grid axis over n physical NeuronCores."""
    return Cores(n)


def spmd_dim(outer: Axis, inner: Axis) -> GridAxis:
    """One grid axis of outer x inner instances; the factor that is `nl.nc(n)` names the core."""
    return GridAxis(outer, inner)


def _size(axis: Axis) -> int:
    if isinstance(axis, Cores):
        return axis.count
    if isinstance(axis, GridAxis):
        return axis.size
    number = integer_of(axis)
    if number is None or number < 0:
        raise coded_error(
            "NKI016",
            f"a launch grid has the axis {axis!r}",
            limit="axes are integers, nl.nc(n) or nl.spmd_dim(a, b)",
            help="for example kernel[4, 2](...)",
        )
    return number


def grid_sizes(grid: Axis | tuple[Axis, ...]) -> tuple[int, ...]:
    """Sizes of a launch grid's axes. An axis of 0 counts as 1: published kernels write kernel[0]."""
    return tuple(max(1, _size(axis)) for axis in (grid if isinstance(grid, tuple) else (grid,)))


def num_programs(axes: int | Sequence[int] | None = None) -> int:
    """Instances along an axis, or several, of the launch grid; all of them without axes."""
    return operations.num_programs(axes)
