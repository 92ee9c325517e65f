"""Rounding kernels and conversions against ml_dtypes and NumPy: every 16-bit pattern, and a million of 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from nki_lab.isa.dtype import (
    BF16,
    BOOL,
    F16,
    F32,
    FLOATS,
    FP8_E4M3,
    FP8_E4M3FN,
    FP8_E5M2,
    FP8_E8M0,
    INT8,
    INT16,
    INT32,
    INTEGERS,
    PACKED,
    TF32,
    UINT8,
    UINT16,
    UINT32,
    DType,
    dtype_of,
)
from nki_lab.kernel_runtime.numerics.rounding import (
    BLOCK,
    Scratch,
    convert_to_int,
    from_shadow,
    round_to,
    rounding_kernel,
    to_shadow,
)

Array = np.ndarray[Any, Any]

HOSTED = sorted(FLOATS - {F32, TF32}, key=str)  # floats that ml_dtypes or NumPy converts
SHADOWED = [*HOSTED, TF32, BOOL, INT8, INT16, UINT8, UINT16]
FLT_MAX = np.finfo(np.float32).max


def _patterns() -> Array:
    """Every upper half with the lower halves where rounding turns, and a million random float32 patterns."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    lower = [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x0FFF, 0x1000, 0x1001, 0x2000, 0x3000]
    rng = np.random.default_rng(2024)
    random = rng.integers(0, 1 << 32, 1_000_000, dtype=np.uint32)
    # Random patterns seldom fall into the narrow range of an 8-bit float; these do.
    near_one = rng.integers(0x38000000, 0x47800000, 1_000_000, dtype=np.uint32) | (random & np.uint32(0x80000000))
    return np.concatenate([*(upper | np.uint32(low) for low in lower), random, near_one]).view(np.float32)


PATTERNS = _patterns()


def _assert_same(got: Array, expected: Array) -> None:
    """Equal values with equal signs, zeros and NaN included; NaN payloads may differ."""
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(got[~nan].view(np.uint32), expected[~nan].view(np.uint32))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def _through(x: Array, entry: DType) -> Array:
    """There and back by ml_dtypes or NumPy."""
    with np.errstate(all="ignore"):
        return x.astype(entry.host).astype(np.float32)


# Rounding to floating-point grids.


@pytest.mark.parametrize("entry", HOSTED, ids=str)
def test_rounding_is_what_ml_dtypes_does(entry: DType) -> None:
    _assert_same(round_to(PATTERNS.copy(), entry), _through(PATTERNS, entry))


@pytest.mark.parametrize("entry", HOSTED, ids=str)
def test_conversion_is_what_ml_dtypes_does_bit_for_bit(entry: DType) -> None:
    with np.errstate(all="ignore"):
        expected = PATTERNS.astype(entry.host)
    got = from_shadow(PATTERNS, entry)
    assert got.dtype == entry.host
    bits = f"u{entry.nbytes}"
    np.testing.assert_array_equal(got.view(bits), expected.view(bits))


@pytest.mark.parametrize("entry", [e for e in HOSTED if e.nbytes <= 2], ids=str)
def test_shadows_of_every_code_are_exact(entry: DType) -> None:
    codes = np.arange(256**entry.nbytes, dtype=f"u{entry.nbytes}").view(entry.storage)
    _assert_same(to_shadow(codes, entry), codes.astype(np.float32))


@pytest.mark.parametrize("source", [BF16, F16], ids=str)
@pytest.mark.parametrize("entry", HOSTED, ids=str)
def test_every_16_bit_value_rounds_as_ml_dtypes_rounds_it(entry: DType, source: DType) -> None:
    shadow = to_shadow(np.arange(1 << 16, dtype=np.uint16).view(source.storage), source)
    _assert_same(round_to(shadow.copy(), entry), _through(shadow, entry))


def test_tfloat32_rounds_to_the_nearest_of_ten_bits() -> None:
    x = PATTERNS[np.isfinite(PATTERNS)]
    got = round_to(x.copy(), TF32).astype(np.float64)
    exact = x.astype(np.float64)
    _, exponent = np.frexp(exact)
    step = np.ldexp(1.0, np.maximum(exponent - 11, -136))
    units = np.rint(exact / step)  # of float64: to even
    expected = units * step
    expected[np.abs(expected) > TF32.max_finite] = np.inf * np.sign(expected[np.abs(expected) > TF32.max_finite])
    np.testing.assert_array_equal(got, expected)
    _assert_same(round_to(np.array([np.inf, -np.inf, np.nan, -0.0], np.float32), TF32),
                 np.array([np.inf, -np.inf, np.nan, -0.0], np.float32))  # fmt: skip


@pytest.mark.parametrize("entry", SHADOWED, ids=str)
def test_rounding_twice_changes_nothing(entry: DType) -> None:
    once = round_to(PATTERNS.copy(), entry)
    _assert_same(round_to(once.copy(), entry), once)


@pytest.mark.parametrize("entry", SHADOWED, ids=str)
def test_values_on_the_grid_survive_the_way_to_true_width_and_back(entry: DType) -> None:
    shadow = round_to(PATTERNS.copy(), entry)
    _assert_same(to_shadow(from_shadow(shadow, entry), entry), shadow)


@pytest.mark.parametrize("entry", HOSTED, ids=str)
@given(x=npst.arrays(np.float32, 32, elements=st.floats(width=32)))
def test_rounding_keeps_order(entry: DType, x: Array) -> None:
    x = np.sort(x[~np.isnan(x)])
    if entry is FP8_E8M0:
        x = x[x > 0]
    rounded = round_to(x.copy(), entry)
    rounded = rounded[~np.isnan(rounded)]
    assert (rounded[1:] >= rounded[:-1]).all()


def test_the_lowest_float32_becomes_minus_infinity_in_narrow_floats() -> None:
    for entry in (BF16, F16, TF32, FP8_E4M3, FP8_E5M2):
        assert round_to(np.array([-FLT_MAX], np.float32), entry)[0] == -np.inf
    assert np.isnan(round_to(np.array([-FLT_MAX], np.float32), FP8_E4M3FN)[0])


@pytest.mark.parametrize(
    ("entry", "last", "first_beyond"),
    [(F16, 65519.996, 65520), (FP8_E4M3, 247.99998, 248), (FP8_E5M2, 61439.996, 61440)],
    ids=str,
)
def test_overflow_begins_halfway_to_the_next_power(entry: DType, last: float, first_beyond: float) -> None:
    x = np.array([last, -last, first_beyond, -first_beyond], np.float32)
    top = entry.max_finite
    assert round_to(x, entry).tolist() == [top, -top, np.inf, -np.inf]


def test_float8_e4m3fn_has_nan_beyond_464() -> None:
    x = np.array([464, -464, np.nextafter(np.float32(464), np.float32(np.inf)), 480, np.inf], np.float32)
    got = round_to(x, FP8_E4M3FN)
    assert got[:2].tolist() == [448, -448]
    assert np.isnan(got[2:]).all()


@pytest.mark.parametrize("pattern", [0x7FFFFFFF, 0x7F800001, 0xFF800001, 0xFFFFFFFF, 0x7FC0DEAD, 0x7F80FFFF])
@pytest.mark.parametrize("entry", sorted(FLOATS, key=str), ids=str)
def test_nan_of_any_payload_stays_nan_of_its_sign(entry: DType, pattern: int) -> None:
    x = np.array([1, pattern, 0x3F800000], np.uint32).view(np.float32)
    got = round_to(x.copy(), entry)
    assert np.isnan(got[1])
    if entry is not FP8_E8M0:
        assert np.signbit(got[1]) == np.signbit(x[1])
    assert got[2] == 1


def test_signs_of_zero_survive() -> None:
    x = np.array([-0.0, 0.0, -1e-45, 1e-45], np.float32)
    for entry in (BF16, F16, FP8_E4M3, FP8_E4M3FN, FP8_E5M2, TF32):
        got = round_to(x.copy(), entry)
        assert got.tolist() == [0, 0, 0, 0]
        assert np.signbit(got).tolist() == [True, False, True, False]


# Integers.


@pytest.mark.parametrize("entry", sorted(INTEGERS, key=str), ids=str)
def test_integers_round_half_even_then_saturate(entry: DType) -> None:
    got = convert_to_int(PATTERNS, entry)
    assert got.dtype == entry.storage
    number = np.where(np.isnan(PATTERNS), np.float32(0), PATTERNS).astype(np.float64)
    exact = np.rint(number)
    np.testing.assert_array_equal(got.astype(np.float64), np.clip(exact, entry.lowest, entry.max_finite))


@pytest.mark.parametrize(
    ("value", "entry", "expected"),
    [(2.5, INT8, 2), (3.5, INT8, 4), (-2.5, INT8, -2), (300.7, UINT8, 255), (-1, UINT8, 0), (1e10, INT32, 2147483647),
     (-1e10, INT32, -2147483648), (2147483520, INT32, 2147483520), (2147483648, INT32, 2147483647),
     (1e10, UINT32, 4294967295), (4294967040, UINT32, 4294967040), (-0.5, UINT32, 0),
     (np.inf, INT16, 32767), (-np.inf, INT16, -32768),
     (np.nan, INT32, 0), (np.nan, UINT8, 0), (65535.5, UINT16, 65535), (0.49999997, INT8, 0)],
)  # fmt: skip
def test_documented_and_edge_conversions(value: float, entry: DType, expected: int) -> None:
    assert int(convert_to_int(np.array([value], np.float32), entry)[0]) == expected
    if entry.nbytes <= 2:
        assert round_to(np.array([value], np.float32), entry)[0] == expected


@pytest.mark.parametrize("entry", [INT8, INT16, UINT8, UINT16], ids=str)
def test_integer_shadows_hold_the_integers(entry: DType) -> None:
    shadow = round_to(PATTERNS.copy(), entry)
    np.testing.assert_array_equal(shadow, convert_to_int(PATTERNS, entry))
    assert not np.signbit(shadow[shadow == 0]).any()


def test_booleans_are_true_where_not_zero() -> None:
    x = np.array([0, -0.0, 0.25, -3, np.nan, np.inf], np.float32)
    truth = [False, False, True, True, True, True]
    assert from_shadow(x, BOOL).tolist() == truth
    assert from_shadow(x, BOOL).dtype == np.bool_
    assert round_to(x.copy(), BOOL).tolist() == truth
    out = np.empty(6, np.uint8)
    assert convert_to_int(x, BOOL, out) is out
    assert out.tolist() == truth
    assert to_shadow(np.array([0, 1, 7], np.uint8), BOOL).tolist() == [0, 1, 1]
    assert to_shadow(np.array([False, True]), BOOL).tolist() == [0, 1]


def test_wide_integers_become_the_nearest_float32() -> None:
    values = np.array([2**24 + 1, -(2**31), 2**31 - 1], np.int32)
    assert to_shadow(values, INT32).tolist() == [2.0**24, -(2.0**31), 2.0**31]


# What has no shadow.


@pytest.mark.parametrize("entry", [INT32, UINT32, *sorted(PACKED, key=str)], ids=str)
def test_grids_that_float32_does_not_hold_are_refused(entry: DType) -> None:
    with pytest.raises(ValueError, match="does not hold"):
        round_to(np.ones(3, np.float32), entry)


@pytest.mark.parametrize("entry", sorted(PACKED, key=str), ids=str)
def test_packed_types_have_no_shadow(entry: DType) -> None:
    with pytest.raises(ValueError, match="packs four numbers"):
        to_shadow(np.zeros(3, entry.storage), entry)
    with pytest.raises(ValueError, match="packs four numbers"):
        from_shadow(np.zeros(3, np.float32), entry)


# Calling convention.

SHAPES = [(), (1,), (0,), (3, 0), (5, 7), (2, 3, 4, 5), (BLOCK,), (BLOCK + 1,), (3, BLOCK // 2 + 1), (1, 3 * BLOCK)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("entry", SHADOWED, ids=str)
def test_results_do_not_depend_on_shape_layout_or_scratch(entry: DType, shape: tuple[int, ...]) -> None:
    x = np.resize(PATTERNS[::977], shape).astype(np.float32)
    expected = _through(x, entry) if entry in HOSTED else round_to(x.reshape(-1).copy(), entry).reshape(shape)
    nan_free = np.where(np.isnan(expected), np.float32(-1), expected)
    scratch = Scratch()
    for source in (x.copy(), x.copy(order="F"), np.repeat(x[..., None], 2, axis=-1)[..., 1]):
        kept = source.copy()
        out = np.full((*shape, 2), 9, np.float32)
        assert round_to(source, entry, scratch, out=out[..., 0]).base is out
        np.testing.assert_array_equal(source.view(np.uint32), kept.view(np.uint32))
        got = out[..., 0]
        np.testing.assert_array_equal(np.where(np.isnan(got), np.float32(-1), got), nan_free)
        assert (out[..., 1] == 9).all()
        stored = from_shadow(source, entry)
        assert stored.shape == shape
        back = to_shadow(stored[::-1] if shape else stored, entry)
        back = back[::-1] if shape else back
        np.testing.assert_array_equal(np.where(np.isnan(back), np.float32(-1), back), nan_free)
        assert round_to(source, entry, scratch) is source
        np.testing.assert_array_equal(np.where(np.isnan(source), np.float32(-1), source), nan_free)


@pytest.mark.parametrize("entry", [*SHADOWED, F32, INT32, UINT32], ids=str)
def test_conversions_write_into_strided_arrays_of_true_width(entry: DType) -> None:
    x = PATTERNS[::4001].copy()
    expected = from_shadow(x, entry)
    wide = np.zeros(2 * x.size, expected.dtype)
    out = wide[1::2]
    assert from_shadow(x, entry, out) is out
    bits = f"u{entry.nbytes}"
    np.testing.assert_array_equal(out.view(bits), expected.view(bits))
    assert not wide[::2].view(bits).any()
    shadow = np.zeros(2 * x.size, np.float32)
    assert to_shadow(out, entry, shadow[::2]).base is shadow
    np.testing.assert_array_equal(shadow[::2], to_shadow(expected, entry))


def test_float32_passes_unchanged() -> None:
    x = PATTERNS[:5000].copy()
    bits = x.view(np.uint32).copy()
    assert round_to(x, F32) is x
    out = np.empty_like(x)
    round_to(x, F32, out=out)
    np.testing.assert_array_equal(out.view(np.uint32), bits)
    np.testing.assert_array_equal(to_shadow(x, F32).view(np.uint32), bits)
    np.testing.assert_array_equal(from_shadow(x, F32).view(np.uint32), bits)
    assert not np.shares_memory(to_shadow(x, F32), x)
    assert not np.shares_memory(from_shadow(x, F32), x)


def test_tfloat32_comes_back_as_rounded_float32() -> None:
    got = from_shadow(np.array([1 + 2**-12], np.float32), TF32)
    assert got.dtype == np.float32
    assert got[0] == 1
    record = np.array([1.5], np.float32).view(np.dtype(TF32.host))
    assert dtype_of(record.dtype) is TF32
    assert to_shadow(record, TF32).tolist() == [1.5]


def test_other_byte_orders_are_read() -> None:
    assert to_shadow(np.array([1.5, -2], ">f4"), F32).tolist() == [1.5, -2]
    assert to_shadow(np.array([1.5, -2], ">f2"), F16).tolist() == [1.5, -2]
    assert to_shadow(np.array([300, -2], ">i2"), INT16).tolist() == [300, -2]


def test_scratch_is_reused_and_grows() -> None:
    scratch = Scratch()
    small = scratch.take(0, (2, 3), np.float32)
    assert scratch.take(0, (2, 3), np.float32) is small
    assert np.shares_memory(scratch.take(0, (3,), np.uint32), small)
    assert not np.shares_memory(scratch.take(1, (3,), np.uint32), small)
    large = scratch.take(0, (100,), np.float64)
    assert large.size == 100
    assert np.shares_memory(scratch.take(0, (2, 3), np.float32), large)


def test_kernels_are_interned() -> None:
    assert rounding_kernel(BF16) is rounding_kernel(BF16)
