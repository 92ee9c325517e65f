"""The data types of NKI: their widths, their grids of values, and the NumPy dtypes that stand for them.

A `DType` is interned: one object a name, compared by identity. Kernels see its `host`, which NumPy understands; inside
nki_lab the record itself travels, and `dtype_of` finds it for anything a user may pass as a dtype.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import coded_error
from nki_lab.isa.spelling import did_you_mean

Kind = Literal["float", "int", "uint", "bool", "packed"]


class NamedDType:
    """A dtype that NumPy has no number for, usable wherever NumPy takes a dtype.

    NumPy reads `dtype`, a record of one field that bears the name: so `np.dtype(nl.tfloat32)` keeps its width and
    stays different from float32, whichever side of `==` it stands on. `str` is the bare name.
    """

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, storage: np.dtype[Any]) -> None:
        self.name = name
        self.dtype: np.dtype[Any] = np.dtype([(name, storage)])

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.dtype.itemsize

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other == self.name
        return other is self or (isinstance(other, np.dtype) and bool(other == self.dtype))

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (getattr, (DTYPES[self.name], "host"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DType:
    """One NKI data type; the only instances are those of `DTYPES`.

    `host` is what users see as `nl.<name>`: a plain `np.dtype` where NumPy (with ml_dtypes) has the number, else a
    `NamedDType`. `storage` is the NumPy dtype of true-width bytes: uint8 for booleans, float32 for tfloat32, and the
    unsigned integer of that width for packed types.
    `mantissa_bits` counts the stored fraction, `smallest_exponent` is log2 of the smallest positive value (floats
    only). `lowest` and `max_finite` bound the finite values of one element (of one of the four, for packed types).
    `since` is the first NeuronCore generation that has the type at all; single instructions may ask for more.
    """

    name: str
    nbytes: int
    kind: Kind
    host: np.dtype[Any] | NamedDType
    storage: np.dtype[Any]
    mantissa_bits: int = 0
    exponent_bits: int = 0
    smallest_exponent: int = 0
    lowest: float
    max_finite: float
    has_inf: bool = False
    since: int = 2

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers; booleans and packed types are neither float nor integer."""
        return self.kind == "int" or self.kind == "uint"  # noqa: PLR1714 - faster than a tuple

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype_of, (self.name,))


def _number(name: str, *, lowest: float, highest: float, **fields: Any) -> DType:
    """A type that NumPy or ml_dtypes has."""
    host = np.dtype(getattr(ml_dtypes, name, None) or getattr(np, name))
    fields = {"storage": host, "nbytes": host.itemsize} | fields
    return DType(name=name, host=host, lowest=lowest, max_finite=highest, **fields)


def _integer(name: str) -> DType:
    limits = np.iinfo(name)
    return _number(name, kind="int" if limits.min else "uint", lowest=limits.min, highest=limits.max)


def _float(name: str, mantissa: int, exponent: int, highest: float, *, has_inf: bool = True) -> DType:
    return _number(
        name,
        kind="float",
        mantissa_bits=mantissa,
        exponent_bits=exponent,
        smallest_exponent=2 - 2 ** (exponent - 1) - mantissa,
        lowest=-highest,
        highest=highest,
        has_inf=has_inf,
    )


def _unknown_to_numpy(
    name: str, storage: type[np.generic], mantissa: int, exponent: int, highest: float, **fields: Any
) -> DType:
    """Return a type that NumPy lacks; a packed one is four floats in one element, the first in the lowest bits."""
    host = NamedDType(name, np.dtype(storage))
    return DType(
        name=name,
        nbytes=host.itemsize,
        host=host,
        storage=np.dtype(storage),
        mantissa_bits=mantissa,
        exponent_bits=exponent,
        smallest_exponent=2 - 2 ** (exponent - 1) - mantissa,
        lowest=-highest,
        max_finite=highest,
        **fields,
    )


_packed = partial(_unknown_to_numpy, kind="packed", since=4)

BOOL: Final = _number("bool_", kind="bool", storage=np.dtype(np.uint8), lowest=0, highest=1)
INT8: Final = _integer("int8")
INT16: Final = _integer("int16")
INT32: Final = _integer("int32")
UINT8: Final = _integer("uint8")
UINT16: Final = _integer("uint16")
UINT32: Final = _integer("uint32")
F16: Final = _float("float16", 10, 5, 65504.0)
F32: Final = _float("float32", 23, 8, (2 - 2**-23) * 2.0**127)
BF16: Final = _float("bfloat16", 7, 8, (2 - 2**-7) * 2.0**127)
TF32: Final = _unknown_to_numpy("tfloat32", np.float32, 10, 8, (2 - 2**-10) * 2.0**127, kind="float", has_inf=True)
FP8_E4M3: Final = _float("float8_e4m3", 3, 4, 240.0)
FP8_E4M3FN: Final = _float("float8_e4m3fn", 3, 4, 448.0, has_inf=False)
FP8_E5M2: Final = _float("float8_e5m2", 2, 5, 57344.0)
# Unsigned powers of two and NaN, no zero. since: inferred, its only use is the scales of MX instructions.
FP8_E8M0: Final = _number(
    "float8_e8m0fnu",
    kind="float",
    exponent_bits=8,
    smallest_exponent=-127,
    lowest=2.0**-127,
    highest=2.0**127,
    since=4,
)
FP8_E5M2_X4: Final = _packed("float8_e5m2_x4", np.uint32, 2, 5, 57344.0)
FP8_E4M3FN_X4: Final = _packed("float8_e4m3fn_x4", np.uint32, 3, 4, 448.0)
FP4_E2M1FN_X4: Final = _packed("float4_e2m1fn_x4", np.uint16, 1, 2, 6.0)

DTYPES: Final[dict[str, DType]] = {
    entry.name: entry
    for entry in (
        BOOL, INT8, INT16, INT32, UINT8, UINT16, UINT32, F16, F32, BF16, TF32,
        FP8_E4M3, FP8_E4M3FN, FP8_E5M2, FP8_E8M0, FP8_E5M2_X4, FP8_E4M3FN_X4, FP4_E2M1FN_X4,
    )
}  # fmt: skip

FLOATS: Final = frozenset(entry for entry in DTYPES.values() if entry.is_float)
INTEGERS: Final = frozenset(entry for entry in DTYPES.values() if entry.is_integer)
PACKED: Final = frozenset(entry for entry in DTYPES.values() if entry.kind == "packed")
FP8: Final = frozenset({FP8_E4M3, FP8_E4M3FN, FP8_E5M2})  # the data types; e8m0 only scales


def _spellings() -> dict[Any, DType]:
    known: dict[Any, DType] = {}
    for entry in DTYPES.values():
        known |= dict.fromkeys((entry, entry.name, entry.host, np.dtype(entry.host)), entry)
        if isinstance(entry.host, np.dtype):
            known[entry.host.type] = entry
    # float8e4 and float8e5 are how older kernels write the two types of the first Trainium.
    known |= {"bool": BOOL, "float8e4": FP8_E4M3, "float8e5": FP8_E5M2}
    # Python's numbers are as wide as the promotion rules take them.
    return known | {bool: BOOL, int: INT32, float: F32}


_KNOWN: Final = _spellings()


def dtype_of(spelling: object) -> DType:
    """Return the NKI dtype that a user means by `spelling`.

    Takes DTypes and their hosts, NumPy dtypes in any byte order, NumPy and ml_dtypes scalar classes, Python's number
    classes, names, and the dtypes of torch and jax (recognised by name, neither is imported).
    Raises NKI012 for anything else, 64-bit types included.
    """
    try:
        return _KNOWN[spelling]
    except (KeyError, TypeError):
        found = _resolve(spelling)
    with suppress(TypeError):  # unhashable, such as a dtype given as a list of fields: resolved each time
        _KNOWN[spelling] = found
    return found


def _resolve(spelling: object) -> DType:
    text = str(spelling)
    if text.startswith("torch."):
        named = _KNOWN.get(text.removeprefix("torch."))
        if named is not None:
            return named
    elif spelling is not None and not _is_array(spelling):
        try:
            host = np.dtype(spelling)  # type: ignore[call-overload]
        except (TypeError, ValueError, SyntaxError):
            host = None
        if host is not None:
            text = host.name
            found = _KNOWN.get(host) or _KNOWN.get(host.newbyteorder("="))
            if found is not None:
                return found
    raise coded_error(
        "NKI012",
        f"{_description(spelling)} is no NKI dtype",
        operand="dtype",
        limit=f"one of {', '.join(DTYPES)}",
        help=_remedy(text.removeprefix("torch.")),
    )


def constant_of(value: object, dtype: DType, name: str) -> NDArray[Any]:
    """Return numbers of a user's as an array of `dtype`; NKI012 names the argument `name` that is something else.

    Every constant of a user's comes through here, since the constructors of ml_dtypes' scalars end the process if they
    are given text.
    """
    host = np.dtype(dtype.host)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" and array.dtype not in _KNOWN:
            raise TypeError(f"{_description(value)} is no number")
        if array.ndim == 0 and host.kind in "iu":
            host.type(array.item())  # raises where `astype` would wrap around
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(array.astype(host)).reshape(array.shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise coded_error(
            "NKI012",
            f"{name}: no value of {dtype.name}: {error}",
            operand=name,
            limit="a number or an array of numbers",
            help="convert it to a number first",
        ) from error


def _is_array(spelling: object) -> bool:
    """Check for an array or a tensor: NumPy would take the dtype of one for a dtype."""
    return hasattr(spelling, "shape") and not isinstance(spelling, type | np.dtype)


def _description(spelling: object) -> str:
    if _is_array(spelling):
        return f"an object of type {type(spelling).__name__}"
    return spelling.__name__ if isinstance(spelling, type) else repr(spelling)


def _remedy(name: str) -> str:
    narrower = name.removesuffix("64") + "32"
    if name.endswith("64") and narrower in DTYPES:
        return f"NKI has no 64-bit types: use {narrower}, and convert arrays with .astype(np.{narrower})"
    return did_you_mean(name, (key for key in _KNOWN if isinstance(key, str)))


@cache
def grid_contains(wide: DType, narrow: DType) -> bool:
    """Check that every value of `narrow`, infinities and NaN included, is exactly a value of `wide`."""
    if wide is narrow:
        return True
    if "packed" in (wide.kind, narrow.kind) or wide is FP8_E8M0:
        return False
    if not wide.is_float:
        return not narrow.is_float and wide.lowest <= narrow.lowest and narrow.max_finite <= wide.max_finite
    if not narrow.is_float:
        return int(narrow.max_finite).bit_length() <= wide.mantissa_bits + 1 and -narrow.lowest <= wide.max_finite
    return (
        wide.mantissa_bits >= narrow.mantissa_bits
        and wide.smallest_exponent <= narrow.smallest_exponent
        and wide.max_finite >= narrow.max_finite
        and (wide.has_inf or not narrow.has_inf)
    )


def scalar_dtype(value: object) -> DType:
    """Return the dtype of a bare scalar: bool uint8, int int32, float float32; NumPy scalars keep their own.

    NumPy's numbers of 64 bits, for which NKI has no dtype, count as Python's: `np.sqrt(64)` and `np.prod(shape)` are
    such. An int beyond int32 counts as uint32 where it fits, else as float32 (our choice, the rules do not say).
    """
    if isinstance(value, np.float64 | np.int64 | np.uint64):
        value = value.item()
    if isinstance(value, bool):
        return UINT8
    if isinstance(value, np.generic):
        return dtype_of(value.dtype)
    if isinstance(value, int):
        return next((entry for entry in (INT32, UINT32) if entry.lowest <= value <= entry.max_finite), F32)
    if isinstance(value, float):
        return F32
    raise coded_error(
        "NKI012", f"{value!r} is no number", operand="scalar", limit="a bool, an int, a float or a NumPy scalar"
    )


def promote(*operands: object) -> DType:
    """Return the dtype of a result whose operands are dtypes (in any spelling of `dtype_of`) or bare scalars.

    Floats win over integers, and the wider wins. Different floats of the same width give the next width (float16
    and bfloat16 give float32, the 8-bit ones bfloat16). Integers give the smallest integer type that holds both,
    else in float32 (int32 with uint32). The order of the operands does not matter.
    A packed dtype promotes with itself only (NKI207).
    """
    if not operands:
        raise ValueError("promote needs at least one operand")
    kinds = [_operand_dtype(operand) for operand in operands]
    first = kinds[0]
    if all(kind is first for kind in kinds):
        return first
    packed = next((kind for kind in kinds if kind.kind == "packed"), None)
    if packed is not None:
        others = ", ".join(dict.fromkeys(kind.name for kind in kinds if kind is not packed))
        raise coded_error("NKI207", f"{packed} and {others} have no common dtype", limit="packed dtypes do not promote")
    floats = {kind for kind in kinds if kind.is_float}
    if floats:
        width = max(kind.nbytes for kind in floats)
        widest = [kind for kind in floats if kind.nbytes == width]
        return widest[0] if len(widest) == 1 else BF16 if width == 1 else F32
    ladder = (UINT8, INT8, UINT16, INT16, UINT32, INT32)
    return next((kind for kind in ladder if all(grid_contains(kind, other) for other in kinds)), F32)


def _operand_dtype(operand: object) -> DType:
    return scalar_dtype(operand) if isinstance(operand, bool | int | float | np.generic) else dtype_of(operand)
