"""Masked calls: every operand is cut to the box that the mask leaves, the result keeps its full shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nki_lab.diagnostic import diagnose, error_of
from nki_lab.kernel_runtime.beta1.builder import DeferringBuilder
from nki_lab.kernel_runtime.beta1.deferred import Box
from nki_lab.kernel_runtime.beta1.mask import Bound, bounds_of
from nki_lab.kernel_runtime.beta1.subscript import axes_of, checked, restricted
from nki_lab.kernel_runtime.tensor import NkiTensor

Shape = tuple[int, ...]
Letters = tuple[str, ...]


class Cut:
    """The boxes of a call's operands under a mask: `boxes[k]` for operand k, `whole` where nothing is cut."""

    __slots__ = ("boxes", "empty", "whole")

    def __init__(self, boxes: list[Box], *, whole: bool, empty: bool) -> None:
        self.boxes = boxes
        self.whole = whole
        self.empty = empty

    def of(self, tensors: Sequence[NkiTensor]) -> list[NkiTensor]:
        """The operands, cut."""
        return [restricted(tensor, box) for tensor, box in zip(tensors, self.boxes, strict=True)]

    def result(self, shape_of: Callable[..., Shape], shapes: Sequence[Shape]) -> Box:
        """The box of the result that the cut operands give: `shape_of` tells a result's shape from operand shapes.

        Where an operand loses positions at its end, the result loses as many at its own end; the same at the start.
        """
        full = shape_of(*shapes)
        to_end = shape_of(*[tuple(size - low for (low, _), size in zip(box, shape, strict=True))
                            for box, shape in zip(self.boxes, shapes, strict=True)])  # fmt: skip
        from_start = shape_of(*[tuple(high + 1 for _, high in box) for box in self.boxes])
        return tuple((size - rest, head - 1) for size, rest, head in zip(full, to_end, from_start, strict=True))


def cut(mask: Any, operands: Sequence[tuple[Shape, Letters, tuple[Any, ...] | None]]) -> Cut:
    """What `mask` leaves of operands, each given as (shape, dimension letters, axes its dimensions walk).

    A bound cuts the dimensions that walk its range, and those of other operands that share their letter. Where no
    operand walks it, it cuts by position.
    """
    bounds = bounds_of(mask)
    boxes = [[(0, size - 1) for size in shape] for shape, _, _ in operands]
    if bounds is None:
        return Cut([tuple(box) for box in boxes], whole=False, empty=True)
    for bound in bounds:
        for k, dim in _places(bound, operands):
            low, high = boxes[k][dim]
            boxes[k][dim] = (max(low, bound.low), min(high, bound.high))
    empty = any(high < low for box in boxes for low, high in box)
    return Cut([tuple(box) for box in boxes], whole=not bounds, empty=empty)


def _places(bound: Bound, operands: Sequence[tuple[Shape, Letters, tuple[Any, ...] | None]]) -> list[tuple[int, int]]:
    """The (operand, dimension) pairs that a bound cuts."""
    walked = {
        (k, dim)
        for k, (shape, _, axes) in enumerate(operands)
        for dim, walks in enumerate(axes or ())
        if walks & bound.axes and shape[dim] == bound.size
    }
    if not walked:
        return _by_position(bound, operands)
    found = set(walked)
    for other, (shape, letters, _) in enumerate(operands):
        if any(k == other for k, _ in walked):
            continue
        for k, dim in walked:
            theirs = operands[k][1]
            if _letter(theirs, dim) == _letter(letters, dim) and dim < len(shape) and shape[dim] == bound.size:
                found.add((other, dim))
    return sorted(found)


def _letter(letters: Letters, dim: int) -> str:
    return letters[0] if dim == 0 or len(letters) == 1 else letters[-1]


def _by_position(
    bound: Bound, operands: Sequence[tuple[Shape, Letters, tuple[Any, ...] | None]]
) -> list[tuple[int, int]]:
    found = []
    for k, (shape, _, _) in enumerate(operands):
        rank = len(shape)
        dim = bound.dim if rank == bound.rank or bound.dim == 0 else bound.dim - bound.rank + rank
        if 0 <= dim < rank and shape[dim] == bound.size:
            found.append((k, dim))
    if not found:
        shapes = " and ".join(str(tuple(shape)) for shape, _, _ in operands)
        raise error_of(
            diagnose(
                "NKI203",
                f"the mask bounds an index of {bound.size} positions, the operands are {shapes}",
                operand="mask",
                limit="a mask is made of the indices that the operands are addressed by",
                help="build the mask from the same nl.arange or nl.mgrid as the subscripts",
            )
        )
    return found


def masked(
    builder: DeferringBuilder,
    mask: Any,
    compute: Callable[..., NkiTensor],
    operands: Sequence[NkiTensor],
    letters: Sequence[Letters],
    shape_of: Callable[..., Shape],
    blank: Callable[[Shape], tuple[Any, Any]],
) -> NkiTensor:
    """`compute(*operands)` on what the mask leaves, as a box of a tile of the full shape.

    `shape_of` gives the result's shape from operand shapes; `blank` the (dtype, memory) of a result that nothing
    writes, because the mask is empty.
    """
    if mask is None:
        return compute(*map(checked, operands))
    made = cut(mask, [(tensor._shape, names, axes_of(tensor)) for tensor, names in zip(operands, letters, strict=True)])
    shapes = [tensor._shape for tensor in operands]
    if made.empty:
        full = shape_of(*shapes)
        dtype, space = blank(full)
        return builder.unwritten(full, dtype, space)
    if made.whole:
        return compute(*map(checked, operands))
    result = compute(*made.of(operands))
    return builder.widen(result, shape_of(*shapes), made.result(shape_of, shapes))


class Sized:
    """A stand-in for a tensor where only its shape and dtype are asked for."""

    __slots__ = ("dtype", "ndim", "shape")

    def __init__(self, shape: Shape, dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)


def with_shapes(values: Mapping[str, Any], names: Sequence[str], shapes: Sequence[Shape]) -> dict[str, Any]:
    """Call values with stand-ins of `shapes` for the tensors `names`."""
    return dict(values) | {name: Sized(shape, values[name].dtype) for name, shape in zip(names, shapes, strict=True)}
