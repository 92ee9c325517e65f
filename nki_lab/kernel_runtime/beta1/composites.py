"""`neuronxcc.nki.language`: functions that are several instructions, over those of the current dialect."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, Final

import numpy as np

from nki_lab.isa.dtype import F32
from nki_lab.kernel_runtime.beta1 import memory
from nki_lab.kernel_runtime.beta1.blocks import BlockTensor
from nki_lab.kernel_runtime.beta1.builder import DeferringBuilder, current
from nki_lab.kernel_runtime.beta1.elementwise import both, common_shape, one, operand, result_dtype, spread, stretched
from nki_lab.kernel_runtime.beta1.masking import masked
from nki_lab.kernel_runtime.language import composites, operations
from nki_lab.kernel_runtime.language.operations import dressed, kind_of
from nki_lab.kernel_runtime.tensor import NkiTensor, sbuf

_TILE: Final = ("P", "F")


def _unary(name: str, of: Callable[..., NkiTensor]) -> Callable[..., NkiTensor]:
    def function(x: Any, dtype: Any = None, mask: Any = None, **_hints: Any) -> NkiTensor:
        builder, tile = current(f"nl.{name}"), operand(x, name, "x")
        kind = kind_of(dtype, tile)
        return one(builder, mask, lambda part: of(part, kind), tile, kind)

    return dressed(function, name, of.__doc__ or "", "neuronxcc.nki.language")


def _binary(name: str, of: Callable[..., NkiTensor]) -> Callable[..., NkiTensor]:
    def function(x: Any, y: Any, dtype: Any = None, mask: Any = None, **_hints: Any) -> NkiTensor:
        return both(current(f"nl.{name}"), name, of, x, y, dtype, mask)

    return dressed(function, name, of.__doc__ or "", "neuronxcc.nki.language")


def where(condition: Any, x: Any, y: Any, dtype: Any = None, mask: Any = None, **_hints: Any) -> NkiTensor:
    """x where the condition is nonzero, else y, element by element with broadcasting; x and y may be numbers."""
    builder = current("nl.where")
    sides = {"condition": operand(condition, "where", "condition")}
    sides |= {name: side for name, side in (("x", x), ("y", y)) if isinstance(side, NkiTensor)}
    numbers: dict[str, Any] = {
        name: side if isinstance(side, Number) else operand(side, "where", name)
        for name, side in (("x", x), ("y", y))
        if name not in sides
    }
    kind = F32 if dtype is None and len(sides) == 1 else result_dtype("where", x, y, dtype)
    shape = common_shape(*[operand(side, "where", name)._shape for name, side in sides.items()])
    tiles = [_widened(builder, tile, shape) for tile in sides.values()]

    def compute(*parts: NkiTensor) -> NkiTensor:
        given = numbers | dict(zip(sides, parts, strict=True))
        return composites.where(given["condition"], given["x"], given["y"], kind)

    return masked(builder, mask, compute, tiles, [_TILE] * len(tiles), common_shape, lambda _: (kind, sbuf))


def _widened(builder: DeferringBuilder, tile: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    wide = spread(builder, tile, shape[0]) if tile._shape[0] == 1 != shape[0] else tile
    return stretched(wide, shape)


def gather_flattened(data: Any, indices: Any, mask: Any = None, dtype: Any = None, **_hints: Any) -> NkiTensor:
    """data[p, indices[p, ...]] within each partition, the free dimensions of data taken as one."""
    builder = current("nl.gather_flattened")
    tiles = operand(data, "gather_flattened", "data"), operand(indices, "gather_flattened", "indices")
    kind = kind_of(dtype, tiles[0])
    return masked(builder, mask, lambda a, at: composites.gather_flattened(a, at, dtype=kind), tiles,
                  (("P", "D"), _TILE), lambda _, shape: shape, lambda _: (kind, sbuf))  # fmt: skip


def dropout(x: Any, rate: Any, dtype: Any = None, mask: Any = None, **_hints: Any) -> NkiTensor:
    """x with each element replaced by zero with the probability `rate`: a number, or a tile of one column."""
    builder, tile = current("nl.dropout"), operand(x, "dropout", "x")
    kind = kind_of(dtype, tile)
    if not isinstance(rate, NkiTensor):
        given = rate.item() if isinstance(rate, np.generic) else rate
        return one(builder, mask, lambda part: composites.dropout(part, given, kind), tile, kind)
    column = operand(rate, "dropout", "rate")
    if column._shape[0] == 1 != tile._shape[0]:
        column = spread(builder, column, tile._shape[0])
    return masked(builder, mask, lambda a, p: composites.dropout(a, p, kind), (tile, column), (_TILE, ("P", "1")),
                  lambda shape, _: shape, lambda _: (kind, sbuf))  # fmt: skip


def rand(shape: Any, dtype: Any = np.float32, **_hints: Any) -> NkiTensor:
    """A new SBUF tile of uniform random numbers in [0, 1)."""
    tensor = memory.ndarray(shape, dtype)
    for tile in tensor.tiles() if isinstance(tensor, BlockTensor) else (tensor,):
        composites.fill_evenly(tile)
    return tensor


def random_seed(seed: Any, mask: Any = None, **_hints: Any) -> None:
    """Seed the random generators from 32 bits: an integer, or a tile of one element."""
    builder = current("nl.random_seed")
    if isinstance(seed, (int, np.integer)):
        tile = builder.allocate((1, 1), np.uint32, sbuf)
        operations.fill(tile, int(seed) % 2**32)
        seed = tile
    composites.random_seed(operand(seed, "random_seed", "seed"))


FUNCTIONS: Final = (
    _unary("ceil", composites.ceil), _unary("cos", composites.cos), _unary("floor", composites.floor),
    _unary("tan", composites.tan), _unary("trunc", composites.trunc), _binary("fmod", composites.fmod),
    _binary("mod", composites.mod),
    dropout, gather_flattened, rand, random_seed, where,
)  # fmt: skip
"""What this module adds to `neuronxcc.nki.language`."""
