"""Operand arrays in one shape: how each view is presented to an instruction's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from nki_lab.isa.spec import Instruction, Use
from nki_lab.kernel_runtime.tensor import ViewType, normalise, reshape_strides

Sizes = tuple[int, ...]


class Presented(NamedTuple):
    """Shape and element strides of an operand's array; strides None where only a copy has that shape."""

    shape: Sizes
    strides: Sizes | None


def present(instruction: Instruction, use: Use) -> dict[str, Presented]:
    """How each tensor operand of a use is shown: as `shapes` declares, else all in a common refinement."""
    views = {name: view for name, view in use.types.items() if view is not None}
    if instruction.shapes is not None:
        wanted = instruction.shapes(use)
        return {name: _declared(view, wanted.get(name, tuple(view.shape))) for name, view in views.items()}
    return _common(instruction, views)


def _declared(view: ViewType, shape: Sizes) -> Presented:
    return Presented(shape, reshape_strides(view.shape, view.strides, shape))


def _common(instruction: Instruction, views: Mapping[str, ViewType]) -> dict[str, Presented]:
    full: dict[str, tuple[Sizes, Sizes]] = {}
    narrow: list[str] = []
    for name, view in views.items():
        letters = instruction.operands[name].dims
        if letters[-1] == "1":
            narrow.append(name)
        elif len(letters) == 1:
            full[name] = normalise(view.shape, view.strides)
        else:
            full[name] = normalise(view.shape, view.strides, keep_first=True)
    first = next(iter(full.values()))
    if all(sizes == first[0] for sizes, _ in full.values()):
        shape: Sizes | None = first[0]
    else:
        shape = refinement([sizes for sizes, _ in full.values()])
    count = math.prod(first[0])
    out: dict[str, Presented] = {}
    if shape is None:
        rows = next(iter(views.values())).shape[0]
        shape = (count,) if all(len(instruction.operands[n].dims) == 1 for n in full) else (rows, count // rows)
    shape = shape or (1,)
    for name, (sizes, steps) in full.items():
        out[name] = Presented(shape, reshape_strides(sizes, steps, shape) if sizes else (0,) * len(shape))
    for name in narrow:
        view = views[name]
        out[name] = Presented((view.shape[0],) + (1,) * (len(shape) - 1), (view.strides[0],) + (0,) * (len(shape) - 1))
    return out


def refinement(shapes: list[Sizes]) -> Sizes | None:
    """The coarsest shape that every given shape (of equal element count) can be split into; None where there is none.

    (8, 64) and (512,) refine to (8, 64); (3, 4) and (4, 3) have no common refinement.
    """
    marks: set[int] = {1}
    for sizes in shapes:
        product = 1
        for size in reversed(sizes):
            product *= size
            marks.add(product)
    ordered = sorted(marks)
    out = []
    for low, high in zip(ordered, ordered[1:], strict=False):
        if high % low:
            return None
        out.append(high // low)
    return tuple(reversed(out))
