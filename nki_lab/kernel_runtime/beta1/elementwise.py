"""`neuronxcc.nki.language`: element-by-element functions, over those of the current dialect.

Beta 1 adds `mask=`, promotion with Python scalars, and broadcasting over partitions in the function form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from nki_lab.diagnostic import coded_error, error_of
from nki_lab.isa.activation import ACTIVATIONS
from nki_lab.isa.alu import ALU
from nki_lab.isa.dtype import BOOL, F32, DType, dtype_of, promote
from nki_lab.isa.python_operators import COMPARISONS
from nki_lab.kernel_runtime.beta1.blocks import require_tile
from nki_lab.kernel_runtime.beta1.builder import current
from nki_lab.kernel_runtime.beta1.index import Index, Mask
from nki_lab.kernel_runtime.beta1.masking import MaskLike, Shape, common_shape, masked
from nki_lab.kernel_runtime.beta1.refused_names import unmodelled
from nki_lab.kernel_runtime.beta1.subscript import Subscript, axes_of, checked, moved_by_tile
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function as isa
from nki_lab.kernel_runtime.language import composites, namespaces, operations
from nki_lab.kernel_runtime.language.operations import Operand, as_op, dressed, kind_of
from nki_lab.kernel_runtime.tensor import NkiTensor, make_view, psum, sbuf

_CURRENT = namespaces.language_names()
_UNARY = tuple(n for n in _CURRENT if n != "copy" and (n in ACTIVATIONS or (n in ALU and ALU[n].arity == 1)))
_TRUTH = frozenset((*(item.name for item in COMPARISONS), "logical_and", "logical_or", "logical_xor"))
_ROUNDED_DOWN = {"mod": composites.mod, "floor_divide": composites.quotient}
"""Operators of several instructions. `//` has no function in `nl`: it is the quotient that `%` leaves the rest of."""
_LOGICAL = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}


def operand(value: object, function: str, name: str) -> NkiTensor:
    """`value` checked to be a tile; NKI013 for anything else, NKI312 for a grid of tiles."""
    if not isinstance(value, NkiTensor):
        raise coded_error(
            "NKI013",
            f"nl.{function}: {name} is {value!r} ({type(value).__name__}), it must be a tensor",
            operand=name,
            limit=f"{name} is a tensor",
            help=_remedy(value),
        )
    require_tile(value)
    return value


def _remedy(value: object) -> str:
    """Return what to do about a value that is no operand."""
    if isinstance(value, (Index, Mask)):
        return "indices become tiles by nisa.iota; masks are made by Python's comparisons, as in i_p < n"
    return "pass arrays as arguments, and load them with nl.load first"


def two_dimensional(value: object, function: str, name: str, help: str) -> NkiTensor:
    """Return `value` checked to be a tile of two dimensions; NKI225 for other tiles."""
    tile = operand(value, function, name)
    if len(tile._shape) != 2:
        raise coded_error(
            "NKI225",
            f"nl.{function}: {name} has shape {tuple(tile._shape)}",
            operand=name,
            limit=f"{name} is two-dimensional",
            help=help,
        )
    return tile


def refuse_mask(mask: MaskLike, function: str, limit: str, help: str) -> None:
    """Refuse a mask of a function that has none; NKI010."""
    if mask is not None and mask is not True:
        raise coded_error(
            "NKI010", f"nl.{function} with a mask is not modelled", operand="mask", limit=limit, help=help
        )


def stretched(tile: NkiTensor, shape: Shape) -> NkiTensor:
    """A view of `tile` that repeats size-1 dimensions up to `shape`; partitions only as a source of DMA."""
    if tile._shape == shape:
        return tile
    tile = checked(tile)
    missing = len(shape) - len(tile._shape)
    sizes = (tile._shape[0], *(1,) * missing, *tile._shape[1:])
    steps = (tile._strides[0], *(0,) * missing, *tile._strides[1:])
    view = make_view(
        tile._buffer,
        shape,
        tuple([step if size == want else 0 for size, want, step in zip(sizes, shape, steps, strict=True)]),
        tile._offset,
        tile._dtype,
        tile._indirect,
    )
    axes = axes_of(tile)
    if axes is not None:
        view._extra = Subscript((), (), len(shape), (axes[0], *(frozenset(),) * missing, *axes[1:]))
    return view


def spread(tile: NkiTensor, partitions: int) -> NkiTensor:
    """Return the one partition of a tile in each of several: a DMA reads the same row again; others as they are."""
    if tile._shape[0] != 1 or partitions == 1:
        return tile
    source = in_sbuf(checked(tile))
    shape = (partitions, *source._shape[1:])
    wide = current().allocate(shape, source._dtype, sbuf)
    isa("dma_copy")(wide, stretched(source, shape))
    return wide


def in_sbuf(tile: NkiTensor) -> NkiTensor:
    """Return the tile, copied out of PSUM where it lies there."""
    if tile._buffer.space is not psum:
        return tile
    place = current().like(tile)
    isa("tensor_copy")(place, checked(tile))
    return place


def result_dtype(name: str, x: object, y: object, dtype: object) -> DType:
    """Return the dtype of `x name y`: bool of truth values, else the promoted dtype, bare numbers being widest.

    Bits stay bits: of uint32 and a bare number, which promote to float32, an operator on bits gives uint32.
    """
    if dtype is not None:
        return dtype_of(dtype)
    if name in _TRUTH:
        return BOOL
    tiles = [item._dtype for item in (x, y) if isinstance(item, NkiTensor)]
    kind = promote(*[item._dtype if isinstance(item, NkiTensor) else item for item in (x, y)])
    bits = len(tiles) == 1 and name in ALU and ALU[name].category == "bitvec"
    return tiles[0] if bits and tiles[0].is_integer and not kind.is_integer else kind


def binary(
    name: str, x: Operand, y: Operand, dtype: object = None, mask: MaskLike = None, *, partitions: bool = True
) -> NkiTensor:
    """Return `x name y` in a new tile; either side may be a number. Partitions of size 1 repeat with `partitions`."""
    if name == "divide":
        return _divide(x, y, dtype, mask, partitions=partitions)
    if name not in ALU:
        raise error_of(unmodelled(f"neuronxcc.nki.language.{name}"))
    return both(name, functools.partial(operations.binary, name), x, y, dtype, mask, partitions=partitions)


def both(
    name: str,
    of: Callable[[Operand, Operand, DType], NkiTensor],
    x: Operand,
    y: Operand,
    dtype: object = None,
    mask: MaskLike = None,
    *,
    partitions: bool = True,
) -> NkiTensor:
    """Return `of(x, y, dtype)` for two sides, tiles in one shape or numbers, where the mask leaves them."""
    if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
        operand(x, name, "x")
    left, right = _side(x, name, "x"), _side(y, name, "y")
    kind = result_dtype(name, x, y, dtype)
    if isinstance(left, NkiTensor) and isinstance(right, NkiTensor):
        return masked(mask, lambda a, b: of(a, b, kind), _pair(name, left, right, partitions), kind)
    if isinstance(left, NkiTensor):
        return masked(mask, lambda a: of(a, right, kind), (left,), kind)
    return masked(mask, lambda a: of(left, a, kind), (operand(right, name, "y"),), kind)


def _side(value: Operand, name: str, which: str) -> NkiTensor | Number:
    """Return a side of an operator: a tile or a number."""
    if isinstance(value, NkiTensor):
        return operand(value, name, which)
    if isinstance(value, (Number, np.generic)):
        return plain_number(value)  # type: ignore[no-any-return]
    raise coded_error(
        "NKI013",
        f"nl.{name}: {which} is a {type(value).__name__}, it must be a tensor or a number",
        operand=which,
        limit=f"{which} is a tensor or a number",
        help=_remedy(value),
    )


def plain_number(value: Any) -> Any:
    """Return Python's number for one of NumPy's; others as they are."""
    return value.item() if isinstance(value, np.generic) else value


def _pair(name: str, x: NkiTensor, y: NkiTensor, partitions: bool) -> tuple[NkiTensor, NkiTensor]:
    """Return both tiles in one shape, at most one of them in PSUM."""
    shape = common_shape(x._shape, y._shape)
    if x._shape[0] != y._shape[0] and not partitions:
        raise coded_error(
            "NKI203",
            f"the operands of {name} have {x._shape[0]} and {y._shape[0]} partitions",
            operand="y",
            limit="operators broadcast along free dimensions only",
            help=f"use nl.{name}(x, y), or nl.broadcast_to first",
        )
    x, y = spread(x, shape[0]), spread(y, shape[0])
    if x._buffer.space is psum and y._buffer.space is psum:
        y = in_sbuf(y)
    return stretched(x, shape), stretched(y, shape)


def _divide(x: Operand, y: Operand, dtype: object, mask: MaskLike, *, partitions: bool) -> NkiTensor:
    """Return x / y as x times the reciprocal of y; quotients of integers are float32."""
    _, divisor = _side(x, "divide", "x"), _side(y, "divide", "y")
    kind = result_dtype("divide", x, y, dtype)
    kind = F32 if dtype is None and not kind.is_float else kind
    if isinstance(divisor, NkiTensor):
        inverse: Operand = masked(mask, lambda a: _CURRENT["reciprocal"](a, F32), (divisor,), F32)
    else:
        inverse = 1.0 / divisor  # type: ignore[operator]
    return binary("multiply", x, inverse, kind, mask, partitions=partitions)


def unary(name: str, x: Operand, dtype: object = None, mask: MaskLike = None) -> NkiTensor:
    """Return a function of each element, in a new tile."""
    tile = operand(x, name, "x")
    kind = BOOL if dtype is None and name == "logical_not" else kind_of(dtype, tile)
    return masked(mask, lambda a: _CURRENT[name](a, kind), (tile,), kind)


def operator(name: str, left: Any, right: Any) -> Any:
    """A Python operator on tiles; & | ^ of truth values are logical. A number in SBUF plus an index is an index."""
    if name == "add" and (index := moved_by_tile(left, right)) is not None:
        return index
    if name == "negative":
        return binary("multiply", left, -1, left._dtype)
    if name in ("abs", "invert"):
        return unary("logical_not" if name == "invert" and left._dtype is BOOL else name, left)
    if name in _ROUNDED_DOWN:
        return both(name, _ROUNDED_DOWN[name], left, right, partitions=False)
    if name == "matmul":
        raise coded_error(
            "NKI017",
            "tiles have no operator @",
            limit="matrix products are calls",
            help="use nl.matmul(x, y) or nisa.nc_matmul(stationary, moving)",
        )
    truths = all(isinstance(item, NkiTensor) and item._dtype is BOOL for item in (left, right))
    return binary(_LOGICAL.get(name, name) if truths else name, left, right, partitions=False)


def function(
    of: Callable[..., NkiTensor], name: str, doc: str, *, sides: int, token: bool = True
) -> Callable[..., NkiTensor]:
    """Return the function `name` of `nl`, of one or two `sides`; `of` takes these, a dtype and a mask."""

    def one(x: Operand, dtype: object = None, mask: MaskLike = None, **_hints: object) -> NkiTensor:
        return of(x, dtype, mask)

    def two(x: Operand, y: Operand, dtype: object = None, mask: MaskLike = None, **_hints: object) -> NkiTensor:
        return of(x, y, dtype, mask)

    return (as_op if token else dressed)(one if sides == 1 else two, name, doc, "neuronxcc.nki.language")


def _binary_function(name: str, doc: str) -> Callable[..., NkiTensor]:
    return function(
        functools.partial(binary, name),
        name,
        f"{doc}, element by element with broadcasting, in a new tile; also an `op=`.",
        sides=2,
    )


def _unary_function(name: str) -> Callable[..., NkiTensor]:
    doc = ACTIVATIONS[name].formula if name in ACTIVATIONS else ALU[name].doc
    return function(
        functools.partial(unary, name), name, f"{doc} of each element, in a new tile; also an `op=` argument.", sides=1
    )


def negative(x: Operand, dtype: object = None, mask: MaskLike = None, **_hints: object) -> NkiTensor:
    """-x of each element, in a new tile."""
    tile = operand(x, "negative", "x")
    return binary("multiply", tile, -1, dtype or tile._dtype, mask)


def functions() -> dict[str, Callable[..., Any]]:
    """The element-by-element functions by name."""
    found = {name: _binary_function(name, op.doc) for name, op in ALU.items() if op.arity == 2 and name != "average"}
    found |= {name: _unary_function(name) for name in _UNARY}
    return found | {"divide": _binary_function("divide", "x / y"), "negative": negative}
