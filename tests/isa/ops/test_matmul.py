"""nc_matmul and nc_transpose: shapes, accumulation in PSUM, and the limits of each generation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.isa.ops.kernels import refused, run

Array = np.ndarray[Any, Any]


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def close(got: Array, want: Array) -> bool:
    return bool(np.allclose(got, want, rtol=1e-4, atol=1e-4))


TEXT = """
def kernel(a, b):
    x = nl.ndarray(a.shape, a.dtype)
    y = nl.ndarray(b.shape, b.dtype)
    nisa.dma_copy(x, a)
    nisa.dma_copy(y, b)
    acc = nl.ndarray({shape}, nl.float32, buffer=nl.psum)
    {calls}
    return acc
"""


def multiply(a: Array, b: Array, *calls: str, shape: tuple[int, ...] = (), **more: Any) -> Array:
    size = shape or (int(np.prod(a.shape[1:])), int(np.prod(b.shape[1:])))
    (found,) = run(TEXT.format(shape=size, calls="\n    ".join(calls or ("nisa.nc_matmul(acc, x, y)",))), a, b, **more)
    return found


def test_it_multiplies_the_transposed_stationary_tile() -> None:
    a, b = normal(128, 64), normal(128, 512)
    assert close(multiply(a, b), a.T @ b)


def test_more_free_dimensions_are_flattened() -> None:
    # NKI 0.4 and 0.5 fixed zero tails and wrong orders of such operands.
    a, b = normal(32, 4, 8), normal(32, 3, 5, 2)
    assert close(multiply(a, b), a.reshape(32, 32).T @ b.reshape(32, 30))
    got = multiply(a, b, shape=(32, 5, 6))
    assert close(got.reshape(32, 30), a.reshape(32, 32).T @ b.reshape(32, 30))


@pytest.mark.parametrize(
    ("modes", "factor"),
    [
        (("None", "None"), 2),
        (("False", "True"), 2),
        (("None", "False"), 1),
        (("True", "False"), 1),
        (("False", "None"), 2),
    ],
)
def test_accumulation_modes(modes: tuple[str, str], factor: int) -> None:
    a, b = normal(16, 8), normal(16, 12)
    calls = [f"nisa.nc_matmul(acc, x, y, accumulate={mode})" for mode in modes]
    assert close(multiply(a, b, *calls), factor * (a.T @ b))


def test_where_products_overlap_they_add_and_elsewhere_they_overwrite() -> None:
    a, b = normal(16, 8), normal(16, 12)
    calls = (
        "nisa.memset(acc, 100.0)",
        "nisa.nc_matmul(acc[:, 0:8], x, y[:, 0:8])",
        "nisa.nc_matmul(acc[:, 4:12], x, y[:, 0:8])",
    )
    got = multiply(a, b, *calls, shape=(8, 12))
    product = a.T @ b[:, 0:8]
    want = np.concatenate((product[:, 0:4], product[:, 4:8] + product[:, 0:4], product[:, 4:8]), axis=1)
    assert close(got, want)


def test_overlap_is_told_element_by_element_in_any_layout() -> None:
    a, b = normal(16, 8), normal(16, 12)
    calls = (
        "grid = acc.reshape((8, 3, 4))",
        "nisa.nc_matmul(grid[:, :, 1:3], x, y[:, 0:6])",
        "nisa.nc_matmul(grid, x, y)",
    )
    got = multiply(a, b, *calls, shape=(8, 12)).reshape(8, 3, 4)
    want = (a.T @ b).reshape(8, 3, 4)
    want[:, :, 1:3] += (a.T @ b[:, 0:6]).reshape(8, 3, 2)
    assert close(got, want)


def test_other_writers_do_not_count_as_a_first_product() -> None:
    a, b = normal(16, 8), normal(16, 12)
    calls = ("nisa.memset(acc, 7.0)", "nisa.nc_matmul(acc, x, y)")
    assert close(multiply(a, b, *calls), a.T @ b)
    calls = ("nisa.memset(acc, 7.0)", "nisa.nc_matmul(acc, x, y, accumulate=True)")
    assert close(multiply(a, b, *calls), a.T @ b + 7)


def test_double_rows_sum_both_halves() -> None:
    kind = ml_dtypes.float8_e4m3
    a, b = normal(32, 2, 16, dtype=kind), normal(32, 2, 24, dtype=kind)
    for mode in ("nisa.matmul_perf_mode.double_row", "'double_row'"):
        got = multiply(a, b, f"nisa.nc_matmul(acc, x, y, perf_mode={mode})", shape=(16, 24), target="trn2")
        wide = [side.astype(np.float32).reshape(64, -1) for side in (a, b)]
        assert close(got, wide[0].T @ wide[1])


def test_sums_are_float32_for_narrow_operands() -> None:
    a = np.full((128, 1), 0.1, ml_dtypes.bfloat16)
    exact = 128 * float(a[0, 0]) ** 2
    assert multiply(a, a)[0, 0] == pytest.approx(exact, rel=1e-6)


def test_a_narrow_destination_is_rounded_at_each_addition_on_v4() -> None:
    text = """
def kernel(a, b):
    x = nl.ndarray((1, 1), nl.bfloat16)
    y = nl.ndarray((1, 1), nl.bfloat16)
    nisa.dma_copy(x, a)
    nisa.dma_copy(y, b)
    acc = nl.ndarray((1, 1), nl.bfloat16, buffer=nl.psum)
    nisa.nc_matmul(acc, x, x, accumulate=False)
    nisa.nc_matmul(acc, x, y, accumulate=True)
    nisa.nc_matmul(acc, x, y, accumulate=True)
    return acc
"""
    one, half = np.ones((1, 1), ml_dtypes.bfloat16), np.full((1, 1), 2.0**-9, ml_dtypes.bfloat16)
    (got,) = run(text, one, half, target="trn3")
    assert got[0, 0] == 1.0


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_transpose_mode_moves_bits(target: str) -> None:
    text = """
def kernel(a, b):
    x = nl.ndarray((16, 8), nl.bfloat16)
    eye = nl.ndarray((16, 16), nl.bfloat16)
    nisa.dma_copy(x, a)
    nisa.dma_copy(eye, b)
    turned = nl.ndarray((8, 16), nl.bfloat16, buffer=nl.psum)
    nisa.nc_matmul(turned, x, eye, is_transpose=True)
    return turned
"""
    a = normal(16, 8, dtype=ml_dtypes.bfloat16)
    a[3, 2], a[4, 2] = np.nan, np.inf
    (got,) = run(text, a, np.eye(16, dtype=ml_dtypes.bfloat16), target=target)
    np.testing.assert_array_equal(got.view(np.uint16), np.ascontiguousarray(a.T).view(np.uint16))


def transposed(a: Array, engine: str, space: str, target: str) -> Array:
    shape = (int(np.prod(a.shape[1:])), a.shape[0])
    text = f"""
def kernel(a):
    x = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(x, a)
    z = nl.ndarray({shape}, a.dtype, buffer=nl.{space})
    nisa.nc_transpose(z, x, engine=nisa.engine.{engine})
    return z
"""
    (found,) = run(text, a, target=target)
    return found


def test_transposes_keep_bits_but_on_the_first_tensor_engine() -> None:
    a = normal(32, 16)
    a[3, 5] = np.nan
    for target in ("trn1", "trn2", "trn3"):
        np.testing.assert_array_equal(transposed(a, "vector", "sbuf", target), a.T)
        got = transposed(a, "tensor", "psum", target)
        if target == "trn1":
            assert np.isnan(got[5]).all()
            np.testing.assert_array_equal(np.delete(got, 5, axis=0), np.delete(a.T, 5, axis=0))
        else:
            np.testing.assert_array_equal(got, a.T)


def test_integers_are_transposed_exactly() -> None:
    a = np.arange(2**30, 2**30 + 512, dtype=np.int32).reshape(16, 8, 4)
    np.testing.assert_array_equal(transposed(a, "tensor", "psum", "trn2"), a.reshape(16, 32).T)


def test_a_vector_transpose_in_place_is_a_transpose() -> None:
    text = """
def kernel(a):
    x = nl.ndarray((32, 32), nl.float32)
    nisa.dma_copy(x, a)
    nisa.nc_transpose(x, x)
    return x
"""
    a = normal(32, 32)
    (got,) = run(text, a)
    np.testing.assert_array_equal(got, a.T)


def psum(rows: int, columns: int, dtype: str = "float32") -> str:
    return f"nl.ndarray(({rows}, {columns}), nl.{dtype}, buffer=nl.psum)"


def tile(rows: int, columns: int, dtype: str = "bfloat16") -> str:
    return f"nl.ndarray(({rows}, {columns}), nl.{dtype})"


LIMITS = [
    (f"nc_matmul({psum(128, 512)}, {tile(128, 128)}, {tile(128, 512)})", "trn1", ""),
    (f"nc_matmul({psum(129, 512)}, {tile(128, 129)}, {tile(128, 512)})", "trn2", "NKI212"),
    (f"nc_matmul({psum(128, 513)}, {tile(128, 128)}, {tile(128, 513)})", "trn2", "NKI213"),
    (f"nc_matmul({psum(128, 512)}, {tile(129, 128)}, {tile(129, 512)})", "trn2", "NKI211"),
    (f"nc_matmul({psum(128, 4096)}, {tile(128, 128)}, {tile(128, 4096)})", "trn3", ""),
    (f"nc_matmul({psum(128, 8192, 'bfloat16')}, {tile(128, 128)}, {tile(128, 8192)})", "trn3", ""),
    (f"nc_matmul({psum(128, 4096)}, {tile(128, 128)}, {tile(128, 4097)})", "trn3", "NKI213"),
    (f"nc_matmul({psum(128, 8192, 'bfloat16')}, {tile(128, 128)}, {tile(128, 8193)})", "trn3", "NKI213"),
    (f"nc_matmul({psum(64, 512, 'bfloat16')}, {tile(128, 64)}, {tile(128, 512)})", "trn2", "NKI202"),
    (f"nc_matmul({psum(64, 600)}[:, 88:600], {tile(128, 64)}, {tile(128, 512)})", "trn2", "NKI214"),
    (f"nc_matmul({psum(64, 600)}[:, 0:512], {tile(128, 64)}, {tile(128, 512)})", "trn2", ""),
    (f"nc_matmul({psum(64, 1024)}[:, 512:1024], {tile(128, 64)}, {tile(128, 512)})", "trn2", ""),
    (f"nc_matmul({psum(64, 600)}[:, 88:600], {tile(128, 64)}, {tile(128, 512)})", "trn3", ""),
    ("nc_matmul(p, s, m)", "trn2", ""),
    ("nc_matmul(z, s, m)", "trn2", "NKI201"),
    ("nc_matmul(p, p, m)", "trn2", "NKI201"),
    ("nc_matmul(p, s, x)", "trn2", "NKI203"),
    ("nc_matmul(p, s[0:64], x)", "trn2", "NKI207"),
    ("nc_matmul(p, i[:, 0:64], x)", "trn2", "NKI202"),
    ("nc_matmul(p[:, 0:95], s, m)", "trn2", "NKI203"),
    ("nc_matmul(p, s, m, tile_position=(0, 0))", "trn2", "NKI218"),
    ("nc_matmul(p, s, m, tile_size=(128, 64))", "trn2", "NKI218"),
    ("nc_matmul(p, s[0:32, 0:32], m[0:32], tile_position=(32, 0), tile_size=(64, 64))", "trn2", "NKI203"),
    ("nc_matmul(p[0:32], s[0:32, 0:32], m[0:32], tile_position=(32, 0), tile_size=(64, 64))", "trn2", "NKI210"),
    ("nc_matmul(p[0:32], s[0:32, 0:32], m[0:32], tile_position=(32, 32), tile_size=(32, 32))", "trn2", ""),
    ("nc_matmul(p[0:32], s[0:32, 0:32], m[0:32], tile_position=(32, 32), tile_size=(32, 32))", "trn1", "NKI210"),
    ("nc_matmul(p, s, m, tile_position=(0, 0), tile_size=(64, 64))", "trn2", "NKI210"),
    ("nc_matmul(p, s, m, perf_mode=nisa.matmul_perf_mode.double_row)", "trn2", "NKI221"),
    ("nc_matmul(p, s, m, accumulate=3)", "trn2", "NKI012"),
    (f"nc_matmul(p, {tile(128, 64, 'float8_e4m3fn')}, {tile(128, 96, 'float8_e4m3fn')})", "trn3", ""),
    (f"nc_matmul(p, {tile(128, 64, 'float8_e4m3fn')}, {tile(128, 96, 'float8_e4m3fn')})", "trn2", "NKI207"),
    (f"nc_matmul(p, {tile(128, 64, 'float8_e4m3fn')}, {tile(128, 96, 'float8_e4m3')})", "trn3", "NKI207"),
    (f"nc_transpose({psum(128, 128)}, {tile(128, 128, 'float32')})", "trn2", ""),
    (f"nc_transpose({psum(129, 128)}, {tile(128, 129, 'float32')})", "trn2", "NKI225"),
    (f"nc_transpose({tile(33, 32)}, {tile(32, 33)})", "trn2", "NKI225"),
    (f"nc_transpose({tile(32, 32)}, {tile(32, 32)}, engine=nisa.engine.tensor)", "trn2", "NKI208"),
    (f"nc_transpose({psum(32, 32)}, {tile(32, 32)})", "trn2", "NKI207"),
]


@pytest.mark.parametrize(("call", "target", "code"), LIMITS)
def test_where_the_limits_are(call: str, target: str, code: str) -> None:
    assert refused(call, target) == code
