"""`neuronxcc.nki.language`: reductions, products and other functions of several instructions, over the current ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Final

import numpy as np

from nki_lab.diagnostic import coded_error
from nki_lab.isa.alu import alu_of
from nki_lab.isa.dtype import BOOL, F32, DType, dtype_of
from nki_lab.kernel_runtime.beta1 import memory
from nki_lab.kernel_runtime.beta1.assignment import LoopReduction
from nki_lab.kernel_runtime.beta1.blocks import tiles_of
from nki_lab.kernel_runtime.beta1.builder import current
from nki_lab.kernel_runtime.beta1.elementwise import (
    binary,
    both,
    function,
    in_sbuf,
    operand,
    refuse_mask,
    result_dtype,
    spread,
    stretched,
    two_dimensional,
    unary,
)
from nki_lab.kernel_runtime.beta1.masking import TILE, MaskLike, common_shape, masked
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function as isa
from nki_lab.kernel_runtime.language import composites, operations
from nki_lab.kernel_runtime.language.operations import Operand, dressed, kind_of, tile_shape
from nki_lab.kernel_runtime.tensor import NkiTensor, psum, sbuf

Axis = int | Sequence[int]
"""A dimension that is reduced, or several."""


def _axes(function: str, x: NkiTensor, axis: Axis) -> tuple[int, ...]:
    """The reduced dimensions, sorted and non-negative; none of them the partition dimension."""
    rank = len(x._shape)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(int(a) + rank if a < 0 else int(a) for a in given))
    if not axes or axes[0] <= 0 or axes[-1] >= rank or len(set(axes)) < len(axes):
        raise coded_error(
            "NKI217",
            f"nl.{function}: axis {axis} of a tile {tuple(x._shape)}",
            operand="axis",
            limit=f"free dimensions: 1..{rank - 1}",
            help="transpose the tile, or sum over partitions with a matmul by ones",
        )
    return axes


def reduction(
    function: str, op: str, x: Operand, axis: Axis, dtype: object = None, mask: MaskLike = None, keepdims: bool = False
) -> NkiTensor:
    """Return x reduced with `op` over any free dimensions, in a new tile of at least two dimensions."""
    tile = operand(x, function, "x")
    rank = len(tile._shape)
    axes = _axes(function, tile, axis)
    kept = [k for k in range(rank) if k not in axes]
    kind = kind_of(dtype, tile)
    trailing = list(range(len(kept), rank))

    def compute(part: NkiTensor) -> NkiTensor:
        view = part if list(axes) == trailing else part.permute((*kept, *axes))
        return operations.reduction(op, view, trailing, kind)

    result = masked(mask, compute, (tile,), kind, shape_of=lambda shape: tile_shape(tuple([shape[k] for k in kept])))
    if keepdims:
        return result.reshape(tuple(1 if k in axes else size for k, size in enumerate(tile._shape)))
    return result


def _make_reduction(name: str, op: str, doc: str) -> Callable[..., NkiTensor]:
    def function(
        x: Operand, axis: Axis, dtype: object = None, mask: MaskLike = None, keepdims: bool = False, **_hints: object
    ) -> NkiTensor:
        return reduction(name, op, x, axis, dtype, mask, keepdims)

    return dressed(function, name, f"{doc} over free dimensions; also an `op=` argument.", "neuronxcc.nki.language")


sum = _make_reduction("sum", "add", "Sum")
prod = _make_reduction("prod", "multiply", "Product")
max = _make_reduction("max", "maximum", "Maximum")
min = _make_reduction("min", "minimum", "Minimum")


def all(x: Operand, axis: Axis, dtype: object = bool, mask: MaskLike = None, **_hints: object) -> NkiTensor:
    """Whether all elements are true, over free dimensions."""
    return reduction("all", "minimum", binary("not_equal", x, 0, BOOL, mask), axis, dtype, mask)


def mean(
    x: Operand,
    axis: Axis,
    dtype: object = None,
    mask: MaskLike = None,
    keepdims: bool = False,
    **_hints: object,
) -> NkiTensor:
    """Mean over free dimensions; of integers in float32."""
    tile = operand(x, "mean", "x")
    count = math.prod(tile._shape[k] for k in _axes("mean", tile, axis))
    return binary(
        "multiply", reduction("mean", "add", tile, axis, F32, mask, keepdims), 1.0 / count, _float_kind(dtype, tile)
    )


def _float_kind(dtype: object, tile: NkiTensor) -> DType:
    return kind_of(dtype, tile) if dtype is not None or tile._dtype.is_float else F32


def var(x: Operand, axis: Axis, dtype: object = None, mask: MaskLike = None, **_hints: object) -> NkiTensor:
    """Population variance over free dimensions."""
    tile = operand(x, "var", "x")
    difference = binary("subtract", tile, mean(tile, axis, F32, mask, True), F32, mask)
    return mean(unary("square", difference, F32, mask), axis, _float_kind(dtype, tile), mask)


def softmax(
    x: Operand, axis: Axis, dtype: object = None, compute_dtype: object = None, mask: MaskLike = None, **_hints: object
) -> NkiTensor:
    """exp(x - max) / sum(exp(x - max)) over free dimensions."""
    tile = operand(x, "softmax", "x")
    top = reduction("softmax", "maximum", tile, axis, F32, mask, True)
    powers = unary("exp", binary("subtract", tile, top, F32, mask), F32, mask)
    return binary(
        "divide",
        powers,
        reduction("softmax", "add", powers, axis, F32, mask, True),
        dtype_of(dtype or compute_dtype or tile._dtype),
        mask,
    )


def rms_norm(
    x: Operand,
    w: Operand,
    axis: Axis,
    n: float,
    epsilon: float = 1e-6,
    dtype: object = None,
    compute_dtype: object = None,
    mask: MaskLike = None,
    **_hints: object,
) -> NkiTensor:
    """x / sqrt(sum(x * x) / n + epsilon) * w, the sum over the free dimensions `axis`."""
    tile = operand(x, "rms_norm", "x")
    squares = reduction("rms_norm", "add", unary("square", tile, F32, mask), axis, F32, mask, True)
    scaled = current().like(squares)
    isa("tensor_scalar")(scaled, squares, "multiply", 1.0 / n, False, "add", float(epsilon))
    normed = binary("multiply", tile, unary("rsqrt", scaled, F32), F32, mask)
    return binary("multiply", normed, w, dtype_of(dtype or compute_dtype or tile._dtype), mask)


def transpose(x: Operand, dtype: object = None, mask: MaskLike = None, **_hints: object) -> NkiTensor:
    """A new tile of a two-dimensional x, at most 128 x 128, with partition and free dimension exchanged."""
    tile = two_dimensional(x, "transpose", "x", "reshape it, or index it with two indices")
    kind = kind_of(dtype, tile)
    return masked(
        mask, lambda part: operations.transpose(part, kind), (tile,), kind, shape_of=lambda shape: (shape[1], shape[0])
    )


def matmul(x: Operand, y: Operand, transpose_x: bool = False, mask: MaskLike = None, **_hints: object) -> NkiTensor:
    """x @ y in a new PSUM tile; with `transpose_x`, x is laid out as [contraction, rows] already."""
    sides = in_sbuf(operand(x, "matmul", "x")), in_sbuf(operand(y, "matmul", "y"))
    letters = (("K", "M") if transpose_x else ("M", "K"), ("K", "N"))
    return masked(
        mask,
        lambda a, b: operations.matmul(a, b, transpose_x),
        sides,
        F32,
        psum,
        letters=letters,
        shape_of=lambda a, b: (a[1 if transpose_x else 0], b[1]),
    )


def loop_reduce(
    x: Operand, op: object, loop_indices: object, dtype: object = None, mask: MaskLike = None, **_hints: object
) -> LoopReduction:
    """The tiles of all iterations combined with `op`, in the tensor that the call is assigned to.

    Each iteration does target = op(target, x), so that the target starts from what the kernel put there.
    """
    refuse_mask(mask, "loop_reduce", "loop_reduce(x, op, loop_indices)", "mask the instruction that makes x")
    return LoopReduction(operand(x, "loop_reduce", "x"), alu_of(op).name)


def _function(of: Callable[..., NkiTensor], sides: int = 1) -> Callable[..., NkiTensor]:
    """Return the Beta 1 function over one of the current dialect."""
    name = of.__name__

    def one(x: Operand, dtype: object, mask: MaskLike) -> NkiTensor:
        tile = operand(x, name, "x")
        kind = kind_of(dtype, tile)
        return masked(mask, lambda part: of(part, kind), (tile,), kind)

    return function(
        one if sides == 1 else functools.partial(both, name, of), name, of.__doc__ or "", sides=sides, token=False
    )


def where(
    condition: Operand,
    x: Operand,
    y: Operand,
    dtype: object = None,
    mask: MaskLike = None,
    **_hints: object,
) -> NkiTensor:
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


def gather_flattened(
    data: Operand,
    indices: Operand,
    mask: MaskLike = None,
    dtype: object = None,
    **_hints: object,
) -> NkiTensor:
    """data[p, indices[p, ...]] within each partition, the free dimensions of data taken as one."""
    tiles = operand(data, "gather_flattened", "data"), operand(indices, "gather_flattened", "indices")
    kind = kind_of(dtype, tiles[0])
    return masked(
        mask,
        lambda a, at: composites.gather_flattened(a, at, dtype=kind),
        tiles,
        kind,
        letters=(("P", "D"), TILE),
        shape_of=lambda _, shape: shape,
    )


def dropout(x: Operand, rate: Operand, dtype: object = None, mask: MaskLike = None, **_hints: object) -> NkiTensor:
    """x with each element replaced by zero with the probability `rate`: a number, or a tile of one column."""
    tile = operand(x, "dropout", "x")
    kind = kind_of(dtype, tile)
    if not isinstance(rate, NkiTensor):
        given = rate.item() if isinstance(rate, np.generic) else rate
        return masked(mask, lambda part: composites.dropout(part, given, kind), (tile,), kind)
    column = spread(operand(rate, "dropout", "rate"), tile._shape[0])
    return masked(
        mask,
        lambda a, p: composites.dropout(a, p, kind),
        (tile, column),
        kind,
        letters=(TILE, ("P", "1")),
        shape_of=lambda shape, _: shape,
    )


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
    all, dropout, gather_flattened, loop_reduce, matmul, max, mean, min, prod, rand, random_seed, rms_norm, softmax,
    sum, transpose, var, where,
)  # fmt: skip
"""The functions that this module adds to `neuronxcc.nki.language`."""
