"""`nki.language` of the current dialect: tensors, constants, and composites written once over `issue`.

Every composite allocates its result tile, records one or more instructions with the user's call as their site, and
returns the tile. Operator functions (`nl.add`, `nl.exp`, ...) double as the `op=` arguments of instructions.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.isa.activation import ACTIVATIONS
from nki_lab.isa.alu import ALU
from nki_lab.isa.dtype import F32, DType, dtype_of, promote
from nki_lab.isa.ops.reduce import REDUCED_LAST
from nki_lab.kernel_runtime.issue.context import current, local
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function as isa
from nki_lab.kernel_runtime.tensor import (
    NkiTensor,
    psum,
    sbuf,
)
from nki_lab.kernel_runtime.tensor.refusal import require_valid
from nki_lab.printable import shown

Axis = int | Sequence[int]
"""A dimension, or several."""
Operand = NkiTensor | Number | float | np.generic
"""An argument of a function of `nki.language`: a tensor, or a number known at compile time."""

# -- tensors ---------------------------------------------------------------------------------------------------------


def ndarray(
    shape: Sequence[int], dtype: object, buffer: object = sbuf, name: str = "", address: object = None
) -> NkiTensor:
    """A new uninitialised tensor of `shape` (partitions first, on the chip) in `buffer`.

    `address=(partition, byte)` places it in SBUF or PSUM; otherwise the compiler does.
    """
    made = (local.builder or current("nl.ndarray")).allocate(shape, dtype, buffer, name=name, address=address)
    if len(made._shape) < 2 and made._buffer.on_chip:
        _accepted(
            f"nl.ndarray: shape is {made._shape} on the chip",
            "shape",
            "tensors on the chip are two-dimensional",
            f"write ({made._shape[0]}, 1), or (1, {made._shape[0]}) for one partition",
        )
    return made


def _accepted(message: str, operand: str, limit: str, remedy: str) -> None:
    """Note what the documentation forbids and kernels do; Beta 1 allows all of it."""
    builder = current("nl")
    if not builder.elementwise_operators:
        builder.advise("NKI606", message, operand=operand, limit=limit, remedy=remedy)


def fill(tensor: NkiTensor, value: Number | float) -> None:
    """Write a constant: memset on the chip, memset and DMA in HBM."""
    if tensor._dtype.is_integer and isinstance(value, float) and value.is_integer():
        value = int(value)
    if tensor._buffer.on_chip:
        isa("memset")(tensor, value)
        return
    builder = current()
    flat = _rows(tensor)
    for start in range(0, flat._shape[0], builder.arch.pmax):
        part = flat[start : builtins.min(start + builder.arch.pmax, flat._shape[0])]
        tile = builder.allocate(part._shape, tensor._dtype, sbuf)
        isa("memset")(tile, value)
        isa("dma_copy")(part, tile)


def _rows(tensor: NkiTensor) -> NkiTensor:
    """An HBM tensor as two dimensions, rows first."""
    if len(tensor._shape) == 1:
        return tensor.expand_dim(1)
    return tensor if len(tensor._shape) == 2 else tensor.flatten_dims(1, len(tensor._shape) - 1)


def full(
    shape: Sequence[int],
    fill_value: Number | float,
    dtype: object,
    buffer: object = sbuf,
    name: str = "",
) -> NkiTensor:
    """A new tensor filled with `fill_value`."""
    tensor = ndarray(shape, dtype, buffer, name)
    fill(tensor, fill_value)
    return tensor


def zeros(shape: Sequence[int], dtype: object, buffer: object = sbuf, name: str = "") -> NkiTensor:
    """A new tensor of zeros."""
    return full(shape, 0.0, dtype, buffer, name)


def ones(shape: Sequence[int], dtype: object, buffer: object = sbuf, name: str = "") -> NkiTensor:
    """A new tensor of ones."""
    return full(shape, 1.0, dtype, buffer, name)


def empty_like(x: NkiTensor, dtype: object = None, buffer: object = None, name: str = "") -> NkiTensor:
    """A new uninitialised tensor of x's shape; dtype and buffer are x's where not given."""
    like = _tensor(x, "nl.empty_like", "x")
    return ndarray(like._shape, _given(dtype, like._dtype), _given(buffer, like._buffer.space), name)


def zeros_like(x: NkiTensor, dtype: object = None, buffer: object = None, name: str = "") -> NkiTensor:
    """A new tensor of zeros of x's shape."""
    like = _tensor(x, "nl.zeros_like", "x")
    return zeros(like._shape, _given(dtype, like._dtype), _given(buffer, like._buffer.space), name)


def _given(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def load(src: NkiTensor, dtype: object = None) -> NkiTensor:
    """A new SBUF tile with the contents of an HBM tensor, cast to `dtype` on the way."""
    _tensor(src, "nl.load", "src")
    tile = current("nl.load").allocate(tile_shape(src._shape), kind_of(dtype, src), sbuf)
    isa("dma_copy")(tile, src)
    return tile


def store(dst: NkiTensor, value: Operand) -> None:
    """Write an SBUF tile to HBM."""
    _tensor(dst, "nl.store", "dst")
    if isinstance(value, NkiTensor) and value._buffer.space is psum:
        raise coded_error(
            "NKI201",
            "nl.store: value is in PSUM, DMA reads SBUF and HBM",
            operand="value",
            limit="value in SBUF",
            help="copy it to SBUF with nisa.tensor_copy or nl.copy first",
        )
    if isinstance(value, Number):
        fill(dst, value)
        return
    isa("dma_copy")(dst, value)


def tile_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a tile: at least two dimensions."""
    return shape if len(shape) > 1 else (*shape, 1)


def _tensor(value: object, function: str, operand: str, wanted: str = "a tensor") -> NkiTensor:
    if isinstance(value, NkiTensor):
        require_valid(value)
        return value
    current(function)  # without a kernel that is what is wrong, whatever the value
    many = hasattr(value, "shape") and not isinstance(value, np.generic)
    found = "an array" if many else f"{shown(value)[:60]} ({type(value).__name__})"
    raise coded_error(
        "NKI013",
        f"{function}: {operand} is {found}, it must be {wanted}",
        operand=operand,
        limit=f"{operand} is {wanted}",
        help="pass arrays as arguments of the kernel; inside it they are tensors",
    )


def _bad_value(function: str, operand: str, value: object, wanted: str) -> Exception:
    return coded_error(
        "NKI012",
        f"{function}: {operand} is {shown(value)}, it must be {wanted}",
        operand=operand,
        limit=f"{operand} is {wanted}",
        help="give a value that is known while the kernel is specialised",
    )


def copy(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """A new SBUF tile with the contents of a tile; 32-bit integers stay exact."""
    return _into_like("copy", x, dtype, isa("tensor_copy"))


def kind_of(dtype: object, tensor: NkiTensor) -> DType:
    """`dtype`, or the tensor's where none is given."""
    return tensor._dtype if dtype is None else dtype_of(dtype)


def transpose(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """A new tile of x with partition and free dimension exchanged; x is two-dimensional, at most 128 x 128."""
    builder = current("nl.transpose")
    _tensor(x, "nl.transpose", "x")
    rows, columns = x._shape[0], int(np.prod(x._shape[1:], dtype=int))
    if len(x._shape) > 2:
        _accepted(
            f"nl.transpose: x is {tuple(x._shape)}, its free dimensions are taken as one",
            "x",
            "x is two-dimensional",
            f"write x.reshape({(rows, columns)})",
        )
    source = x if x._buffer.space is not psum else copy(x)
    result = builder.allocate((columns, rows), x._dtype, psum)
    isa("nc_transpose")(result, source)
    return copy(result, dtype)


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """x @ y in a new PSUM tile; with `transpose_x`, x is already [contraction, rows]."""
    builder = current("nl.matmul")
    _tensor(x, "nl.matmul", "x")
    _tensor(y, "nl.matmul", "y")
    if not transpose_x:
        _accepted(
            "nl.matmul: transpose_x is False",
            "transpose_x",
            "a known issue: the official compiler fails",
            "pass x as [contraction, rows], with transpose_x=True",
        )
    stationary = x if transpose_x else transpose(x)
    result = builder.allocate((stationary._shape[1], y._shape[1]), F32, psum)
    isa("nc_matmul")(result, stationary, y)
    return result


def broadcast_to(src: NkiTensor, shape: Sequence[int]) -> NkiTensor:
    """A view of src that repeats size-1 free dimensions up to `shape`."""
    view = _tensor(src, "nl.broadcast_to", "src")
    if not isinstance(shape, (tuple, list)) or len(shape) != len(view._shape):
        raise _bad_value("nl.broadcast_to", "shape", shape, f"a tuple of {len(view._shape)} sizes")
    for dim, size in enumerate(shape):
        if view._shape[dim] != size:
            view = view.broadcast(dim, size)
    return view


def shared_identity_matrix(n: int, dtype: object = np.uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """An n x n identity matrix in SBUF."""
    tile = dst if dst is not None else ndarray((n, n), dtype)
    columns = ndarray((n, n), np.float32)
    isa("iota")(columns, [[1, n]], 0, -1)
    isa("tensor_scalar")(tile, columns, equal, 0.0)
    return tile


# -- operators -------------------------------------------------------------------------------------------------------


def _conform(x: NkiTensor, y: NkiTensor, name: str) -> tuple[NkiTensor, NkiTensor]:
    """Both tiles in one free shape: size-1 free dimensions repeat."""
    if x._shape == y._shape:
        return x, y
    shape = tuple(builtins.max(a, b) for a, b in zip(x._shape, y._shape, strict=False))
    if len(x._shape) != len(y._shape) or x._shape[0] != y._shape[0]:
        raise _no_broadcast(x, y, name)
    try:
        return broadcast_to(x, shape), broadcast_to(y, shape)
    except NkiError:
        raise _no_broadcast(x, y, name) from None


def _no_broadcast(x: NkiTensor, y: NkiTensor, name: str) -> Exception:
    return coded_error(
        "NKI203",
        f"nl.{name}: x is {tuple(x._shape)} and y is {tuple(y._shape)}",
        operand="y",
        limit="equal shapes; free dimensions of size 1 repeat, partitions do not",
        help="slice or reshape one tile to the shape of the other",
    )


def _require_sbuf(name: str, **operands: object) -> None:
    """Refuse tiles in PSUM where the documentation says so; Beta 1 takes them."""
    for operand, value in operands.items():
        if isinstance(value, NkiTensor) and value._buffer.space is psum and not current("nl").elementwise_operators:
            raise coded_error(
                "NKI201",
                f"nl.{name}: {operand} is in PSUM, GpSimd reads SBUF only",
                operand=operand,
                limit=f"{operand} in SBUF",
                help="copy it to SBUF with nl.copy first, or use nisa.activation",
            )


def binary(name: str, x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """`x name y` in a new SBUF tile; either side may be a number."""
    builder = current(f"nl.{name}")
    if name == "power":
        _require_sbuf(name, x=x, y=y)
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        require_valid(x)
        require_valid(y)
        left, right = _conform(x, y, name)
        tile = builder.like(left, dtype=promote(x._dtype, y._dtype) if dtype is None else dtype_of(dtype))
        isa("tensor_tensor")(tile, left, right, ALU[name])
        return tile
    side, number, reverse = (x, y, False) if isinstance(x, NkiTensor) else (y, x, True)
    tensor = _tensor(side, f"nl.{name}", "y" if reverse else "x")
    if not isinstance(number, (Number, np.generic)) or isinstance(number, complex):
        _tensor(number, f"nl.{name}", "x" if reverse else "y", "a tensor or a number")
    tile = builder.like(tensor, dtype=kind_of(dtype, tensor))
    isa("tensor_scalar")(tile, tensor, ALU[name], number, reverse)
    return tile


def unary(name: str, x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Return an activation function of a tile, in a new SBUF tile."""
    return _into_like(name, x, dtype, lambda tile, source: isa("activation")(tile, ACTIVATIONS[name], source))


def _into_like(name: str, x: Operand, dtype: object, write: Callable[[NkiTensor, NkiTensor], object]) -> NkiTensor:
    """Return a new SBUF tile of x's shape that `write(tile, x)` fills."""
    builder, source = current(f"nl.{name}"), _tensor(x, f"nl.{name}", "x")
    tile = builder.like(source, dtype=kind_of(dtype, source))
    write(tile, source)
    return tile


def _make_binary(name: str) -> Callable[..., NkiTensor]:
    def function(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
        return binary(name, x, y, dtype)

    return as_op(function, name, f"{ALU[name].doc}, element by element, in a new SBUF tile; also an `op=` argument.")


def _make_unary(name: str) -> Callable[..., NkiTensor]:
    on_alu = name in _ALU_UNARY

    def function(x: NkiTensor, dtype: object = None) -> NkiTensor:
        if name == "rsqrt":
            _require_sbuf(name, x=x)
        # rsqrt is more precise on GpSimd, which has it in tensor_scalar (release notes of NKI 0.5); Beta 1 had it not.
        if on_alu and not (name == "rsqrt" and current("nl").elementwise_operators):
            return _into_like(name, x, dtype, lambda tile, source: isa("tensor_scalar")(tile, source, ALU[name], None))
        return _into_like(name, x, dtype, isa(name)) if name == "reciprocal" else unary(name, x, dtype)

    doc = (
        f"{ALU[name].doc}, element by element"
        if on_alu
        else f"{'1 / x' if name == 'reciprocal' else ACTIVATIONS[name].formula} of each element"
    )
    return as_op(function, name, f"{doc}, in a new SBUF tile; also an `op=`{' argument' * on_alu}.")


def dressed(function: Callable[..., Any], name: str, doc: str, module: str = "nki.language") -> Callable[..., Any]:
    """The function under the name, the documentation and the module that users see."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.__module__ = module
    return function


def as_op(function: Callable[..., Any], name: str, doc: str, module: str = "nki.language") -> Callable[..., Any]:
    """The same for a function that is an `op=` argument as well."""
    function.nki_op = name  # type: ignore[attr-defined]
    return dressed(function, name, doc, module)


def divide(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """x / y, as x times the reciprocal of y."""
    if isinstance(y, Number):
        number = float(y)  # type: ignore[arg-type]
        return binary("multiply", x, 1.0 / number if number else math.copysign(math.inf, number), dtype)
    divisor = _tensor(y, "nl.divide", "y")
    inverse = current("nl.divide").like(divisor, dtype=F32)
    isa("reciprocal")(inverse, divisor)
    if isinstance(x, NkiTensor):
        return binary("multiply", x, inverse, _given(dtype, promote(x._dtype, divisor._dtype)))
    return binary("multiply", inverse, x, _given(dtype, divisor._dtype))


def negative(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """-x of each element."""
    return binary("multiply", x, -1.0, dtype)


def reduction(name: str, x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """x reduced over trailing free dimensions, in a new SBUF tile that stays two-dimensional."""
    builder = current(f"nl.{name}")
    _tensor(x, f"nl.{name}", "x")
    rank = len(x._shape)
    given = axis if isinstance(axis, (list, tuple)) else (axis,)
    if not all(isinstance(a, int) for a in given):
        raise _bad_value(f"nl.{name}", "axis", axis, "an integer or a list of integers")
    axes = sorted(a + rank if a < 0 else a for a in given)
    if not axes or axes[0] < 1 or axes != list(range(axes[0], rank)):
        raise coded_error(
            "NKI217",
            f"nl.{name}: axis {axis} of x {tuple(x._shape)}",
            operand="axis",
            limit="axis names the last free dimensions in a row",
            help=REDUCED_LAST,
        )
    shape = tuple(1 if i in axes else n for i, n in enumerate(x._shape))
    if not keepdims:
        shape = shape[: axes[0]] if axes[0] > 1 else (*shape[:1], 1)
    tile = builder.allocate(shape, kind_of(dtype, x), sbuf)
    isa("tensor_reduce")(tile, ALU[name], x, tuple(axes), keepdims=keepdims)
    return tile


def _make_reduction(name: str, op: str, doc: str) -> Callable[..., NkiTensor]:
    def function(x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
        return reduction(op, x, axis, dtype, keepdims)

    return dressed(function, name, f"{doc} over trailing free dimensions.")


sum = _make_reduction("sum", "add", "Sum")
prod = _make_reduction("prod", "multiply", "Product")
max = _make_reduction("max", "maximum", "Maximum")
min = _make_reduction("min", "minimum", "Minimum")


def mean(x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Mean over trailing free dimensions."""
    total = reduction("add", x, axis, F32, keepdims)
    return binary("multiply", total, 1.0 / (x.size // total.size), _given(dtype, x._dtype))


def softmax(x: NkiTensor, axis: Axis = -1, dtype: object = None) -> NkiTensor:
    """exp(x - max) / sum(exp(x - max)) along the last free dimension."""
    builder = current("nl.softmax")
    if len(_tensor(x, "nl.softmax", "x")._shape) > 2:
        powers = unary("exp", binary("subtract", x, reduction("maximum", x, axis, F32, keepdims=True), F32))
        total = reduction("add", powers, axis, F32, keepdims=True)
        isa("reciprocal")(total, total)
        return binary("multiply", powers, total, _given(dtype, x._dtype))
    top = reduction("maximum", x, axis, F32)
    shifted = builder.like(x, dtype=F32)
    isa("tensor_scalar")(shifted, x, ALU["subtract"], top)
    powers = unary("exp", shifted)
    inverse = builder.like(top)
    isa("reciprocal")(inverse, reduction("add", powers, axis, F32))
    tile = builder.like(x, dtype=kind_of(dtype, x))
    isa("tensor_scalar")(tile, powers, ALU["multiply"], inverse)
    return tile


def assign(target: NkiTensor, value: Operand) -> None:
    """`target[...] = value`: memset, tensor_copy or dma_copy."""
    if isinstance(value, Number):
        fill(target, value)
    elif target._buffer.on_chip and (not isinstance(value, NkiTensor) or value._buffer.on_chip):
        isa("tensor_copy")(target, value)
    else:
        isa("dma_copy")(target, value)


_OPERATORS: Final = (
    "add", "subtract", "multiply", "power", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
)  # fmt: skip


def operator(name: str, left: Operand, right: Operand) -> NkiTensor:
    """Return what a Python operator gives on tiles; `name` is that of `nki.language`."""
    if name == "divide":
        return divide(left, right)
    if name in _OPERATORS:
        return binary(name, left, right)
    if name in ("negative", "invert", "abs"):
        tile = _tensor(left, f"nl.{name}", "x")
        return negative(tile) if name == "negative" else _FUNCTIONS[name](tile)
    raise coded_error(
        "NKI017",
        f"tensors have no operator {name}",
        limit=f"operators: {', '.join(sorted(_OPERATORS))}",
        help="use a nki.language function",
    )


# -- loops and programs ------------------------------------------------------------------------------------------------


def _unrolled(name: str) -> Callable[..., range]:
    def loop(start: Any, stop: Any = None, step: Any = 1, **_hints: object) -> range:
        try:
            return range(start) if stop is None else range(start, stop, step)
        except (TypeError, ValueError):
            raise _bad_value(
                f"nl.{name}",
                "stop",
                start if stop is None else (start, stop, step),
                "integers known at compile time, with a step",
            ) from None

    return dressed(loop, name, "A compile-time loop, unrolled; today the same as range.")


affine_range = _unrolled("affine_range")
sequential_range = _unrolled("sequential_range")
static_range = _unrolled("static_range")


def program_id(axis: object = 0) -> int:
    """Index of this program in the launch grid; 0 without one."""
    ids = current("nl.program_id").program_ids
    if not isinstance(axis, int) or axis < 0:
        raise _bad_value("nl.program_id", "axis", axis, "0, 1 or 2")
    return ids[axis] if axis < len(ids) else 0


def num_programs(axes: Axis | None = 0) -> int:
    """Programs along an axis of the launch grid; 1 without one."""
    grid = current("nl.num_programs").grid
    if axes is None:
        return int(np.prod(grid, dtype=int))
    wanted = axes if isinstance(axes, (tuple, list)) else (axes,)
    if not all(isinstance(axis, int) and axis >= 0 for axis in wanted):
        raise _bad_value("nl.num_programs", "axes", axes, "an axis of the launch grid, or a list of them")
    return int(np.prod([grid[axis] if axis < len(grid) else 1 for axis in wanted], dtype=int))


def program_ndim() -> int:
    """Dimensions of the launch grid; 0 without one, and outside of kernels, where helpers ask before they divide."""
    return 0 if local.builder is None else len(local.builder.grid)


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a tensor's values when the instruction is reached; behind a meeting of two cores what tensor it is."""
    builder = current("nl.device_print")
    if not isinstance(print_prefix, str):
        raise _bad_value("nl.device_print", "print_prefix", print_prefix, "a string known at compile time")
    if _tensor(tensor, "nl.device_print", "tensor")._buffer.space is psum:
        _accepted(
            "nl.device_print: tensor is in PSUM",
            "tensor",
            "tensor is in SBUF or HBM",
            "copy it to SBUF with nisa.tensor_copy first",
        )
    if builder.has_values:
        print(f"{print_prefix} {builder.read(tensor)}")
    elif builder.reader is not None:  # nothing has a value yet where the cores have met: its shape is printed
        print(f"{print_prefix} {tensor}")


_ALU_UNARY: Final = ("invert", "logical_not", "rsqrt")
TOKENS = ("average", "bypass", "prelu")  # operators of instructions that are no functions
_ACTIVATION_ONLY = [name for name in ACTIVATIONS if name not in ALU and name not in ("copy", *TOKENS)]
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _make_binary(name) for name, op in ALU.items() if op.arity == 2 and name != "average"},
    **{name: _make_unary(name) for name in (*_ACTIVATION_ONLY, "abs", "square", "relu", "reciprocal")},
    **{name: _make_unary(name) for name in _ALU_UNARY},
}
as_op(copy, "copy", copy.__doc__ or "")
equal = _FUNCTIONS["equal"]


FUNCTIONS: Final = (
    ndarray, zeros, ones, full, empty_like, zeros_like, load, store, copy, transpose, matmul, broadcast_to,
    shared_identity_matrix, divide, negative, sum, prod, max, min, mean, softmax, affine_range, sequential_range,
    static_range, program_id, num_programs, program_ndim, device_print, *_FUNCTIONS.values(),
)  # fmt: skip
"""What this module adds to `nki.language`."""
