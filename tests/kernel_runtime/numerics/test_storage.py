"""Where values live: windows into every kind of binding, the pool, poison, and what users get back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.isa.dtype import BF16, BOOL, DTYPES, F16, F32, FP8_E4M3, FP8_E5M2, INT32, TF32, UINT8, DType
from nki_lab.kernel_runtime.numerics.pool import Bound, Pool
from nki_lab.kernel_runtime.numerics.rounding import from_shadow, to_shadow, to_storage
from nki_lab.kernel_runtime.numerics.storage import (
    BYTES,
    NATIVE,
    SHADOW,
    fresh,
    host_values,
    kind_of,
    of_array,
    poison,
    strided,
    to_bytes,
    unit_of,
)
from nki_lab.kernel_runtime.tensor import Buffer, sbuf, shared_hbm


def tile(dtype: DType = F32, *shape: int, space: Any = sbuf) -> Buffer:
    return Buffer(0, space, dtype, shape or (4, 6))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_floats_are_shadowed_and_the_rest_keeps_its_width(dtype: DType) -> None:
    kind = kind_of(tile(dtype))
    assert kind == (SHADOW if dtype.kind == "float" else NATIVE)
    assert unit_of(kind, dtype) == (np.float32 if kind == SHADOW else dtype.storage)
    assert unit_of(BYTES, dtype) == np.uint8


@pytest.mark.parametrize("dtype", [F32, BF16, INT32, UINT8], ids=str)
def test_poison_is_nan_or_four(dtype: DType) -> None:
    for kind in (kind_of(tile(dtype)), BYTES):
        bound, _ = fresh(Pool(), tile(dtype), kind)
        poison(bound, dtype)
        values = host_values(bound, dtype, strided(bound, dtype, 0, (4, 6), (6, 1)), on_grid=True)
        assert np.isnan(values.astype(np.float64)).all() if dtype.is_float else (values == 4).all()


def test_a_pool_hands_blocks_out_aligned_and_again() -> None:
    pool = Pool()
    blocks = [pool.take(size) for size in (1, 64, 65, 4096)]
    assert all(block.memory.ctypes.data % 64 == 0 for block in blocks)
    assert [block.memory.nbytes for block in blocks] == [64, 64, 128, 4096]
    pool.give(blocks[2])
    assert pool.take(100) is blocks[2]
    assert pool.take(100) is not blocks[2]


@st.composite
def views(draw: Any) -> tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]:
    """Rows of a buffer, offset, shape and strides of a view that stays inside one partition each."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 24))
    count = draw(st.integers(1, rows))
    first = draw(st.integers(0, rows - count))
    a, b = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    inner, outer = draw(st.integers(0, 3)), draw(st.integers(0, 6))
    reach = (a - 1) * outer + (b - 1) * inner
    if reach >= columns:
        a = b = 1
        reach = 0
    start = draw(st.integers(0, columns - 1 - reach))
    return (rows, columns), first * columns + start, (count, a, b), (columns, outer, inner)


@given(views(), st.sampled_from([F32, BF16, INT32, UINT8, F16]), st.integers(0, 5))
def test_a_window_is_the_view_in_every_binding(view: Any, dtype: DType, gap: int) -> None:
    (rows, columns), offset, shape, strides = view
    buffer = Buffer(0, sbuf, dtype, (rows, columns))
    values = np.arange(rows * columns).reshape(rows, columns).astype(dtype.storage)
    places = offset + sum(
        (np.arange(n) * s).reshape([-1 if k == d else 1 for k in range(3)])
        for d, (n, s) in enumerate(zip(shape, strides, strict=True))
    )
    want = values.reshape(-1)[places]
    plain = of_array(Buffer(0, shared_hbm, dtype, (rows, columns)), values, kind_of(buffer), Pool())
    # The same rows further apart, as tiles of a slab and placed tensors have them.
    for kind in (kind_of(buffer), BYTES):
        unit = unit_of(kind, dtype)
        row = columns if kind != BYTES else buffer.partition_bytes
        pitch = row + gap * dtype.nbytes
        flat = np.zeros(7 * unit.itemsize + rows * pitch, unit)
        spaced = Bound(kind, flat, 7, row, pitch)
        whole = np.ndarray((rows, row), unit, flat, 7 * unit.itemsize, (pitch * unit.itemsize, unit.itemsize))
        source = to_shadow(values, dtype) if kind == SHADOW else values
        np.copyto(whole, source.view(unit).reshape(rows, row))
        for bound in (spaced,) if kind == BYTES else (spaced, plain):
            got = strided(bound, dtype, offset, shape, strides)
            np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
            assert np.shares_memory(got, bound.flat) or got.size == 0


@pytest.mark.parametrize("dtype", [BF16, F16, FP8_E4M3, FP8_E5M2, DTYPES["float8_e4m3fn"]], ids=str)
def test_every_pattern_of_bits_survives_the_shadow(dtype: DType) -> None:
    patterns = np.arange(2 ** (8 * dtype.nbytes)).astype(f"u{dtype.nbytes}")
    back = to_storage(to_shadow(patterns.view(dtype.storage), dtype), dtype).view(patterns.dtype)
    np.testing.assert_array_equal(back, patterns)


@pytest.mark.parametrize("dtype", [F32, TF32], ids=str)
def test_four_byte_floats_keep_their_bits(dtype: DType) -> None:
    patterns = np.array([0x7F800001, 0xFFC12345, 0x00000001, 0x80000000, 0x3F800000], np.uint32)
    back = to_storage(to_shadow(patterns.view(np.float32), dtype), dtype).view(np.uint32)
    np.testing.assert_array_equal(back, patterns)


def test_storage_of_values_equals_the_rounded_conversion() -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    for dtype in (BF16, F16, FP8_E4M3, FP8_E5M2):
        grid = to_shadow(from_shadow(values, dtype), dtype)
        np.testing.assert_array_equal(to_storage(grid, dtype), from_shadow(values, dtype))
    assert to_storage(np.zeros((0, 3), np.float32), F16).shape == (0, 3)


def test_values_off_the_grid_are_rounded_on_the_way_out() -> None:
    bound, _ = fresh(Pool(), tile(BF16, 1, 1), SHADOW)
    bound.flat[0] = 1.0 + 2.0**-8 + 2.0**-12
    assert host_values(bound, BF16, bound.flat.reshape(1, 1), on_grid=False)[0, 0] == ml_dtypes.bfloat16(1 + 2.0**-7)
    assert to_bytes(bound, tile(BF16, 1, 1), on_grid=False).flat.view(ml_dtypes.bfloat16)[0] == 1 + 2.0**-7


def test_truth_comes_back_as_booleans() -> None:
    values = np.array([[True, False]])
    bound = of_array(Buffer(0, shared_hbm, BOOL, (1, 2)), values, NATIVE, Pool())
    got = host_values(bound, BOOL, strided(bound, BOOL, 0, (1, 2), (2, 1)), on_grid=True)
    assert got.dtype == np.bool_
    np.testing.assert_array_equal(got, values)


def test_a_float32_argument_is_used_where_it_lies_and_others_are_converted() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    hbm = Buffer(0, shared_hbm, F32, (3, 4))
    assert np.shares_memory(of_array(hbm, values, SHADOW, Pool()).flat, values)
    assert not np.shares_memory(of_array(hbm, values.T.copy().T, SHADOW, Pool()).flat, values)
    short = Buffer(0, shared_hbm, BF16, (3, 4))
    assert of_array(short, values.astype(ml_dtypes.bfloat16), SHADOW, Pool()).flat.dtype == np.float32


def test_an_argument_of_tfloat32_is_rounded_when_it_arrives() -> None:
    values = np.array([[1.0 + 2.0**-11 + 2.0**-13]], np.float32)
    bound = of_array(Buffer(0, shared_hbm, TF32, (1, 1)), values, SHADOW, Pool())
    assert bound.flat[0] == 1.0 + 2.0**-10
    assert values[0, 0] == np.float32(1.0 + 2.0**-11 + 2.0**-13)
