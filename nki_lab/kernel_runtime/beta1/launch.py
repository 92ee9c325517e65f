"""Launch grids of Beta 1: `kernel[4, 2]`, `nl.nc`, `nl.spmd_dim`, and where an instance stands in them."""

from __future__ import annotations

import math
from typing import Any

from nki_lab.diagnostic import diagnose, error_of
from nki_lab.kernel_runtime.beta1.builder import current
from nki_lab.kernel_runtime.tensor.buffer import integer_of


class Cores:
    """`nl.nc(n)`: a grid axis, or a factor of one, that is spread over n physical NeuronCores."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count

    def __mul__(self, inner: int) -> GridAxis:
        return GridAxis(self, inner)

    def __rmul__(self, outer: int) -> GridAxis:
        return GridAxis(outer, self)

    def __repr__(self) -> str:
        return f"nc({self.count})"


class GridAxis:
    """`nl.spmd_dim(outer, inner)`: instance i is (i // inner, i % inner), and the `nc` factor is its core."""

    __slots__ = ("inner", "outer")

    def __init__(self, outer: Any, inner: Any) -> None:
        self.outer = outer
        self.inner = inner

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


def spmd_dim(outer: Any, inner: Any) -> GridAxis:
    """One grid axis of outer x inner instances; the factor that is `nl.nc(n)` names the core."""
    return GridAxis(outer, inner)


def _size(axis: Any) -> int:
    if isinstance(axis, Cores):
        return axis.count
    if isinstance(axis, GridAxis):
        return axis.size
    number = integer_of(axis)
    if number is None or number < 0:
        raise error_of(
            diagnose("NKI016", f"a launch grid has the axis {axis!r}",
                     limit="axes are integers, nl.nc(n) or nl.spmd_dim(a, b)",
                     help="for example kernel[4, 2](...)")
        )  # fmt: skip
    return number


def grid_sizes(grid: Any) -> tuple[int, ...]:
    """Sizes of a launch grid's axes. An axis of 0 counts as 1: published kernels write kernel[0]."""
    axes = grid if isinstance(grid, tuple) else (grid,)
    return tuple(max(1, _size(axis)) for axis in axes)


def program_id(axis: int) -> int:
    """Index of this instance along an axis of the launch grid; 0 without a grid."""
    ids = current("nl.program_id").program_ids
    return ids[axis] if axis < len(ids) else 0


def num_programs(axes: Any = None) -> int:
    """Instances along an axis, or several, of the launch grid; all of them without axes."""
    grid = current("nl.num_programs").grid
    wanted = range(len(grid)) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    return math.prod(grid[axis] if axis < len(grid) else 1 for axis in wanted)


def program_ndim() -> int:
    """Axes of the launch grid; 0 without one."""
    return len(current("nl.program_ndim").grid)
