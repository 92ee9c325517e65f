"""Rounding float32 values onto the grids of other dtypes, and moving values between true width and float32 shadows.

A shadow is a float32 array whose values lie on its dtype's grid. Conversions are those NKI documents: to nearest, ties
to even, for floating point; to nearest even, then saturating, for integers. Hence -FLT_MAX becomes -inf in 16- and
8-bit floats. Beyond the largest finite value float16, bfloat16, tfloat32, float8_e4m3 and float8_e5m2 give infinity;
float8_e4m3fn, which has none, gives NaN from above 464; float8_e8m0fnu gives NaN for all that is not positive or rounds
beyond 2**127, and its smallest value for anything below. All this is what ml_dtypes does, bit for bit, except that the
payload of a NaN is not kept by a rounding: NaN stays NaN of the same sign. `to_shadow` and `to_storage` keep payloads,
so that integers which a kernel moves as floats survive.

All functions take arrays of any layout, work through them in blocks of `BLOCK` elements (so that a large array neither
leaves the cache nor keeps an interrupt waiting) and are silent about infinities and NaN.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import (
    BF16,
    BOOL,
    F16,
    F32,
    FP8_E4M3,
    FP8_E4M3FN,
    FP8_E5M2,
    FP8_E8M0,
    TF32,
    DType,
)

Array = NDArray[Any]
Kernel = Callable[[Array, Array, "Scratch"], None]

BLOCK: Final = 1 << 16  # elements: 256 KiB of float32, as large as a 128 x 512 tile

# Constants are arrays of no dimension: NumPy takes them twice as fast as its scalars.
_SIGN: Final = np.array(0x80000000, np.uint32)
_EXPONENT: Final = np.array(0x7F800000, np.uint32)
_NAN: Final = np.array(0x7FC00000, np.uint32)
_LOW_HALF: Final = np.array(0xFFFF, np.uint32)
_SIXTEEN: Final = np.array(16, np.uint32)
_ONE: Final = np.array(1, np.uint32)
_ZERO: Final = np.array(0, np.float32)
_INFINITY: Final = np.array(np.inf, np.float32)

_WITH_PAYLOADS: Final = frozenset({F16, FP8_E4M3, FP8_E5M2})  # narrow floats with more than one NaN of a sign


class Scratch:
    """Temporary arrays for one thread, grown to the largest block seen, reused from call to call."""

    __slots__ = ("_arrays", "_views")

    def __init__(self) -> None:
        self._arrays: dict[int, Array] = {}
        self._views: dict[tuple[int, tuple[int, ...], type[np.generic]], Array] = {}

    def take(self, slot: int, shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
        """Return an array of any content, valid until the same slot is taken again. `dtype` has at most 8 bytes."""
        view = self._views.get((slot, shape, dtype))
        if view is None:
            count = math.prod(shape)
            array = self._arrays.get(slot)
            if array is None or array.size < count:
                array = self._arrays[slot] = np.empty(count, np.uint64)
                self._views.clear()
            view = self._views[slot, shape, dtype] = array.view(dtype)[:count].reshape(shape)
        return view


def round_to(x: Array, dtype: DType, scratch: Scratch | None = None, out: Array | None = None) -> Array:
    """Round the float32 array `x` onto the grid of `dtype`, in place or into the float32 array `out`; return it.

    `dtype` is a float of any width, bool_, or an integer of 8 or 16 bits: float32 holds no other grid.
    `out` may be `x`, not a shifted view of it.
    """
    target = x if out is None else out
    if dtype is F32:
        if target is not x:
            np.copyto(target, x)
        return target
    kernel = rounding_kernel(dtype)
    temporary = scratch or Scratch()
    if x.size <= BLOCK:
        if x.size:
            kernel(x, target, temporary)
    else:
        for source_block, target_block in _blocks(x, target):
            kernel(source_block, target_block, temporary)
    return target


@cache
def rounding_kernel(dtype: DType) -> Kernel:
    """Return the function `(x, out, scratch)` behind `round_to`, for at least one and at most `BLOCK` elements."""
    if dtype in (BF16, TF32):
        return _round_bits(23 - dtype.mantissa_bits)
    if dtype in (F16, FP8_E4M3, FP8_E4M3FN, FP8_E5M2):
        return _round_by_shifting(dtype)
    if dtype is FP8_E8M0:
        return _round_scale
    if dtype is BOOL:
        return _round_truth
    if dtype.is_integer and dtype.nbytes <= 2:
        return _round_integer(dtype)
    raise ValueError(f"float32 does not hold the values of {dtype}: bind it at its true width")


def to_shadow(values: Array, dtype: DType, out: Array | None = None) -> Array:
    """Return the float32 shadow of an array of `dtype` at its true width (`storage`, or `host`); exact.

    A new array, or `out`. 32-bit integers beyond 2**24 round to nearest even: they do not fit a shadow.
    """
    _refuse_packed(dtype)
    source = values.astype(values.dtype.newbyteorder("="), copy=False)
    if source.dtype != dtype.storage:
        source = source.view(dtype.storage)
    shadow = np.empty(source.shape, np.float32) if out is None else out
    with np.errstate(all="ignore"):
        for source_block, shadow_block in _blocks(source, shadow):
            if dtype is F16 or (dtype.nbytes == 1 and dtype.is_float):
                # A table look-up takes half the time of NumPy's conversion.
                np.take(_values_of_codes(dtype), source_block.view(f"u{dtype.nbytes}"), out=shadow_block, mode="clip")
            elif dtype is BOOL:
                np.not_equal(source_block, 0, out=shadow_block)
            else:
                np.copyto(shadow_block, source_block)
    return shadow


def from_shadow(shadow: Array, dtype: DType, out: Array | None = None) -> Array:
    """Return the float32 array `shadow` converted to `dtype` at its true width, as users get it.

    The result has the NumPy dtype of that name; tfloat32 comes back as float32, rounded, since NumPy has no such
    number. A new array, or `out`. The values need not be on the grid of `dtype` yet.
    """
    _refuse_packed(dtype)
    if out is None:
        out = np.empty(shadow.shape, np.bool_ if dtype is BOOL else dtype.storage)
    if dtype.is_integer or dtype is BOOL:
        return convert_to_int(shadow, dtype, out)
    if dtype is TF32:
        round_to(shadow, TF32, out=out.view(np.float32))
        return out
    scratch = Scratch()
    with np.errstate(all="ignore"):
        for source_block, target_block in _blocks(shadow, out):
            if dtype.nbytes == 1:
                key = _key(source_block, scratch)
                np.take(_bytes_of_keys(dtype), key, out=target_block.view(np.uint8), mode="clip")
            else:
                np.copyto(target_block, source_block, casting="unsafe")
    return out


def to_storage(shadow: Array, dtype: DType) -> Array:
    """Return the array of the float `dtype` whose shadow this is, bit for bit: the inverse of `to_shadow`.

    The values lie on the grid of `dtype`; a new array of its storage.
    """
    if dtype.nbytes == 4:
        return np.array(shadow, order="C")
    bits = np.ascontiguousarray(shadow).view(np.uint32)
    if dtype is BF16:
        upper = bits.reshape(-1).view(np.uint16)[1 if sys.byteorder == "little" else 0 :: 2]
        return upper.copy().reshape(shadow.shape).view(dtype.storage)
    out = from_shadow(shadow, dtype)
    if dtype in _WITH_PAYLOADS and shadow.size and _has_nan(shadow):
        width, shift = 8 * dtype.nbytes, np.uint32(23 - dtype.mantissa_bits)
        codes = out.view(f"u{dtype.nbytes}")
        nan = bits[np.isnan(shadow)]
        payload = (nan >> shift) & np.uint32((1 << dtype.mantissa_bits) - 1)
        infinity = np.uint32(((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits)
        full = ((nan >> np.uint32(31)) << np.uint32(width - 1)) | infinity | payload
        codes[np.isnan(shadow)] = np.where(payload != 0, full, codes[np.isnan(shadow)])
    return out


def convert_to_int(source: Array, dtype: DType, out: Array | None = None, scratch: Scratch | None = None) -> Array:
    """Return the float32 array `source` as integers of `dtype`: to nearest even, then held at the ends of its range.

    A new array of true width, or `out`. NaN becomes 0 (our choice, the documentation does not say). For bool_
    everything but zero is true, NaN too, as in NumPy.
    """
    target = np.empty(source.shape, np.bool_ if dtype is BOOL else dtype.storage) if out is None else out
    temporary = scratch or Scratch()
    with np.errstate(all="ignore"):
        for source_block, target_block in _blocks(source, target):
            if dtype is BOOL:
                np.not_equal(source_block, 0, out=target_block.view(np.bool_))
            else:
                _to_int_block(source_block, dtype, target_block, temporary)
    return target


def _to_int_block(x: Array, dtype: DType, out: Array, scratch: Scratch) -> None:
    rounded = scratch.take(0, x.shape, np.float32)
    top = np.float32(dtype.max_finite)
    # The largest float32 that the integer type holds: 2**31 and 2**32 are one too many.
    largest = top if int(top) <= dtype.max_finite else np.nextafter(top, np.float32(0))
    np.rint(x, out=rounded)
    rounded.clip(np.float32(dtype.lowest), largest, out=rounded)
    if _has_nan(rounded):
        np.copyto(rounded, _ZERO, where=np.isnan(rounded))
    np.copyto(out, rounded, casting="unsafe")
    if largest != top:
        over = np.greater_equal(x, top)
        if over.any():
            np.copyto(out, out.dtype.type(dtype.max_finite), where=over)


def _blocks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yield views of at most `BLOCK` elements that together cover arrays of one shape, each time the same part."""
    first = arrays[0]
    if first.size <= BLOCK:
        if first.size:
            yield arrays
    elif first.ndim > 1 and all(array.flags.c_contiguous for array in arrays):
        yield from _blocks(*(array.reshape(-1) for array in arrays))
    elif first.shape[0] == 1:
        yield from _blocks(*(array[0] for array in arrays))
    else:
        step = max(1, BLOCK // (first.size // first.shape[0]))
        for start in range(0, first.shape[0], step):
            yield from _blocks(*(array[start : start + step] for array in arrays))


def _refuse_packed(dtype: DType) -> None:
    if dtype.kind == "packed":
        raise ValueError(f"{dtype} packs four numbers an element and has no shadow")


# Rounding kernels.


def _has_nan(x: Array) -> bool:
    """Whether a NaN is among the values; half the cost of isnan and any."""
    return math.isnan(x.max())


def _round_bits(dropped: int) -> Kernel:
    """Rounding that drops the lowest mantissa bits, for dtypes with float32's exponent.

    Adding half a unit, less one where the kept part is even, carries into it just when nearest-even rounds up; a carry
    out of the largest finite value makes infinity. Only NaN must be kept from it: a payload could vanish or overflow.
    """
    shift = np.array(dropped, np.uint32)
    half = np.array((1 << (dropped - 1)) - 1, np.uint32)
    mask = np.array(0xFFFFFFFF >> dropped << dropped, np.uint32)

    def kernel(x: Array, out: Array, scratch: Scratch) -> None:
        bits = x.view(np.uint32)
        result = out.view(np.uint32)
        carry = scratch.take(0, x.shape, np.uint32)
        nan = np.isnan(x) if _has_nan(x) else None
        quiet = None if nan is None else np.bitwise_and(bits, _SIGN) | _NAN
        np.right_shift(bits, shift, out=carry)
        np.bitwise_and(carry, _ONE, out=carry)
        np.add(carry, half, out=carry)
        np.add(bits, carry, out=result)
        np.bitwise_and(result, mask, out=result)
        if quiet is not None:
            np.copyto(result, quiet, where=nan)

    return kernel


def _round_by_shifting(dtype: DType) -> Kernel:
    """Rounding for dtypes with a narrower exponent, by adding and subtracting a constant of the right size.

    Beside 1.5 * 2**k float32 resolves steps of 2**(k - 23), so the sum of x and such a constant is x rounded, nearest
    even, to a multiple of that step; k follows x's own exponent, but not below the dtype's smallest, where its steps
    stop shrinking. What rounds to beyond the largest finite value is seen by comparison.
    """
    mantissa = dtype.mantissa_bits
    largest_exponent = math.frexp(dtype.max_finite)[1] - 1
    smallest_normal = np.array(2.0 ** (dtype.smallest_exponent + mantissa), np.float32)
    enlarge = np.array(((23 - mantissa) << 23) | 0x400000, np.uint32)
    # The first value that does not round to a finite one. float8_e4m3fn has no code where others have infinity, its
    # neighbour above is NaN; on the halfway point its largest value wins, being even, while the others' is odd.
    halfway = np.float32(dtype.max_finite + 2.0 ** (largest_exponent - mantissa - 1))
    limit = halfway if dtype.has_inf else np.nextafter(halfway, np.float32(np.inf))
    beyond = _EXPONENT if dtype.has_inf else _NAN

    def fits(exponents: Array, x: Array) -> bool:
        """Whether all values round to finite ones; NaN does not."""
        top = float(exponents.max())
        if top != 2.0**largest_exponent:
            return top < 2.0**largest_exponent
        return bool(x.max() < limit and x.min() > -limit)

    def kernel(x: Array, out: Array, scratch: Scratch) -> None:
        bits = x.view(np.uint32)
        result = out.view(np.uint32)
        constant = scratch.take(0, x.shape, np.uint32)
        sign = scratch.take(1, x.shape, np.uint32)
        shifter = constant.view(np.float32)
        np.bitwise_and(bits, _SIGN, out=sign)
        np.bitwise_and(bits, _EXPONENT, out=constant)
        shifter.clip(smallest_normal, _INFINITY, out=shifter)  # three times as fast as maximum with a constant
        finite = fits(shifter, x)
        np.add(constant, enlarge, out=constant)
        if finite:
            np.add(x, shifter, out=out)
            np.subtract(out, shifter, out=out)
            np.bitwise_or(result, sign, out=result)
            return
        with np.errstate(all="ignore"):
            nan = np.isnan(x)
            over = np.greater_equal(np.absolute(x), limit)
            np.add(x, shifter, out=out)
            np.subtract(out, shifter, out=out)
        np.bitwise_or(result, sign, out=result)
        np.copyto(result, sign | beyond, where=over)
        np.copyto(result, sign | _NAN, where=nan)

    return kernel


def _round_scale(x: Array, out: Array, scratch: Scratch) -> None:
    np.take(_values_of_keys(FP8_E8M0), _key(x, scratch), out=out, mode="clip")


def _round_truth(x: Array, out: Array, _scratch: Scratch) -> None:
    np.not_equal(x, 0, out=out)


def _round_integer(dtype: DType) -> Kernel:
    lowest, highest = np.array(dtype.lowest, np.float32), np.array(dtype.max_finite, np.float32)

    def kernel(x: Array, out: Array, _scratch: Scratch) -> None:
        with np.errstate(invalid="ignore"):
            np.rint(x, out=out)
            out.clip(lowest, highest, out=out)
            if _has_nan(out):
                np.copyto(out, _ZERO, where=np.isnan(out))
            np.add(out, _ZERO, out=out)  # integers have no negative zero

    return kernel


# Tables, built when first needed.


def _key(x: Array, scratch: Scratch) -> Array:
    """Return the upper half of each float32's bits, rounded to odd: the lowest bit is set if the lower half is not 0.

    Rounding the key to a grid of up to six significant bits gives what rounding x would.
    """
    bits = x.view(np.uint32)
    key = scratch.take(0, x.shape, np.uint32)
    low = scratch.take(1, x.shape, np.uint32)
    sticky = scratch.take(2, x.shape, np.bool_)
    np.bitwise_and(bits, _LOW_HALF, out=low)
    np.not_equal(low, 0, out=sticky)
    np.right_shift(bits, _SIXTEEN, out=key)
    np.bitwise_or(key, sticky, out=key)
    return key


@cache
def _bytes_of_keys(dtype: DType) -> Array:
    """Return the byte of an 8-bit float for each 16-bit key."""
    keys = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    with np.errstate(all="ignore"):
        return keys.view(np.float32).astype(dtype.storage).view(np.uint8)


@cache
def _values_of_keys(dtype: DType) -> Array:
    return _values_of_codes(dtype)[_bytes_of_keys(dtype)]


@cache
def _values_of_codes(dtype: DType) -> Array:
    """Return the float32 value of each code of an 8-bit or 16-bit float."""
    codes = np.arange(1 << 8 * dtype.nbytes, dtype=f"u{dtype.nbytes}")
    with np.errstate(all="ignore"):
        values = codes.view(dtype.storage).astype(np.float32)
    if dtype in _WITH_PAYLOADS:
        nan = np.isnan(values)
        payload = codes[nan].astype(np.uint32) & np.uint32((1 << dtype.mantissa_bits) - 1)
        sign = codes[nan].astype(np.uint32) >> np.uint32(8 * dtype.nbytes - 1) << np.uint32(31)
        values.view(np.uint32)[nan] = sign | _EXPONENT | (payload << np.uint32(23 - dtype.mantissa_bits))
    return values
