"""`neuronxcc.nki.language`: reductions over free dimensions, normalisations, matrix products and transposes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nki_lab.diagnostic import diagnose, error_of
from nki_lab.isa.alu import alu_of
from nki_lab.isa.dtype import BOOL, F32, dtype_of
from nki_lab.kernel_runtime.beta1.assignment import LoopReduction
from nki_lab.kernel_runtime.beta1.builder import DeferringBuilder, current
from nki_lab.kernel_runtime.beta1.elementwise import binary, in_sbuf, operand, unary
from nki_lab.kernel_runtime.beta1.masking import masked
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function as isa
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.language.operations import dressed, kind_of
from nki_lab.kernel_runtime.tensor import NkiTensor, psum, sbuf

Shape = tuple[int, ...]


def _axes(function: str, x: NkiTensor, axis: Any) -> tuple[int, ...]:
    """The reduced dimensions, sorted and non-negative; none of them the partition dimension."""
    rank = len(x._shape)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(int(a) + rank if a < 0 else int(a) for a in given))
    if not axes or axes[0] <= 0 or axes[-1] >= rank or len(set(axes)) < len(axes):
        raise error_of(
            diagnose("NKI217", f"nl.{function}: axis {axis} of a tile {tuple(x._shape)}", operand="axis",
                     limit=f"free dimensions: 1..{rank - 1}",
                     help="transpose the tile, or sum over partitions with a matmul by ones")
        )  # fmt: skip
    return axes


def _kept(shape: Shape, axes: tuple[int, ...]) -> Shape:
    kept = tuple(size for k, size in enumerate(shape) if k not in axes)
    return kept if len(kept) > 1 else (*kept, 1)


def reduction(builder: DeferringBuilder, function: str, op: str, x: Any, axis: Any, dtype: Any = None, mask: Any = None,
              keepdims: bool = False) -> NkiTensor:  # fmt: skip
    """x reduced with `op` over any free dimensions, in a new tile of at least two dimensions."""
    tile = operand(x, function, "x")
    axes = _axes(function, tile, axis)
    kept = [k for k in range(len(tile._shape)) if k not in axes]
    kind = kind_of(dtype, tile)
    trailing = tuple(range(len(kept), len(tile._shape)))

    def compute(part: NkiTensor) -> NkiTensor:
        view = part.permute((*kept, *axes)) if axes != trailing else part
        return operations.reduction(op, view, list(trailing), kind)

    result = masked(builder, mask, compute, (tile,), (("P", "F"),), lambda shape: _kept(shape, axes),
                    lambda _: (kind, sbuf))  # fmt: skip
    if keepdims:
        return result.reshape(tuple(1 if k in axes else size for k, size in enumerate(tile._shape)))
    return result


def _make_reduction(name: str, op: str, doc: str) -> Callable[..., NkiTensor]:
    def function(
        x: Any, axis: Any, dtype: Any = None, mask: Any = None, keepdims: bool = False, **_hints: Any
    ) -> NkiTensor:
        return reduction(current(f"nl.{name}"), name, op, x, axis, dtype, mask, keepdims)

    return dressed(function, name, f"{doc} over free dimensions; also an `op=` argument.", "neuronxcc.nki.language")


sum = _make_reduction("sum", "add", "Sum")
prod = _make_reduction("prod", "multiply", "Product")
max = _make_reduction("max", "maximum", "Maximum")
min = _make_reduction("min", "minimum", "Minimum")


def all(x: Any, axis: Any, dtype: Any = bool, mask: Any = None, **_hints: Any) -> NkiTensor:
    """Whether all elements are true, over free dimensions."""
    builder = current("nl.all")
    truth = binary(builder, "not_equal", x, 0, BOOL, mask)
    return reduction(builder, "all", "minimum", truth, axis, dtype, mask)


def mean(x: Any, axis: Any, dtype: Any = None, mask: Any = None, keepdims: bool = False, **_hints: Any) -> NkiTensor:
    """Mean over free dimensions; of integers in float32."""
    builder = current("nl.mean")
    tile = operand(x, "mean", "x")
    kind = dtype if dtype is not None else (tile._dtype if tile._dtype.is_float else F32)
    count = math.prod(tile._shape[k] for k in _axes("mean", tile, axis))
    total = reduction(builder, "mean", "add", tile, axis, F32, mask, keepdims)
    return binary(builder, "multiply", total, 1.0 / count, kind)


def var(x: Any, axis: Any, dtype: Any = None, mask: Any = None, **_hints: Any) -> NkiTensor:
    """Population variance over free dimensions."""
    builder = current("nl.var")
    tile = operand(x, "var", "x")
    kind = dtype if dtype is not None else (tile._dtype if tile._dtype.is_float else F32)
    centre = mean(tile, axis, F32, mask, True)
    difference = binary(builder, "subtract", tile, centre, F32, mask)
    return mean(unary(builder, "square", difference, F32, mask), axis, kind, mask)


def softmax(x: Any, axis: Any, dtype: Any = None, compute_dtype: Any = None, mask: Any = None, **_hints: Any,
            ) -> NkiTensor:  # fmt: skip
    """exp(x - max) / sum(exp(x - max)) over free dimensions."""
    builder = current("nl.softmax")
    tile = operand(x, "softmax", "x")
    kind = dtype_of(dtype or compute_dtype or tile._dtype)
    top = reduction(builder, "softmax", "maximum", tile, axis, F32, mask, True)
    powers = unary(builder, "exp", binary(builder, "subtract", tile, top, F32, mask), F32, mask)
    total = reduction(builder, "softmax", "add", powers, axis, F32, mask, True)
    return binary(builder, "divide", powers, total, kind, mask)


def rms_norm(x: Any, w: Any, axis: Any, n: Any, epsilon: float = 1e-6, dtype: Any = None, compute_dtype: Any = None,
             mask: Any = None, **_hints: Any) -> NkiTensor:  # fmt: skip
    """x / sqrt(sum(x * x) / n + epsilon) * w, the sum over the free dimensions `axis`."""
    builder = current("nl.rms_norm")
    tile = operand(x, "rms_norm", "x")
    kind = dtype_of(dtype or compute_dtype or tile._dtype)
    squares = reduction(builder, "rms_norm", "add", unary(builder, "square", tile, F32, mask), axis, F32, mask, True)
    scaled = builder.like(squares)
    isa("tensor_scalar")(scaled, squares, "multiply", 1.0 / n, False, "add", float(epsilon))
    inverse = unary(builder, "rsqrt", scaled, F32)
    normed = binary(builder, "multiply", tile, inverse, F32, mask)
    return binary(builder, "multiply", normed, w, kind, mask)


def transpose(x: Any, dtype: Any = None, mask: Any = None, **_hints: Any) -> NkiTensor:
    """A new tile of a two-dimensional x, at most 128 x 128, with partition and free dimension exchanged."""
    builder = current("nl.transpose")
    tile = operand(x, "transpose", "x")
    if len(tile._shape) != 2:
        raise error_of(
            diagnose("NKI225", f"nl.transpose: x has shape {tuple(tile._shape)}", operand="x",
                     limit="x is two-dimensional", help="reshape it, or index it with two indices")
        )  # fmt: skip
    kind = kind_of(dtype, tile)
    return masked(builder, mask, lambda part: operations.transpose(part, kind), (tile,), (("P", "F"),),
                  lambda shape: (shape[1], shape[0]), lambda _: (kind, sbuf))  # fmt: skip


def matmul(x: Any, y: Any, transpose_x: bool = False, mask: Any = None, **_hints: Any) -> NkiTensor:
    """x @ y in a new PSUM tile; with `transpose_x`, x is laid out as [contraction, rows] already."""
    builder = current("nl.matmul")
    left, right = (in_sbuf(builder, operand(t, "matmul", name)) for t, name in ((x, "x"), (y, "y")))
    letters = (("K", "M") if transpose_x else ("M", "K"), ("K", "N"))
    row = 1 if transpose_x else 0
    return masked(builder, mask, lambda a, b: operations.matmul(a, b, transpose_x), (left, right), letters,
                  lambda a, b: (a[row], b[1]), lambda _: (F32, psum))  # fmt: skip


def loop_reduce(x: Any, op: Any, loop_indices: Any, dtype: Any = None, mask: Any = None, **_hints: Any,
                ) -> LoopReduction:  # fmt: skip
    """The tiles of all iterations combined with `op`, in the tensor that the call is assigned to.

    Each iteration does target = op(target, x), so that the target starts from what the kernel put there.
    """
    current("nl.loop_reduce")
    if mask is not None and mask is not True:
        raise error_of(
            diagnose("NKI010", "nl.loop_reduce with a mask is not modelled", operand="mask",
                     limit="loop_reduce(x, op, loop_indices)", help="mask the instruction that makes x")
        )  # fmt: skip
    return LoopReduction(operand(x, "loop_reduce", "x"), alu_of(op).name)
