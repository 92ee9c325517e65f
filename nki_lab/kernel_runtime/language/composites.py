"""`nki.language` functions that are several instructions: rounding, remainders, selections, norms, gathers, random."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import coded_error
from nki_lab.isa.activation import ACTIVATIONS
from nki_lab.isa.alu import ALU
from nki_lab.isa.dtype import F32, INT32, UINT8, UINT32, DType, dtype_of
from nki_lab.kernel_runtime.issue.context import current
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function as isa
from nki_lab.kernel_runtime.issue.target import tile_size
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.language.operations import Axis, Operand, kind_of
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor, psum, sbuf, shared_hbm
from nki_lab.kernel_runtime.tensor.refusal import require_valid
from nki_lab.printable import shown
from nki_lab.source_files import read_source

_WHOLE: Final = 2.0**23  # from here on every float32 is an integer
_TURN: Final = 2 * math.pi
_TURN_HEAD: Final = 6.28125  # of few bits: products with thousands of turns are exact
_HALF_TURN: Final = math.pi + 2**-10  # beyond pi by what the number of thousands of turns is rounded by


def _tile(value: object, function: str, operand: str = "x") -> NkiTensor:
    if isinstance(value, NkiTensor):
        require_valid(value)
        return value
    raise coded_error(
        "NKI013",
        f"nl.{function}: {operand} is a {type(value).__name__}, it must be a tensor",
        operand=operand,
        limit=f"{operand} is a tensor on the chip",
        help="load it with nl.load first",
    )


def _new(tensor: NkiTensor, dtype: DType, function: str) -> NkiTensor:
    """A new SBUF tile of the tensor's shape."""
    return current(f"nl.{function}").like(tensor, dtype=dtype)


def _scaled(function: str, x: NkiTensor, factor: float, plus: float = 0.0, dtype: DType = F32) -> NkiTensor:
    """x * factor + plus in a new tile."""
    tile = _new(x, dtype, function)
    isa("tensor_scalar")(tile, x, ALU["multiply"], factor, False, ALU["add"], plus)
    return tile


def _nearest(x: NkiTensor, function: str) -> NkiTensor:
    """x rounded to the nearest integer, in float32; what does not fit 32 bits stops at their ends."""
    whole, result = _new(x, INT32, function), _new(x, F32, function)
    isa("tensor_copy")(whole, x)
    isa("tensor_copy")(result, whole)
    return result


def _applied(function: str, activation: str, x: NkiTensor) -> NkiTensor:
    """A function of the Scalar Engine of each element, in a new float32 tile."""
    tile = _new(x, F32, function)
    isa("activation")(tile, ACTIVATIONS[activation], x)
    return tile


def _floored(x: NkiTensor, function: str, dtype: DType) -> NkiTensor:
    """The largest integer not above each element."""
    near = _nearest(x, function)
    above = operations.binary("greater", near, x, F32)
    result = _new(x, dtype, function)
    isa("tensor_tensor")(result, near, above, ALU["subtract"])
    size = _applied(function, "abs", x)
    large = _new(x, UINT8, function)
    isa("tensor_scalar")(large, size, ALU["greater_equal"], _WHOLE)
    given = _new(x, dtype, function)
    isa("tensor_copy")(given, x)
    isa("tensor_copy_predicated")(result, given, large)
    return result


def floor(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The largest integer not above each element of x, in a new SBUF tile."""
    return _floored(_tile(x, "floor"), "floor", kind_of(dtype, x))


def ceil(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The smallest integer not below each element of x, in a new SBUF tile."""
    return _scaled(
        "ceil", _floored(_scaled("ceil", _tile(x, "ceil"), -1.0), "ceil", F32), -1.0, dtype=kind_of(dtype, x)
    )


def trunc(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """Each element of x without its fraction, in a new SBUF tile."""
    size, sign = _applied("trunc", "abs", _tile(x, "trunc")), _applied("trunc", "sign", x)
    return operations.binary("multiply", _floored(size, "trunc", F32), sign, kind_of(dtype, x))


def _divided(name: str, x: Operand, y: Operand) -> tuple[NkiTensor, NkiTensor, NkiTensor, Operand, Operand]:
    """Return (whole, rest, missing, size, sign) of x / y: whole without its fraction for `fmod`, else rounded down.

    The quotient is rounded and may pass a whole number: where the rest, x - y * whole, has the other sign or is as
    large as y, `missing` is the 1 or -1 that whole lacks. `size` is that of y, `sign` that of the remainder.
    """
    ratio = operations.divide(x, y, F32)
    whole = trunc(ratio) if name == "fmod" else floor(ratio)
    rest = operations.binary("subtract", x, operations.binary("multiply", whole, y, F32), F32)
    led = x if name == "fmod" else y  # whose sign the remainder has
    sign: Operand = _applied(name, "sign", led) if isinstance(led, NkiTensor) else math.copysign(1, _number(led))
    size: Operand = _applied(name, "abs", y) if isinstance(y, NkiTensor) else abs(_number(y))
    along = operations.binary("multiply", rest, sign, F32)
    over = operations.binary("greater_equal", along, size, F32)
    missing = operations.binary("subtract", over, operations.binary("less", along, 0.0, F32), F32)
    return whole, rest, missing, size, sign


def _remainder(name: str, x: Operand, y: Operand, dtype: object) -> NkiTensor:
    """Return x - y * (x / y without its fraction, or rounded down for `mod`)."""
    model = x if isinstance(x, NkiTensor) else _tile(y, name, "y")
    _, rest, missing, size, sign = _divided(name, x, y)
    step = operations.binary("multiply", operations.binary("multiply", missing, size, F32), sign, F32)
    return operations.binary("subtract", rest, step, kind_of(dtype, model))


def quotient(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """The largest integer not above x / y, in a new SBUF tile; either may be a number."""
    model = x if isinstance(x, NkiTensor) else _tile(y, "quotient", "y")
    whole, _, missing, *_ = _divided("quotient", x, y)
    return operations.binary("add", whole, missing, kind_of(dtype, model))


def _number(value: object) -> float:
    return float(value)  # type: ignore[arg-type]


def fmod(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """The remainder of x / y with the sign of x, in a new SBUF tile; either may be a number."""
    return _remainder("fmod", x, y, dtype)


def mod(x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """The remainder of x / y with the sign of y, in a new SBUF tile; either may be a number."""
    return _remainder("mod", x, y, dtype)


def _sine(x: NkiTensor, ahead: float, function: str) -> NkiTensor:
    """sin(x + ahead): the angle is first brought into the range that the Scalar Engine's table covers.

    Whole turns are taken off in two parts, and `ahead` is added to what is left, where it is not rounded away. Which of
    two ends of the range an angle comes to is rounded: just beyond pi the table's last piece goes on.
    """
    turns = _nearest(_scaled(function, x, 1 / _TURN, ahead / _TURN), function)
    inside = x
    for part in (_TURN_HEAD, _TURN - _TURN_HEAD):
        less = _new(x, F32, function)
        isa("scalar_tensor_tensor")(less, turns, ALU["multiply"], -part, ALU["add"], inside)
        inside = less
    bounded = _scaled(function, inside, 1.0, ahead) if ahead else inside
    isa("tensor_scalar")(bounded, bounded, ALU["maximum"], -_HALF_TURN, False, ALU["minimum"], _HALF_TURN)
    isa("activation")(bounded, ACTIVATIONS["sin"], bounded)
    return bounded


def sin(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The sine of each element of x, in a new SBUF tile; as `op=` of an instruction only from -pi to pi."""
    return operations.copy(_sine(_tile(x, "sin"), 0.0, "sin"), kind_of(dtype, x))


operations.as_op(sin, "sin", sin.__doc__ or "")


def cos(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The cosine of each element of x, in a new SBUF tile."""
    return operations.copy(_sine(_tile(x, "cos"), math.pi / 2, "cos"), kind_of(dtype, x))


def tan(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The tangent of each element of x, in a new SBUF tile."""
    below = _sine(_tile(x, "tan"), math.pi / 2, "tan")
    return operations.divide(_sine(x, 0.0, "tan"), below, kind_of(dtype, x))


def var(x: NkiTensor, axis: Axis, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """The population variance over trailing free dimensions, in a new SBUF tile.

    These stay at size 1 whatever `keepdims` says (NKI API, nki.language.var).
    """
    apart = operations.binary("subtract", x, operations.mean(_tile(x, "var"), axis, F32, keepdims=True), F32)
    return operations.mean(operations.binary("multiply", apart, apart, F32), axis, kind_of(dtype, x), keepdims=True)


def all(x: NkiTensor, axis: Axis, dtype: object = None) -> NkiTensor:
    """1 where all elements over trailing free dimensions are nonzero, else 0, in a new SBUF tile."""
    return operations.reduction("logical_and", _tile(x, "all"), axis, dtype)


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Axis,
    n: int,
    epsilon: float = 1e-6,
    dtype: object = None,
    compute_dtype: object = None,
) -> NkiTensor:
    """x / sqrt(sum(x * x) / n + epsilon) * w over trailing free dimensions, in a new SBUF tile."""
    inner = F32 if compute_dtype is None else dtype_of(compute_dtype)
    squares = operations.reduction("add", operations.binary("multiply", _tile(x, "rms_norm"), x, F32), axis, F32, True)
    scale = _scaled("rms_norm", squares, 1.0 / n, epsilon)
    isa("activation")(scale, ACTIVATIONS["rsqrt"], scale)
    return operations.binary("multiply", operations.binary("multiply", x, scale, inner), w, kind_of(dtype, x))


def where(condition: NkiTensor, x: Operand, y: Operand, dtype: object = None) -> NkiTensor:
    """x where the condition is nonzero, else y, in a new SBUF tile; x and y may be numbers."""
    _tile(condition, "where", "condition")
    tensors = [side for side in (x, y) if isinstance(side, NkiTensor)]
    kind = dtype_of(dtype) if dtype is not None else tensors[0]._dtype if tensors else F32
    result = _new(condition, kind, "where")
    operations.assign(result, y)
    chosen = operations.binary("not_equal", condition, 0.0, UINT8)
    source = x
    if isinstance(x, NkiTensor) and x._dtype is not kind:
        source = operations.copy(x, kind)
    isa("tensor_copy_predicated")(result, source, chosen)
    return result


def broadcast_to(x: NkiTensor, shape: Sequence[int], dtype: object = None) -> NkiTensor:
    """x repeated to a shape of its rank: size-1 free dimensions as a view, one partition in a new tile."""
    tile = _tile(x, "broadcast_to")
    rank = len(tile._shape)
    if not isinstance(shape, (tuple, list)):
        raise coded_error(
            "NKI012",
            f"nl.broadcast_to: shape is {shown(shape)} ({type(shape).__name__})",
            operand="shape",
            limit=f"shape is a tuple of {rank} sizes",
            help="write the sizes as a tuple",
        )
    if len(shape) != rank:
        raise coded_error(
            "NKI203",
            f"nl.broadcast_to: x is {tuple(tile._shape)} and shape is {shown(shape)}",
            operand="shape",
            limit=f"shape is a tuple of {rank} sizes; sizes of 1 repeat",
            help="reshape x to that rank first",
        )
    if tile._shape[0] == 1 and shape[0] != 1 and tile._buffer.on_chip:
        tile = _spread(tile, int(shape[0]))
    view = operations.broadcast_to(tile, shape)
    return view if dtype is None or dtype_of(dtype) is view._dtype else operations.copy(view, dtype)


def _spread(row: NkiTensor, partitions: int) -> NkiTensor:
    """A new SBUF tile with one partition in each of several: a shuffle of every quadrant, which starts at one too."""
    builder = current("nl.broadcast_to")
    inner = tuple(row._shape[1:])
    if row.offset or row._buffer.address is not None:  # the row may stand anywhere in its tile
        first = builder.allocate((1, *inner), row._dtype, sbuf)
        isa("dma_copy" if row._buffer.space is sbuf else "tensor_copy")(first, row)
        row = first
    tile = builder.allocate((partitions, *inner), row._dtype, sbuf)
    for start in range(0, partitions, 32):
        isa("nc_stream_shuffle")(tile[start : min(start + 32, partitions)], row, [0] * 32)
    return tile


def expand_dims(x: NkiTensor, axis: Axis) -> NkiTensor:
    """A view of x with a further dimension of size 1, counted from the end if negative; on the chip not the first."""
    view = _tile(x, "expand_dims")
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = len(view._shape) + len(given)
    for at in sorted(at + rank if isinstance(at, int) and at < 0 else at for at in given):
        view = view.expand_dim(at)
    return view


def load_transpose2d(src: NkiTensor, dtype: object = None) -> NkiTensor:
    """A new SBUF tile with the transpose of a two-dimensional tensor in HBM, by the DMA engines."""
    _tile(src, "load_transpose2d", "src")
    if len(src._shape) != 2:
        raise coded_error(
            "NKI225",
            f"nl.load_transpose2d: src is {tuple(src._shape)}",
            operand="src",
            limit="src has two dimensions",
            help="slice or reshape it to two dimensions",
        )
    rows, columns = src._shape
    tile = current("nl.load_transpose2d").allocate((columns, rows), src._dtype, sbuf)
    isa("dma_transpose")(tile, src)
    return tile if dtype is None else operations.copy(tile, dtype)


def gather_flattened(data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: object = None) -> NkiTensor:
    """data[p, indices[p, j]] within each partition, in a new SBUF tile of the shape of indices."""
    _tile(data, "gather_flattened", "data")
    tile = _new(_tile(indices, "gather_flattened", "indices"), data._dtype, "gather_flattened")
    isa("nc_n_gather")(tile, data, indices)
    return tile if dtype is None else operations.copy(tile, dtype)


def dropout(x: NkiTensor, rate: Operand, dtype: object = None) -> NkiTensor:
    """x with each element replaced by zero with the probability rate, a number or a (P, 1) tile, in a new SBUF tile."""
    tile = _new(_tile(x, "dropout"), x._dtype, "dropout")
    isa("dropout")(tile, x, rate)
    return tile if dtype is None or dtype_of(dtype) is x._dtype else operations.copy(tile, dtype)


def random_seed(seed: NkiTensor) -> None:
    """Seed the Vector Engine's random generators from a (1, 1) tile of 32 bits."""
    isa("set_rng_seed")(_tile(seed, "random_seed", "seed"))


def rand(shape: Sequence[int], dtype: object, buffer: object = sbuf, name: str = "") -> NkiTensor:
    """A new tensor of uniform random numbers in [0, 1), cast to `dtype`."""
    tensor = operations.ndarray(shape, dtype, buffer, name)
    if tensor._buffer.on_chip:
        fill_evenly(tensor)
        return tensor
    rows = tensor._shape[0]
    for start in range(0, rows, tile_size.pmax):
        part = tensor[start : min(start + tile_size.pmax, rows)]
        tile = current("nl.rand").allocate(operations.tile_shape(part._shape), part._dtype, sbuf)
        fill_evenly(tile)
        isa("dma_copy")(part, tile.reshape(part._shape))
    return tensor


def fill_evenly(tile: NkiTensor) -> None:
    """Fill a tile with numbers in [0, 1): by rand2 where the target has it, else from 24 random bits each."""
    if current("nl.rand").program.arch.generation >= 4:
        isa("rand2")(tile, 0.0, 1.0)
        return
    bits, whole = (current("nl.rand").allocate(tile._shape, kind, sbuf) for kind in (UINT32, F32))
    isa("rng")(bits)
    isa("tensor_scalar")(bits, bits, ALU["right_shift"], 8)
    isa("tensor_copy")(whole, bits)
    isa("tensor_scalar")(tile, whole, ALU["multiply"], 2.0**-24)


MOST_BYTES: Final = 1 << 30
"""Size of the largest file that holds a constant."""


def shared_constant(constant: str | os.PathLike[str] | NDArray[np.generic]) -> NkiTensor:
    """A tensor in shared HBM with the values of a NumPy array, or of a file that numpy.save wrote."""
    builder = current("nl.shared_constant")
    if isinstance(constant, (str, os.PathLike)):
        try:
            constant = np.load(io.BytesIO(read_source(constant, MOST_BYTES)), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise coded_error(
                "NKI018",
                f"nl.shared_constant: {constant} cannot be read: {error}",
                operand="constant",
                limit=f"a file of at most {MOST_BYTES >> 30} GiB that numpy.save wrote",
                help="check the path",
            ) from error
    values = np.asarray(constant)
    tensor = builder.allocate(values.shape, dtype_of(values.dtype), shared_hbm, kind="const")
    builder.program.constants[tensor._buffer.id] = np.ascontiguousarray(values)
    return tensor


def is_sbuf(buffer: object) -> bool:
    """Whether a memory is SBUF."""
    return buffer is sbuf or buffer == "sbuf"


def is_psum(buffer: object) -> bool:
    """Whether a memory is PSUM."""
    return buffer is psum or buffer == "psum"


def is_on_chip(buffer: object) -> bool:
    """Whether a memory is on the chip: SBUF or PSUM."""
    return is_sbuf(buffer) or is_psum(buffer)


def is_hbm(buffer: object) -> bool:
    """Whether a memory is HBM of any kind."""
    return isinstance(buffer, (MemoryRegion, str)) and not is_on_chip(buffer)


FUNCTIONS: Final = (
    all, broadcast_to, ceil, cos, dropout, expand_dims, floor, fmod, gather_flattened, is_hbm, is_on_chip, is_psum,
    is_sbuf, load_transpose2d, mod, rand, random_seed, rms_norm, shared_constant, sin, tan, trunc, var, where,
)  # fmt: skip
"""What this module adds to `nki.language`."""
