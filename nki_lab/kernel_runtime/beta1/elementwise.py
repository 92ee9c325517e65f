"""`neuronxcc.nki.language`: element-by-element functions, over those of the current dialect.

Beta 1 adds `mask=`, promotion with Python scalars, and broadcasting over partitions in the function form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic, diagnose, error_of
from nki_lab.isa.activation import ACTIVATIONS
from nki_lab.isa.alu import ALU
from nki_lab.isa.dtype import BOOL, F32, DType, dtype_of, promote
from nki_lab.kernel_runtime.beta1.blocks import require_tile
from nki_lab.kernel_runtime.beta1.builder import DeferringBuilder, current
from nki_lab.kernel_runtime.beta1.masking import masked
from nki_lab.kernel_runtime.beta1.moving import moved_by_tile
from nki_lab.kernel_runtime.beta1.subscript import Subscript, axes_of, checked
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function as isa
from nki_lab.kernel_runtime.language import namespaces, operations
from nki_lab.kernel_runtime.language.operations import as_op, kind_of
from nki_lab.kernel_runtime.tensor import NkiTensor, make_view, psum, sbuf

Shape = tuple[int, ...]
_CURRENT = namespaces.language_names()
_UNARY = tuple(n for n in _CURRENT if n != "copy" and (n in ACTIVATIONS or (n in ALU and ALU[n].arity == 1)))
_LETTERS = ("P", "F")
_TRUTH = frozenset(
    ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor")
)
_LOGICAL = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}


def operand(value: Any, function: str, name: str) -> NkiTensor:
    """`value` checked to be a tile; NKI013 for anything else, NKI312 for a grid of tiles."""
    if not isinstance(value, NkiTensor):
        raise error_of(
            diagnose("NKI013", f"nl.{function}: {name} is {value!r} ({type(value).__name__}), it must be a tensor",
                     operand=name, limit=f"{name} is a tensor", help="load arrays with nl.load first")
        )  # fmt: skip
    require_tile(value)
    return value


def common_shape(*shapes: Shape) -> Shape:
    """The shape that tiles broadcast to: partitions first, free dimensions aligned at the end."""
    rank = max(len(shape) for shape in shapes)
    filled = [(shape[0], *(1,) * (rank - len(shape)), *shape[1:]) for shape in shapes]
    sizes = tuple(max(column) for column in zip(*filled, strict=True))
    if any(have not in (1, want) for shape in filled for have, want in zip(shape, sizes, strict=True)):
        listed = " and ".join(str(tuple(shape)) for shape in shapes)
        raise error_of(
            diagnose("NKI203", f"tiles of shapes {listed} do not broadcast", operand="y",
                     limit="each dimension has equal sizes, or size 1 on one side",
                     help="slice or reshape one tile to the shape of the other")
        )  # fmt: skip
    return sizes


def stretched(tile: NkiTensor, shape: Shape) -> NkiTensor:
    """A view of `tile` that repeats size-1 dimensions up to `shape`; partitions only as a source of DMA."""
    if tile._shape == shape:
        return tile
    tile = checked(tile)
    missing = len(shape) - len(tile._shape)
    sizes = (tile._shape[0], *(1,) * missing, *tile._shape[1:])
    steps = (tile._strides[0], *(0,) * missing, *tile._strides[1:])
    strides = tuple([step if size == want else 0 for size, want, step in zip(sizes, shape, steps, strict=True)])
    view = make_view(tile._buffer, shape, strides, tile._offset, tile._dtype, tile._indirect)
    axes = axes_of(tile)
    if axes is not None:
        view._extra = Subscript((), (), len(shape), (axes[0], *(frozenset(),) * missing, *axes[1:]))
    return view


def spread(builder: DeferringBuilder, tile: NkiTensor, partitions: int) -> NkiTensor:
    """A tile with the one partition of `tile` in each of its `partitions`: a DMA that reads the same row again."""
    source = in_sbuf(builder, checked(tile))
    shape = (partitions, *source._shape[1:])
    wide = builder.allocate(shape, source._dtype, sbuf)
    isa("dma_copy")(wide, stretched(source, shape))
    return wide


def in_sbuf(builder: DeferringBuilder, tile: NkiTensor) -> NkiTensor:
    """The tile, copied out of PSUM where it lies there."""
    if tile._buffer.space is not psum:
        return tile
    place = builder.like(tile)
    isa("tensor_copy")(place, checked(tile))
    return place


def result_dtype(name: str, x: Any, y: Any, dtype: Any) -> DType:
    """What Beta 1 gives `x name y`: truth values as bool, else the promoted dtype, bare numbers being widest."""
    if dtype is not None:
        return dtype_of(dtype)
    if name in _TRUTH:
        return BOOL
    return promote(*[item._dtype if isinstance(item, NkiTensor) else item for item in (x, y)])


def binary(builder: DeferringBuilder, name: str, x: Any, y: Any, dtype: Any = None, mask: Any = None, *,
           partitions: bool = True) -> NkiTensor:  # fmt: skip
    """`x name y` in a new tile; either side may be a number. Size-1 partitions repeat only with `partitions`."""
    if name == "divide":
        return _divide(builder, x, y, dtype, mask, partitions=partitions)
    if name not in ALU:
        raise error_of(unmodelled(f"neuronxcc.nki.language.{name}"))
    return both(builder, name, functools.partial(operations.binary, name), x, y, dtype, mask, partitions=partitions)


def both(builder: DeferringBuilder, name: str, of: Callable[[Any, Any, DType], NkiTensor], x: Any, y: Any,
         dtype: Any = None, mask: Any = None, *, partitions: bool = True) -> NkiTensor:  # fmt: skip
    """`of(x, y, dtype)` for two sides, tiles in one shape or numbers, where the mask leaves them."""
    if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
        operand(x, name, "x")
    left, right = (_side(item, name, which) for item, which in ((x, "x"), (y, "y")))
    kind = result_dtype(name, x, y, dtype)

    def compute(a: Any, b: Any) -> NkiTensor:
        return of(a, b, kind)

    if isinstance(left, NkiTensor) and isinstance(right, NkiTensor):
        pair = _pair(builder, name, left, right, partitions)
        return masked(builder, mask, compute, pair, (_LETTERS, _LETTERS), common_shape, lambda _: (kind, sbuf))
    if isinstance(left, NkiTensor):
        return one(builder, mask, lambda a: compute(a, right), left, kind)
    return one(builder, mask, lambda a: compute(left, a), right, kind)


def _side(value: Any, name: str, which: str) -> Any:
    """One side of an operator: a tile or a number."""
    return operand(value, name, which) if isinstance(value, NkiTensor) else _number(name, value, which)


def _number(name: str, value: Any, which: str) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Number):
        return value
    raise error_of(
        diagnose("NKI013", f"nl.{name}: {which} is a {type(value).__name__}, it must be a tensor or a number",
                 operand=which, limit=f"{which} is a tensor or a number",
                 help="indices become tiles by nisa.iota, arrays are passed as arguments")
    )  # fmt: skip


def one(
    builder: DeferringBuilder, mask: Any, compute: Callable[..., NkiTensor], tile: NkiTensor, kind: Any
) -> NkiTensor:
    """`compute` of what the mask leaves of a tile."""
    return masked(builder, mask, compute, (tile,), (_LETTERS,), lambda shape: shape, lambda _: (kind, sbuf))


def _pair(
    builder: DeferringBuilder, name: str, x: NkiTensor, y: NkiTensor, partitions: bool
) -> tuple[NkiTensor, NkiTensor]:
    """Both tiles in one shape, at most one of them in PSUM."""
    shape = common_shape(x._shape, y._shape)
    if x._shape[0] != y._shape[0]:
        if not partitions:
            raise error_of(
                diagnose("NKI203", f"the operands of {name} have {x._shape[0]} and {y._shape[0]} partitions",
                         operand="y", limit="operators broadcast along free dimensions only",
                         help=f"use nl.{name}(x, y), or nl.broadcast_to first")
            )  # fmt: skip
        if x._shape[0] == 1:
            x = spread(builder, x, shape[0])
        else:
            y = spread(builder, y, shape[0])
    if x._buffer.space is psum and y._buffer.space is psum:
        y = in_sbuf(builder, y)
    return stretched(x, shape), stretched(y, shape)


def _divide(builder: DeferringBuilder, x: Any, y: Any, dtype: Any, mask: Any, *, partitions: bool) -> NkiTensor:
    """x / y as x times the reciprocal of y; quotients of integers are float32."""
    for item, which in ((x, "x"), (y, "y")):
        _side(item, "divide", which)
    kind = result_dtype("divide", x, y, dtype)
    if dtype is None and not kind.is_float:
        kind = F32
    if not isinstance(y, NkiTensor):
        return binary(builder, "multiply", x, 1.0 / _number("divide", y, "y"), kind, mask, partitions=partitions)
    tile = operand(y, "divide", "y")
    inverse = one(builder, mask, lambda a: _CURRENT["reciprocal"](a, F32), tile, F32)
    return binary(builder, "multiply", x, inverse, kind, mask, partitions=partitions)


def unary(builder: DeferringBuilder, name: str, x: Any, dtype: Any = None, mask: Any = None) -> NkiTensor:
    """A function of each element, in a new tile."""
    function = _CURRENT[name]
    tile = operand(x, name, "x")
    kind = BOOL if dtype is None and name == "logical_not" else kind_of(dtype, tile)
    return one(builder, mask, lambda a: function(a, kind), tile, kind)


def operator(builder: DeferringBuilder, name: str, left: Any, right: Any) -> Any:
    """A Python operator on tiles; & | ^ of truth values are logical. A number in SBUF plus an index is an index."""
    if name == "add" and (index := moved_by_tile(left, right)) is not None:
        return index
    if name == "negative":
        return binary(builder, "multiply", left, -1, left._dtype)
    if name == "abs":
        return unary(builder, name, left)
    if name == "invert":
        return unary(builder, "logical_not" if left._dtype is BOOL else name, left)
    if name == "matmul":
        raise error_of(
            diagnose("NKI017", "tiles have no operator @", limit="matrix products are calls",
                     help="use nl.matmul(x, y) or nisa.nc_matmul(stationary, moving)")
        )  # fmt: skip
    both = all(isinstance(item, NkiTensor) and item._dtype is BOOL for item in (left, right))
    return binary(builder, _LOGICAL.get(name, name) if both else name, left, right, partitions=False)


def unmodelled(what: str) -> Diagnostic:
    """What is wrong with a Beta 1 name that is known and not modelled."""
    return diagnose("NKI010", f"{what} is part of Beta 1 and not modelled here",
                    limit="a function is modelled when its instructions are declared",
                    help="write it with other functions of neuronxcc.nki.language or neuronxcc.nki.isa")  # fmt: skip


def _binary_function(name: str) -> Callable[..., NkiTensor]:
    def function(x: Any, y: Any, dtype: Any = None, mask: Any = None, **_hints: Any) -> NkiTensor:
        return binary(current(f"nl.{name}"), name, x, y, dtype, mask)

    doc = "x / y" if name == "divide" else ALU[name].doc
    return as_op(
        function,
        name,
        f"{doc}, element by element with broadcasting, in a new tile; also an `op=`.",
        "neuronxcc.nki.language",
    )


def _unary_function(name: str) -> Callable[..., NkiTensor]:
    def function(x: Any, dtype: Any = None, mask: Any = None, **_hints: Any) -> NkiTensor:
        return unary(current(f"nl.{name}"), name, x, dtype, mask)

    doc = ACTIVATIONS[name].formula if name in ACTIVATIONS else ALU[name].doc
    return as_op(
        function, name, f"{doc} of each element, in a new tile; also an `op=` argument.", "neuronxcc.nki.language"
    )


def negative(x: Any, dtype: Any = None, mask: Any = None, **_hints: Any) -> NkiTensor:
    """-x of each element, in a new tile."""
    tile = operand(x, "negative", "x")
    return binary(current("nl.negative"), "multiply", tile, -1, dtype or tile._dtype, mask)


def functions() -> dict[str, Callable[..., Any]]:
    """The element-by-element functions by name."""
    found = {name: _binary_function(name) for name, op in ALU.items() if op.arity == 2 and name != "average"}
    found |= {name: _unary_function(name) for name in _UNARY}
    return found | {"divide": _binary_function("divide"), "negative": negative}
