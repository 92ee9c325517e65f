"""Selections, scans and searches: what an element keeps, the registers after a command, dtypes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from tests.isa.ops.kernels import run

Array = np.ndarray[Any, Any]

SELECT = """
def kernel(a):
    x = nl.load(a)
    z = nl.ndarray(a.shape, nl.{dtype})
    nisa.affine_select(z, [[-1, {columns}]], 1, x, {number}, nl.greater_equal)
    return z
"""


def selected(a: Array, number: str, dtype: str = "") -> Array:
    text = SELECT.format(columns=a.shape[1], number=number, dtype=dtype or a.dtype.name)
    (found,) = run(text, a)
    return found


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_selected_integers_keep_their_bits(dtype: str) -> None:
    a = np.random.default_rng(0).integers(-(2**31), 2**31, (32, 32)).astype(dtype)
    lower = np.tri(32, dtype=bool)
    np.testing.assert_array_equal(selected(a, "7.0"), np.where(lower, a, a.dtype.type(7)))


def test_selected_integers_of_another_dtype_go_through_float32() -> None:
    a = np.full((4, 4), 2**24 + 1, np.int32)
    assert selected(a, "0.0", "uint32")[3, 0] == 2**24
    assert selected(a, "0.0", "int16")[3, 0] == 2**15 - 1


@pytest.mark.parametrize(
    ("number", "want"),
    [("2.5", 2), ("3.5", 4), ("1e20", 2**31 - 1), ("-1e20", -(2**31)), ("float('nan')", 0)],
)
def test_the_other_number_is_cast_to_integers_as_every_result(number: str, want: int) -> None:
    assert selected(np.ones((2, 2), np.int32), number)[0, 1] == want


RANGE = """
def kernel(a):
    x = nl.load(a)
    low, high = nl.full((32, 1), 2.0, nl.float32), nl.full((32, 1), 5.0, nl.float32)
    z, top = nl.ndarray(a.shape, nl.float32), nl.ndarray((32, 1), nl.float32)
    nisa.range_select(z, x, nl.greater_equal, nl.less, low, high)
    nisa.range_select(z, x, nl.greater_equal, nl.less, low, high, reduce_cmd=nisa.reduce_cmd.{command})
    nisa.tensor_scalar_reduce(
        x, x, nl.multiply, 0.0, nl.maximum, top, reduce_cmd=nisa.reduce_cmd.reduce
    )
    return z, top
"""


@pytest.mark.parametrize("command", ["reset_reduce", "reduce", "reset", "idle"])
def test_range_select_takes_every_command_that_needs_no_start(command: str) -> None:
    a = np.arange(32 * 8, dtype=np.float32).reshape(32, 8) + 1
    z, top = run(RANGE.format(command=command), a)
    inside = (np.arange(8) >= 2) & (np.arange(8) < 5)
    np.testing.assert_array_equal(z, np.where(inside, a, np.float32(-3.4028235e38)))
    want = {"reset": np.zeros(32), "idle": np.full(32, np.nan)}.get(command, a[:, 4])
    np.testing.assert_array_equal(top[:, 0], want)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int16"])
def test_a_scan_starts_from_a_tile_of_any_dtype(dtype: str) -> None:
    text = f"""
def kernel(a):
    x, start = nl.load(a), nl.ndarray((4, 1), nl.{dtype})
    nisa.memset(start, 3)
    z = nl.ndarray(a.shape, nl.float32)
    nisa.tensor_tensor_scan(z, x, x, start, nl.multiply, nl.add)
    return z
"""
    a = np.full((4, 3), 2, np.float32)
    (found,) = run(text, a)
    np.testing.assert_array_equal(found, np.tile(np.array([8, 18, 38]), (4, 1)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_select_reduce_takes_a_column_of_any_dtype(dtype: str) -> None:
    text = f"""
def kernel(a, choose):
    x, mask, other = nl.load(a), nl.load(choose), nl.ndarray((4, 1), nl.{dtype})
    nisa.memset(other, -2)
    z = nl.ndarray(a.shape, nl.float32)
    nisa.select_reduce(z, mask, x, other)
    return z
"""
    a, choose = np.arange(12, dtype=np.float32).reshape(4, 3), np.eye(4, 3, dtype=np.uint8)
    (found,) = run(text, a, choose)
    np.testing.assert_array_equal(found, np.where(choose, a, -2))


def verdict(call: str, dtype: str = "float32", target: str = "trn2") -> str:
    """The code with which a call on a tile `f` is refused; empty where it is accepted."""
    try:
        run(
            f"def kernel(a):\n    f = nl.zeros((128, 512), nl.{dtype})\n    {call}\n",
            np.zeros((1, 1), np.float32),
            target=target,
        )
    except NkiError as error:
        return error.diagnostics[0].code
    return ""


@pytest.mark.parametrize(
    ("dtype", "code"),
    [
        ("float32", ""), ("bfloat16", ""), ("float16", ""), ("float8_e4m3", ""), ("float8_e5m2", ""), ("uint8", ""),
        ("uint16", ""), ("int8", ""), ("int16", ""), ("int32", "NKI202"), ("uint32", "NKI202"), ("tfloat32", "NKI202"),
        ("bool_", "NKI202"),
    ],
)  # fmt: skip
def test_a_running_reduction_reads_and_writes_the_documented_dtypes(dtype: str, code: str) -> None:
    assert (
        verdict("nisa.tensor_scalar_cumulative(nl.zeros(f.shape, nl.float32), f, nl.add, nl.add, 1.0)", dtype) == code
    )
    assert (
        verdict("nisa.tensor_scalar_cumulative(f, nl.zeros(f.shape, nl.float32), nl.add, nl.add, 1.0)", dtype) == code
    )


@pytest.mark.parametrize(
    ("shape", "code"), [((1, 2, 512), ""), ((1, 1024), ""), ((1, 512, 2), "NKI203"), ((1, 512), "NKI203")]
)
def test_bounds_of_segments_are_all_starts_and_then_all_ends(shape: tuple[int, ...], code: str) -> None:
    assert verdict(f"nisa.sequence_bounds(nl.ndarray({shape}, nl.float32), f[0:1])") == code


@pytest.mark.parametrize(("shape", "code"), [((128, 8), ""), ((128, 2, 4), "NKI205"), ((128, 1, 8), "NKI205")])
def test_the_eight_results_of_a_search_are_two_dimensional(shape: tuple[int, ...], code: str) -> None:
    assert verdict(f"nisa.max8(nl.ndarray({shape}, nl.float32), f)") == code
    assert verdict(f"nisa.nc_find_index8(nl.ndarray({shape}, nl.uint32), f, f[:, 0:8])") == code
