"""tensor_copy, memset and iota: casts, constants and affine patterns."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.isa.ops.kernels import refused, run

Array = np.ndarray[Any, Any]

COPY = """
def kernel(a):
    x = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(x, a)
    z = nl.ndarray(a.shape, nl.{dtype})
    nisa.tensor_copy(z, x)
    return z
"""


def cast(a: Array, dtype: str) -> Array:
    (found,) = run(COPY.format(dtype=dtype), a, target="trn3")
    return found


def test_equal_dtypes_are_copied_bit_by_bit() -> None:
    for dtype in (np.int32, np.uint32):
        a = np.array([[2**24 + 1, 2**31 - 1, 5]]).astype(dtype)
        np.testing.assert_array_equal(cast(a, np.dtype(dtype).name), a)
    payload = np.array([[0x7F81, 0xFFC1, 0x7FC0, 0x8000]], np.uint16).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(cast(payload, "bfloat16").view(np.uint16), payload.view(np.uint16))


def test_other_dtypes_go_through_float32() -> None:
    a = np.array([[2**24 + 1, -(2**31), 2**31 - 1]], np.int32)
    assert cast(a, "uint32")[0].tolist() == [2**24, 0, 2**31]
    assert cast(a, "int16")[0].tolist() == [32767, -32768, 32767]
    assert cast(a, "bool_")[0].tolist() == [True, True, True]


def test_the_least_float32_becomes_infinity_in_narrow_floats() -> None:
    a = np.array([[-3.4028235e38]], np.float32)
    for dtype in ("bfloat16", "float16", "float8_e4m3", "float8_e5m2"):
        assert cast(a, dtype)[0, 0] == -np.inf
    assert np.isnan(cast(a, "float8_e4m3fn")[0, 0])
    assert cast(a, "tfloat32")[0, 0] == -np.inf


def test_integers_moved_as_floats_survive() -> None:
    # Every pattern of 16 bits through tiles that are bfloat16 and nothing else.
    text = """
def kernel(a):
    x = nl.ndarray((128, 512), nl.int16)
    nisa.dma_copy(x, a)
    y = nl.ndarray((128, 512), nl.bfloat16)
    nisa.tensor_copy(y, x.view(nl.bfloat16))
    z = nl.ndarray((128, 512), nl.bfloat16)
    nisa.tensor_copy(z, y)
    back = nl.ndarray((128, 512), nl.int16)
    nisa.tensor_copy(back.view(nl.bfloat16), z)
    return back
"""
    a = np.arange(2**16).astype(np.uint16).view(np.int16).reshape(128, 512)
    for dtype in ("bfloat16", "float16"):
        (got,) = run(text.replace("bfloat16", dtype), a)
        np.testing.assert_array_equal(got, a)


FILL = """
def kernel(a):
    z = nl.ndarray((2, 3), nl.{dtype})
    nisa.memset(z, {value})
    return z
"""


@pytest.mark.parametrize(
    ("dtype", "value", "want"),
    [
        ("float32", "0.1", np.float32(0.1)), ("bfloat16", "0.1", ml_dtypes.bfloat16(0.1)), ("float16", "70000.0", np.inf),
        ("int32", "-7", -7), ("uint8", "255", 255), ("bool_", "300", True), ("bool_", "0.5", True), ("bool_", "0", False),
        ("float8_e4m3", "float('-inf')", -np.inf), ("float32", "3", 3.0), ("int8", "4.0", 4),
    ],
)  # fmt: skip
def test_a_constant_is_cast_to_the_tiles_dtype(dtype: str, value: str, want: Any) -> None:
    (got,) = run(FILL.format(dtype=dtype, value=value), np.zeros((1, 1), np.float32))
    assert (got == want).all()


IOTA = """
def kernel(a):
    z = nl.ndarray({shape}, nl.{dtype})
    nisa.iota(z, {call})
    return z
"""


def pattern(call: str, shape: tuple[int, ...], dtype: str = "int32") -> Array:
    (found,) = run(IOTA.format(shape=shape, dtype=dtype, call=call), np.zeros((1, 1), np.float32))
    return found


def test_iota_counts_partitions_and_free_elements() -> None:
    got = pattern("[[10, 2], [1, 3]], 100, 1000", (3, 2, 3))
    want = [[[100 + 1000 * p + 10 * i + j for j in range(3)] for i in range(2)] for p in range(3)]
    np.testing.assert_array_equal(got, want)


def test_iota_casts_from_int32() -> None:
    np.testing.assert_array_equal(pattern("[[100, 5]], -100", (1, 5), "uint8")[0], [0, 0, 100, 200, 255])
    np.testing.assert_array_equal(pattern("[[1, 3]], 2**24", (1, 3), "float32")[0], [2**24, 2**24, 2**24 + 2])
    np.testing.assert_array_equal(pattern("[[1, 3]], -1", (1, 3), "bool_")[0], [True, False, True])


def test_iota_starts_at_the_first_partition_of_its_view() -> None:
    text = """
def kernel(a):
    z = nl.zeros((64, 2), nl.int32)
    nisa.iota(z[32:64], [[1, 2]], 5, 10)
    return z
"""
    (got,) = run(text, np.zeros((1, 1), np.float32))
    assert got[31].tolist() == [0, 0]
    assert got[32].tolist() == [5, 6]
    assert got[63].tolist() == [315, 316]


CASES = [
    ("tensor_copy(z, p)", "trn2", ""),
    ("tensor_copy(h, x)", "trn2", "NKI201"),
    ("tensor_copy(z, x, engine=nisa.engine.scalar)", "trn1", "NKI221"),
    ("tensor_copy(z, x, engine=nisa.engine.scalar)", "trn2", ""),
    ("tensor_copy(z, p, engine=nisa.engine.gpsimd)", "trn2", "NKI208"),
    ("tensor_copy(z, x, engine=nisa.engine.tensor)", "trn2", "NKI208"),
    ("tensor_copy(z, x[0:32])", "trn2", "NKI203"),
    ("memset(i, 2)", "trn2", ""),
    ("memset(i, 2.5)", "trn2", "NKI224"),
    ("memset(u, 256)", "trn2", "NKI224"),
    ("memset(u, -1)", "trn2", "NKI224"),
    ("memset(i, float('nan'))", "trn2", "NKI224"),
    ("memset(p, 0.0, engine=nisa.engine.gpsimd)", "trn2", "NKI208"),
    ("memset(h, 0.0)", "trn2", "NKI201"),
    ("memset(nl.ndarray((2, 2), nl.float4_e2m1fn_x4), 0)", "trn3", ""),
    ("memset(nl.ndarray((2, 2), nl.float4_e2m1fn_x4), 1)", "trn3", "NKI224"),
    ("tensor_copy(nl.ndarray((64, 96), nl.float8_e5m2_x4), x)", "trn3", "NKI202"),
    ("tensor_copy(nl.ndarray((64, 96), nl.float8_e5m2_x4), nl.ndarray((64, 96), nl.float8_e5m2_x4))", "trn3", ""),
    ("tensor_copy(nl.ndarray((64, 96), nl.float8_e5m2_x4), nl.ndarray((64, 96), nl.float8_e5m2_x4))", "trn2", "NKI221"),
    ("iota(i, [[1, 96]])", "trn2", ""),
    ("iota(i, [[1, 95]])", "trn2", "NKI216"),
    ("iota(i, [[1, 2], [1, 2], [1, 2], [1, 3], [1, 4]])", "trn2", "NKI216"),
    ("iota(i, [])", "trn2", "NKI216"),
    ("iota(i, [[2**31, 96]])", "trn2", "NKI216"),
    ("iota(i, [[1, 96]], 2**31)", "trn2", "NKI216"),
    ("iota(i, [[1, 96]], 0.5)", "trn2", "NKI012"),
    ("iota(i, [[1, 96]], 0, 1.5)", "trn2", "NKI216"),
    ("iota(i, [[0.5, 96]])", "trn2", "NKI012"),
    ("iota(p, [[1, 96]])", "trn2", "NKI201"),
]


@pytest.mark.parametrize(("call", "target", "code"), CASES)
def test_what_they_take(call: str, target: str, code: str) -> None:
    assert refused(call, target) == code
