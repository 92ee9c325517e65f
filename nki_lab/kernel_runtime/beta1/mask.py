"""Masks of Beta 1: conjunctions of affine comparisons, as the part of each dimension that they leave."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.kernel_runtime.beta1.index import Axes, Mask


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
    """What a mask leaves: bounds on single dimensions, [] for everything, None for nothing.

    NKI010 for a mask that is not a box, such as `i <= j` over two dimensions.
    """
    if mask is None:
        return []
    if isinstance(mask, (bool, np.bool_)):
        return [] if mask else None
    if not isinstance(mask, Mask):
        raise error_of(
            diagnose("NKI012", f"mask is a {type(mask).__name__}", operand="mask",
                     limit="a mask is made of affine comparisons of indices, joined with &",
                     help="compute data-dependent selections with nl.where or a predicated copy")
        )  # fmt: skip
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
    return error_of(
        diagnose("NKI010", f"this mask is no box: {reason}", operand="mask",
                 limit="a mask bounds each dimension by itself: comparisons of one index with numbers, joined with &",
                 help="select along a diagonal with nisa.affine_select")
    )  # fmt: skip
