"""`neuronxcc.nki.language`: functions that are several instructions, over those of the current dialect."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Final

import numpy as np

from nki_lab.isa.dtype import F32
from nki_lab.kernel_runtime.beta1 import memory
from nki_lab.kernel_runtime.beta1.blocks import tiles_of
from nki_lab.kernel_runtime.beta1.builder import current
from nki_lab.kernel_runtime.beta1.elementwise import both, function, operand, result_dtype, spread, stretched
from nki_lab.kernel_runtime.beta1.mask import MaskLike
from nki_lab.kernel_runtime.beta1.masking import TILE, common_shape, masked
from nki_lab.kernel_runtime.language import composites, operations
from nki_lab.kernel_runtime.language.operations import Operand, kind_of
from nki_lab.kernel_runtime.tensor import NkiTensor, sbuf


def _function(of: Callable[..., NkiTensor], sides: int = 1) -> Callable[..., NkiTensor]:
    """Return the Beta 1 function over one of the current dialect."""
    name = of.__name__

    def one(x: Operand, dtype: object, mask: MaskLike) -> NkiTensor:
        tile = operand(x, name, "x")
        kind = kind_of(dtype, tile)
        return masked(mask, lambda part: of(part, kind), (tile,), kind)

    own = one if sides == 1 else functools.partial(both, name, of)
    return function(own, name, of.__doc__ or "", sides=sides, token=False)


def where(condition: Operand, x: Operand, y: Operand, dtype: object = None, mask: MaskLike = None, **_hints: object,
          ) -> NkiTensor:  # fmt: skip
    """x where the condition is nonzero, else y, element by element with broadcasting; x and y may be numbers."""
    sides = {"condition": operand(condition, "where", "condition")}
    sides |= {name: operand(side, "where", name) for name, side in (("x", x), ("y", y)) if not isinstance(side, Number)}
    kind = F32 if dtype is None and len(sides) == 1 else result_dtype("where", x, y, dtype)
    shape = common_shape(*[tile._shape for tile in sides.values()])
    tiles = [stretched(spread(tile, shape[0]), shape) for tile in sides.values()]

    def compute(*parts: NkiTensor) -> NkiTensor:
        given = {"x": x, "y": y} | dict(zip(sides, parts, strict=True))
        return composites.where(parts[0], given["x"], given["y"], kind)

    return masked(mask, compute, tiles, kind)


def gather_flattened(data: Operand, indices: Operand, mask: MaskLike = None, dtype: object = None, **_hints: object,
                     ) -> NkiTensor:  # fmt: skip
    """data[p, indices[p, ...]] within each partition, the free dimensions of data taken as one."""
    tiles = operand(data, "gather_flattened", "data"), operand(indices, "gather_flattened", "indices")
    kind = kind_of(dtype, tiles[0])
    return masked(mask, lambda a, at: composites.gather_flattened(a, at, dtype=kind), tiles, kind,
                  letters=(("P", "D"), TILE), shape_of=lambda _, shape: shape)  # fmt: skip


def dropout(x: Operand, rate: Operand, dtype: object = None, mask: MaskLike = None, **_hints: object) -> NkiTensor:
    """x with each element replaced by zero with the probability `rate`: a number, or a tile of one column."""
    tile = operand(x, "dropout", "x")
    kind = kind_of(dtype, tile)
    if not isinstance(rate, NkiTensor):
        given = rate.item() if isinstance(rate, np.generic) else rate
        return masked(mask, lambda part: composites.dropout(part, given, kind), (tile,), kind)
    column = spread(operand(rate, "dropout", "rate"), tile._shape[0])
    return masked(mask, lambda a, p: composites.dropout(a, p, kind), (tile, column), kind,
                  letters=(TILE, ("P", "1")), shape_of=lambda shape, _: shape)  # fmt: skip


def rand(shape: Sequence[int], dtype: object = np.float32, **_hints: object) -> NkiTensor:
    """A new SBUF tile of uniform random numbers in [0, 1)."""
    tensor = memory.ndarray(shape, dtype)
    for tile in tiles_of(tensor):
        composites.fill_evenly(tile)
    return tensor


def random_seed(seed: Operand, mask: MaskLike = None, **_hints: object) -> None:
    """Seed the random generators from 32 bits: an integer, or a tile of one element."""
    if isinstance(seed, (int, np.integer)):
        tile = current().allocate((1, 1), np.uint32, sbuf)
        operations.fill(tile, int(seed) % 2**32)
        seed = tile
    composites.random_seed(operand(seed, "random_seed", "seed"))


FUNCTIONS: Final = (
    *map(_function, (composites.ceil, composites.cos, composites.floor, composites.tan, composites.trunc)),
    _function(composites.fmod, sides=2), _function(composites.mod, sides=2),
    dropout, gather_flattened, rand, random_seed, where,
)  # fmt: skip
"""The functions that this module adds to `neuronxcc.nki.language`."""
