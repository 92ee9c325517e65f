"""Masked calls: every operand is cut to the box that the mask leaves, the result keeps its full shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.beta1.builder import current
from nki_lab.kernel_runtime.beta1.deferred import Box
from nki_lab.kernel_runtime.beta1.index import Axes, Mask
from nki_lab.kernel_runtime.beta1.subscript import axes_of, checked, restricted
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor, sbuf


class Bound(NamedTuple):
    """Positions `low`..`high`, both included, of the dimension `dim` (of `rank`) of `size` that walks `axes`."""

    axes: Axes
    rank: int
    dim: int
    size: int
    low: int
    high: int


MaskLike = Mask | bool | np.bool_ | None
"""A mask= argument: true, or left out, for everything."""


def bounds_of(mask: MaskLike) -> list[Bound] | None:
    """Return the bounds of a mask on single dimensions: [] for everything, None for nothing.

    NKI010 for a mask that is not a box, such as `i <= j` over two dimensions.
    """
    if mask is None:
        return []
    if isinstance(mask, (bool, np.bool_)):
        return [] if mask else None
    if not isinstance(mask, Mask):
        raise coded_error(
            "NKI012",
            f"mask is a {type(mask).__name__}",
            operand="mask",
            limit="a mask is made of affine comparisons of indices, joined with &",
            help="compute data-dependent selections with nl.where or a predicated copy",
        )
    if mask.refusal:
        raise _no_box(mask.refusal)
    found: list[Bound] = []
    for term in mask.terms:
        low, high = term.span()
        if low >= 0:
            continue
        if high < 0:
            return None
        moving = [dim for dim, step in enumerate(term.steps) if step]
        if len(moving) > 1:
            raise _no_box(f"{term!r} >= 0 ties {len(moving)} dimensions together")
        dim = moving[0]
        step, size = term.steps[dim], term.shape[dim]
        first, last = (-(term.offset // step), size - 1) if step > 0 else (0, term.offset // -step)
        found.append(Bound(term.axes[dim], term.ndim, dim, size, max(first, 0), min(last, size - 1)))
    return found


def _no_box(reason: str) -> NkiError:
    return coded_error(
        "NKI010",
        f"this mask is no box: {reason}",
        operand="mask",
        limit="a mask bounds each dimension by itself: comparisons of one index with numbers, joined with &",
        help="select along a diagonal with nisa.affine_select",
    )


Shape = tuple[int, ...]
Letters = tuple[str, ...]
Operand = tuple[Shape, Letters, tuple[Axes, ...] | None]
"""Shape, letters of the dimensions, and axes that the dimensions walk."""
ShapeOf = Callable[..., Shape]
"""The shape of a call's result from the shapes of its operands."""
TILE: Final[Letters] = ("P", "F")


class Cut(NamedTuple):
    """The boxes of a call's operands under a mask: `boxes[k]` for operand k, `whole` where nothing is cut."""

    boxes: list[Box]
    whole: bool = False
    empty: bool = False

    def of(self, tensors: Sequence[NkiTensor]) -> list[NkiTensor]:
        """The operands, cut."""
        return [restricted(tensor, box) for tensor, box in zip(tensors, self.boxes, strict=True)]

    def result(self, shape_of: ShapeOf, shapes: Sequence[Shape]) -> Box:
        """The box of the result that the cut operands give: `shape_of` tells a result's shape from operand shapes.

        Where an operand loses positions at its end, the result loses as many at its own end; the same at the start.
        """
        full = shape_of(*shapes)
        to_end = shape_of(
            *[
                tuple(size - low for (low, _), size in zip(box, shape, strict=True))
                for box, shape in zip(self.boxes, shapes, strict=True)
            ]
        )
        from_start = shape_of(*[tuple(high + 1 for _, high in box) for box in self.boxes])
        return tuple((size - rest, head - 1) for size, rest, head in zip(full, to_end, from_start, strict=True))


def cut(mask: MaskLike, operands: Sequence[Operand]) -> Cut:
    """Return what `mask` leaves of the operands.

    A bound cuts the dimensions that walk its range, and those of other operands that share their letter. Where no
    operand walks it, it cuts by position.
    """
    bounds = bounds_of(mask)
    boxes = [[(0, size - 1) for size in shape] for shape, _, _ in operands]
    for bound in bounds or ():
        for k, dim in _places(bound, operands):
            low, high = boxes[k][dim]
            boxes[k][dim] = (max(low, bound.low), min(high, bound.high))
    empty = bounds is None or any(high < low for box in boxes for low, high in box)
    return Cut([tuple(box) for box in boxes], whole=bounds == [], empty=empty)


def cut_tensors(mask: MaskLike, tensors: Sequence[NkiTensor], letters: Sequence[Letters]) -> Cut:
    """Return what `mask` leaves of tensors whose dimensions have these letters."""
    return cut(mask, [(item._shape, names, axes_of(item)) for item, names in zip(tensors, letters, strict=True)])


def _places(bound: Bound, operands: Sequence[Operand]) -> list[tuple[int, int]]:
    """The (operand, dimension) pairs that a bound cuts."""
    walked = {
        (k, dim)
        for k, (shape, _, axes) in enumerate(operands)
        for dim, walks in enumerate(axes or ())
        if walks & bound.axes and shape[dim] == bound.size
    }
    if not walked:
        return _by_position(bound, operands)
    sharing = {
        (other, dim)
        for other, (shape, letters, _) in enumerate(operands)
        if all(k != other for k, _ in walked)
        for k, dim in walked
        if _letter(operands[k][1], dim) == _letter(letters, dim) and dim < len(shape) and shape[dim] == bound.size
    }
    return sorted(walked | sharing)


def _letter(letters: Letters, dim: int) -> str:
    return letters[0] if dim == 0 or len(letters) == 1 else letters[-1]


def _by_position(bound: Bound, operands: Sequence[Operand]) -> list[tuple[int, int]]:
    dims = [0 if bound.dim == 0 else bound.dim - bound.rank + len(shape) for shape, _, _ in operands]
    found = [
        (k, dim)
        for k, ((shape, _, _), dim) in enumerate(zip(operands, dims, strict=True))
        if 0 <= dim < len(shape) and shape[dim] == bound.size
    ]
    if not found:
        shapes = " and ".join(str(tuple(shape)) for shape, _, _ in operands)
        raise coded_error(
            "NKI203",
            f"the mask bounds an index of {bound.size} positions, the operands are {shapes}",
            operand="mask",
            limit="a mask is made of the indices that the operands are addressed by",
            help="build the mask from the same nl.arange or nl.mgrid as the subscripts",
        )
    return found


def common_shape(*shapes: Shape) -> Shape:
    """Return the shape that tiles broadcast to: partitions first, free dimensions aligned at the end."""
    rank = max(len(shape) for shape in shapes)
    filled = [(shape[0], *(1,) * (rank - len(shape)), *shape[1:]) for shape in shapes]
    sizes = tuple(max(column) for column in zip(*filled, strict=True))
    if any(have not in (1, want) for shape in filled for have, want in zip(shape, sizes, strict=True)):
        listed = " and ".join(str(tuple(shape)) for shape in shapes)
        raise coded_error(
            "NKI203",
            f"tiles of shapes {listed} do not broadcast",
            operand="y",
            limit="each dimension has equal sizes, or size 1 on one side",
            help="slice or reshape one tile to the shape of the other",
        )
    return sizes


def masked(
    mask: MaskLike,
    compute: Callable[..., NkiTensor],
    operands: Sequence[NkiTensor],
    dtype: DType,
    space: MemoryRegion = sbuf,
    *,
    letters: Sequence[Letters] | None = None,
    shape_of: ShapeOf = common_shape,
) -> NkiTensor:
    """Return `compute(*operands)` on what the mask leaves, as a box of a tile of the full shape.

    `dtype` and `space` are those of a result that nothing writes, because the mask is empty. Dimensions have the
    letters of tiles where `letters` are not given.
    """
    if mask is None:
        return compute(*map(checked, operands))
    boxes = cut_tensors(mask, operands, letters or [TILE] * len(operands))
    if boxes.whole:
        return compute(*map(checked, operands))
    shapes = [tensor._shape for tensor in operands]
    shape = shape_of(*shapes)
    if boxes.empty:
        return current().unwritten(shape, dtype, space)
    return current().widen(compute(*boxes.of(operands)), shape, boxes.result(shape_of, shapes))


class Sized(NamedTuple):
    """A stand-in for a tensor where only its shape and dtype are asked for."""

    shape: Shape
    dtype: DType

    @property
    def ndim(self) -> int:
        return len(self.shape)


def with_shapes(values: Mapping[str, Any], names: Sequence[str], shapes: Sequence[Shape]) -> dict[str, Any]:
    """Call values with stand-ins of `shapes` for the tensors `names`."""
    return dict(values) | {name: Sized(shape, values[name].dtype) for name, shape in zip(names, shapes, strict=True)}
