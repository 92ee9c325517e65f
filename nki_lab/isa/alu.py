"""The operators of the vector, scalar and GpSimd engines' arithmetic units, as NumPy computes them.

Source of names, categories, legal reductions and generations: the table "Supported Math Operators" of the NKI API
reference. The `engines` column was last printed with SDK 2.26.

`apply(a, b, out)` writes its result into `out` and returns it. Arithmetic operators work on float32 arrays (the
engines convert every operand to float32 first), bitvec operators on unsigned integer arrays of one dtype (they
see bit patterns). `b` is an array that broadcasts against `a`, a scalar, or, for unary operators, ignored. `out` may
be `a` or `b` itself, not an overlapping view that is shifted. NumPy's floating-point warnings are the caller's to
silence, once: the walker runs in `np.errstate(all="ignore")`, since infinities and NaN are ordinary results here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import coded_error
from nki_lab.isa.dtype import INT32, UINT32, DType
from nki_lab.isa.python_operators import ARITHMETIC, COMPARISONS
from nki_lab.isa.spelling import did_you_mean
from nki_lab.printable import shown

Array = NDArray[Any]
Apply = Callable[[Array, Any, Array], Array]
Category = Literal["arithmetic", "bitvec", "unary"]


_VECTOR_V4: Final = {"vector": 4}
_VECTOR_SCALAR: Final = {"vector": 2, "scalar": 2}
_GPSIMD: Final = {"gpsimd": 2}
_ADDERS: Final = {"vector": 2, "gpsimd": 2, "scalar": 3}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AluOp:
    """One operator; the only instances are those of `ALU`.

    `reduction` tells whether reducing instructions take it; `identity` is then what a reduction of nothing gives
    (None: the operator has none, a reduction starts from its first element; -1 stands for all bits set).
    `selects` says that a result is always one of the inputs, 0 or 1, so that it lies on every grid that holds the
    inputs. One that `decides` gives 1 or 0, and jumps between them where its inputs pass each other.
    `engines` maps each engine that has the operator to the first NeuronCore generation where it does; `since` is the
    first generation of all.
    """

    name: str
    apply: Apply
    doc: str
    category: Category = "arithmetic"
    arity: Literal[1, 2] = 2
    reduction: bool = False
    identity: float | None = None
    engines: Mapping[str, int] = field(default_factory=lambda: {"vector": 2})
    since: int = 2

    @property
    def selects(self) -> bool:
        return self.name in _SELECTING

    @property
    def decides(self) -> bool:
        return self.name in _DECIDING

    def reduce(self, data: Array, axes: tuple[int, ...], out: Array) -> Array:
        """Fold the trailing `axes` of data into out, a legal reduction only; subtract folds from the left."""
        if self.name == "subtract":
            flat = data.reshape(*data.shape[: data.ndim - len(axes)], -1)
            np.subtract(flat[..., 0], np.add.reduce(flat[..., 1:], axis=-1), out=out)
        elif self.name.startswith("logical"):
            np.copyto(out, getattr(np, self.name).reduce(np.not_equal(data, 0), axis=axes))
        else:
            getattr(np, "add" if self.name == "average" else self.name).reduce(data, axis=axes, out=out)
        return out

    def folded(self, data: Array) -> Array:
        """Return the reduction of all elements of each partition, (partitions,) in the precision of `data`."""
        return self.reduce(data, tuple(range(1, data.ndim)), np.empty(data.shape[0], data.dtype))

    @property
    def nki_op(self) -> str:
        """Name in nki.language, which kernels write."""
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (alu_of, (self.name,))


def _cast(of: Callable[[Array, Any], Array]) -> Apply:
    """An operator computed apart from `out`, and cast to its dtype: comparisons give 1 or 0, and NaN equals nothing."""

    def apply(a: Array, b: Any, out: Array) -> Array:
        np.copyto(out, of(a, b))
        return out

    return apply


def _logical(ufunc: np.ufunc) -> Apply:
    """A logical operator on truth values, 1 or 0 in the dtype of `out`; everything but zero is true, NaN too."""
    # Comparing first is four times as fast as NumPy's logical loops over floats.
    return _cast(lambda a, b: ufunc(np.not_equal(a, 0), np.not_equal(b, 0)))


def _unary(ufunc: np.ufunc) -> Apply:
    return lambda a, _b, out: ufunc(a, out=out)


def _by_magnitude(farther: np.ufunc) -> Apply:
    return _cast(lambda a, b: np.where(farther(np.abs(a), np.abs(b)), a, b))


def _first(a: Array, _b: Any, out: Array) -> Array:
    if out is not a:
        np.copyto(out, a)
    return out


def _bounded(ufunc: np.ufunc, *, below: bool) -> Apply:
    """Maximum (`below`) or minimum; a bound that is one float for all goes through `clip`, three times as fast."""

    def apply(a: Array, b: Any, out: Array) -> Array:
        if isinstance(b, np.ndarray) and b.ndim:  # at once: scans come here for each column
            ufunc(a, b, out=out)
            return out
        if out.dtype == np.float32 and np.ndim(b) == 0:
            bound = np.float32(b)
            return a.clip(bound if below else np.float32(-np.inf), np.float32(np.inf) if below else bound, out=out)
        ufunc(a, b, out=out)
        return out

    return apply


def _rsqrt(a: Array, _b: Any, out: Array) -> Array:
    np.sqrt(a, out=out)
    return _reciprocal(out, None, out)


def _reciprocal(a: Array, _b: Any, out: Array) -> Array:
    return np.divide(np.float32(1), a, out=out)


_DECIDING: Final = frozenset(
    {
        "equal", "not_equal", "greater_equal", "greater", "less_equal", "less", "logical_and", "logical_or",
        "logical_xor", "logical_not",
    }
)  # fmt: skip
_SELECTING: Final = frozenset(
    {
        "maximum", "minimum", "equal", "not_equal", "greater_equal", "greater", "less_equal", "less", "logical_and",
        "logical_or", "logical_xor", "logical_not", "abs_max", "abs_min", "relu", "bypass",
    }
)  # fmt: skip


ALU: Final[Mapping[str, AluOp]] = MappingProxyType(
    {
        op.name: op
        for op in (
            AluOp("invert", _unary(np.invert), "every bit flipped", category="bitvec", arity=1),
            AluOp("bitwise_and", np.bitwise_and, "bitwise a & b", category="bitvec", reduction=True, identity=-1),
            AluOp("bitwise_or", np.bitwise_or, "bitwise a | b", category="bitvec", reduction=True, identity=0),
            AluOp("bitwise_xor", np.bitwise_xor, "bitwise a ^ b", category="bitvec", reduction=True, identity=0),
            # Shifting by the width or more gives 0, as NumPy defines it; the documentation does not say.
            AluOp("left_shift", np.left_shift, "a << b, zeros shifted in", category="bitvec"),
            AluOp("right_shift", np.right_shift, "a >> b, logical: zeros shifted in", category="bitvec"),
            AluOp("add", np.add, "a + b", reduction=True, identity=0.0, engines=_ADDERS),
            AluOp("subtract", np.subtract, "a - b", reduction=True),
            AluOp("multiply", np.multiply, "a * b", reduction=True, identity=1.0, engines=_ADDERS),
            # guess: NaN wins in maximum and minimum, as in NumPy; the documentation does not say.
            AluOp(
                "maximum",
                _bounded(np.maximum, below=True),
                "the larger of a and b",
                reduction=True,
                identity=float("-inf"),
            ),
            AluOp(
                "minimum",
                _bounded(np.minimum, below=False),
                "the smaller of a and b",
                reduction=True,
                identity=float("inf"),
            ),
            AluOp("equal", _cast(np.equal), "1.0 where a == b, else 0.0"),
            AluOp("not_equal", _cast(np.not_equal), "1.0 where a != b, else 0.0"),
            AluOp("greater_equal", _cast(np.greater_equal), "1.0 where a >= b, else 0.0"),
            AluOp("greater", _cast(np.greater), "1.0 where a > b, else 0.0"),
            AluOp("less_equal", _cast(np.less_equal), "1.0 where a <= b, else 0.0"),
            AluOp("less", _cast(np.less), "1.0 where a < b, else 0.0"),
            AluOp(
                "logical_and",
                _logical(np.logical_and),
                "1.0 where both are nonzero, else 0.0",
                reduction=True,
                identity=1.0,
            ),
            AluOp(
                "logical_or",
                _logical(np.logical_or),
                "1.0 where one is nonzero, else 0.0",
                reduction=True,
                identity=0.0,
            ),
            AluOp(
                "logical_xor",
                _logical(np.logical_xor),
                "1.0 where just one is nonzero, else 0.0",
                reduction=True,
                identity=0.0,
            ),
            AluOp("power", np.power, "a to the power b", engines=_GPSIMD),
            AluOp(
                "abs_max",
                _by_magnitude(np.greater),
                "a where |a| > |b|, else b, sign kept",
                since=4,
                engines=_VECTOR_V4,
            ),
            AluOp(
                "abs_min", _by_magnitude(np.less), "a where |a| < |b|, else b, sign kept", since=4, engines=_VECTOR_V4
            ),
            AluOp("abs", _unary(np.absolute), "|a|", category="unary", arity=1, engines=_VECTOR_SCALAR),
            AluOp("square", _unary(np.square), "a * a", category="unary", arity=1, since=4, engines=_VECTOR_V4),
            AluOp(
                "relu",
                lambda a, _b, out: a.clip(np.float32(0), np.float32(np.inf), out=out),
                "max(a, 0)",
                category="unary",
                arity=1,
                since=4,
                engines=_VECTOR_V4,
            ),
            AluOp(
                "rsqrt",
                _rsqrt,
                "1 / sqrt(a)",
                category="unary",
                arity=1,
                engines={"gpsimd": 2, "scalar": 2},
            ),
            AluOp("reciprocal", _reciprocal, "1 / a", category="unary", arity=1, engines=_VECTOR_SCALAR),
            # Outside the main table: where single instructions or the SDK 2.26 table name them.
            AluOp(
                "bypass",
                _first,
                "a, the stage is skipped (op0 and op1 of activate2)",
                since=4,
                engines={"scalar": 4},
            ),
            AluOp(
                "average",
                np.add,
                "running sum a + b; the reducing instruction divides by the count (tensor_partition_reduce)",
                reduction=True,
                identity=0.0,
                engines=_GPSIMD,
            ),
            AluOp(
                "logical_not",
                _cast(lambda a, _b: np.equal(a, 0)),
                "1.0 where a is zero, else 0.0",
                category="unary",
                arity=1,
            ),
        )
    }
)


# Names that mean one of the above: the prose of tensor_scalar_reduce, and the NumPy functions older kernels pass.
_ALIASES: Final = {"max": "maximum", "min": "minimum", "amax": "maximum", "amin": "minimum", "sum": "add"} | {
    "absolute": "abs",
    "bitwise_not": "invert",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "mean": "average",
}


def alu_of(spelling: object) -> AluOp:
    """Return the operator that a user means: an AluOp, a name, or any function that bears one (`np.add`, `nl.max`).

    Raises NKI012 for anything else.
    """
    if isinstance(spelling, AluOp):
        return spelling
    name = spelling if isinstance(spelling, str) else getattr(spelling, "__name__", None)
    found = ALU.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if found is not None:
        return found
    raise coded_error(
        "NKI012",
        f"{name or shown(spelling)} is no operator of the arithmetic units",
        operand="op",
        limit="one of the operators of the NKI API reference, Supported Math Operators",
        help=_INSTEAD.get(name or "") or (did_you_mean(name, ALU) if name else ""),
    )


_INSTEAD: Final[dict[str, str]] = {
    "divide": "multiply by the reciprocal: nisa.reciprocal of a tile, or 1 / number",
    "mod": "of powers of two nl.bitwise_and in an integer tile, else x - y * floor(x / y) in several instructions",
    "fmod": "of powers of two nl.bitwise_and in an integer tile, else x - y * trunc(x / y) in several instructions",
} | {item.sign: f"write nl.{item.name}" for item in (*ARITHMETIC, *COMPARISONS) if item.name in ALU}
"""Remedies for functions of nki.language that are no operators of an instruction, and for signs."""


def identity_of(op: AluOp, storage: np.dtype[Any]) -> np.generic | None:
    """Return the identity element of `op` as a scalar of the NumPy dtype `storage`; None where `op` has none.

    Integer storage takes its own extremes in place of infinities.
    """
    value = op.identity
    if value is None:
        return None
    if not np.issubdtype(storage, np.integer):
        element: np.generic = storage.type(value)
    elif value in (float("inf"), float("-inf")):
        limits = np.iinfo(storage)
        element = storage.type(limits.max if value > 0 else limits.min)
    else:
        element = np.int64(value).astype(storage)
    return element


_EXACT: Final = frozenset(
    ALU[name]
    for name in (
        "add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "greater_equal", "greater",
        "less_equal", "less", "logical_and", "logical_or", "logical_xor", "logical_not",
    )
)  # fmt: skip


def exact_int32(op: AluOp, *dtypes: DType) -> Apply | None:
    """Return the native 32-bit integer form of an arithmetic `op`, for int32 or uint32; None where it has none.

    The GpSimd engine computes 32-bit integers natively when all operands of `tensor_tensor` are int32 or uint32 (and
    none is in PSUM). Operands have one dtype; so has `out`.
    Sums, differences and products that leave 32 bits wrap around. The documentation promises exactness, which no
    overflow can keep; wrapping is what 32-bit registers do and loses no low bits (saturation is documented for
    float-to-integer conversion only). guess: the device was not seen to do either.
    """
    if dtypes and not (all(kind is INT32 for kind in dtypes) or all(kind is UINT32 for kind in dtypes)):
        return None
    return op.apply if op in _EXACT else None
