"""Operand arrays in one shape: the presentation of each view to an instruction's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate, pairwise
from operator import mul
from typing import NamedTuple

from nki_lab.isa.spec import Instruction, Use
from nki_lab.kernel_runtime.tensor import ViewType, normalise, reshape_strides

Sizes = tuple[int, ...]


class Presented(NamedTuple):
    """Shape and element strides of an operand's array; strides None where only a copy has that shape."""

    shape: Sizes
    strides: Sizes | None


def present(instruction: Instruction, use: Use) -> dict[str, Presented]:
    """Return the presentation of each tensor operand: as `shapes` declares, else all in a common refinement."""
    views = {name: view for name, view in use.types.items() if view is not None}
    if instruction.shapes is not None:
        wanted = instruction.shapes(use)
        return {name: _declared(view, wanted.get(name, tuple(view.shape))) for name, view in views.items()}
    return _common(instruction, use, views)


def _declared(view: ViewType, shape: Sizes) -> Presented:
    strides = reshape_strides(view.shape, view.strides, shape)
    return Presented(shape, strides if _keeps_partitions(view, shape) else None)


def _keeps_partitions(view: ViewType, shape: Sizes) -> bool:
    """Whether no dimension of a shape goes from one partition into the next: they may lie apart in memory."""
    size = math.prod(view.shape[1:])
    return not view.on_chip or view.shape[0] == 1 or size in {1, *accumulate(reversed(shape), mul)}


def _common(instruction: Instruction, use: Use, views: Mapping[str, ViewType]) -> dict[str, Presented]:
    """Present operands of the same letters in one shape, partitions first; columns broadcast against it.

    Three letters and more are presented as they are declared.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in views:
        groups.setdefault(instruction.operands[name].dims, []).append(name)
    out: dict[str, Presented] = {}
    ranks: dict[str, int] = {}
    for letters, names in groups.items():
        if len(letters) == 2 and letters[1] == "1":
            continue
        if len(letters) > 2:
            shape = tuple(int(letter) if letter.isdigit() else use.dims[letter] for letter in letters)
        else:
            shape = _shared([views[name] for name in names], whole=len(letters) == 1)
        ranks.setdefault(letters[0], len(shape))
        out |= {name: _declared(views[name], shape) for name in names}
    for name, view in views.items():
        if name not in out:
            rank = ranks.get(instruction.operands[name].dims[0], 2)
            out[name] = Presented((view.shape[0],) + (1,) * (rank - 1), (view.strides[0],) + (0,) * (rank - 1))
    return out


def _shared(views: list[ViewType], *, whole: bool) -> Sizes:
    """Return the coarsest shape in which views of one element count need no copy, where there is one.

    Of `whole` views those in HBM have no partition dimension that must stay apart.
    """
    frees = [_free_sizes(view, whole=whole) for view in views]
    shape = frees[0] if all(free == frees[0] for free in frees) else refinement(frees)
    if shape is None:
        shape = (math.prod(frees[0]),)
    return (shape or (1,)) if whole else (views[0].shape[0], *shape)


def _free_sizes(view: ViewType, *, whole: bool) -> Sizes:
    """Return the merged dimensions of a view: all but the first, or of a `whole` view all of them."""
    apart = not whole or (view.on_chip and view.shape[0] > 1)
    sizes = normalise(view.shape[apart:], view.strides[apart:])[0]
    return (view.shape[0], *sizes) if whole and apart else sizes


def refinement(shapes: list[Sizes]) -> Sizes | None:
    """Return the coarsest shape that every given shape (of equal size) can be split into; None where there is none.

    (8, 64) and (512,) refine to (8, 64); (3, 4) and (4, 3) have no common refinement.
    """
    pairs = list(pairwise(sorted({1}.union(*(accumulate(reversed(sizes), mul) for sizes in shapes)))))
    return None if any(high % low for low, high in pairs) else tuple(high // low for low, high in reversed(pairs))
