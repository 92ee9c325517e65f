"""Grids of matmuls as one product: the same numbers as tile by tile, found where they may be and nowhere else."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nki_lab.kernel_runtime.numerics import pool, slab, slab_product
from nki_lab.kernel_runtime.numerics.executor import Executor
from tests.calls import kernel_of, traced
from tests.tolerances import ulps

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tiled:
    """A tiled matmul: its kernel over lhsT [K, M] and rhs [K, N], the sizes to try, and the slabs there are to find.

    `slabs` is the number of grids for the first size; 0 where no grid may be found.
    """

    body: str
    slabs: int
    sizes: tuple[tuple[int, int, int], ...] = ((256, 256, 128),)

    @property
    def text(self) -> str:
        lines = [
            "def kernel(lhsT, rhs):", "    K, M = lhsT.shape", "    N = rhs.shape[1]", "    TK, TM, TN = 128, 64, 32",
            "    out = nl.ndarray((M, N), nl.float32, buffer=nl.shared_hbm)",
        ]  # fmt: skip
        return "\n".join([*lines, *("    " + line for line in self.body.strip("\n").split("\n")), "    return out", ""])


K_INNER = Tiled("""
for m in range(0, M, TM):
    for n in range(0, N, TN):
        acc = nl.ndarray((TM, TN), nl.float32, buffer=nl.psum)
        for k in range(0, K, TK):
            a = nl.ndarray((TK, TM), lhsT.dtype)
            b = nl.ndarray((TK, TN), rhs.dtype)
            nisa.dma_copy(a, lhsT[k : k + TK, m : m + TM])
            nisa.dma_copy(b, rhs[k : k + TK, n : n + TN])
            nisa.nc_matmul(acc, a, b)
        tile = nl.ndarray((TM, TN), nl.float32)
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m : m + TM, n : n + TN], tile)
""", slabs=1, sizes=((256, 256, 128), (128, 64, 32), (128, 128, 32), (512, 64, 96)))  # fmt: skip

HOISTED = Tiled("""
for m in range(0, M, TM):
    left = []
    for k in range(0, K, TK):
        a = nl.ndarray((TK, TM), lhsT.dtype)
        nisa.dma_copy(a, lhsT[k : k + TK, m : m + TM])
        left.append(a)
    for n in range(0, N, TN):
        acc = nl.ndarray((TM, TN), nl.float32, buffer=nl.psum)
        for i, k in enumerate(range(0, K, TK)):
            b = nl.ndarray((TK, TN), rhs.dtype)
            nisa.dma_copy(b, rhs[k : k + TK, n : n + TN])
            nisa.nc_matmul(acc, left[i], b, accumulate=i > 0)
        tile = nl.ndarray((TM, TN), nl.float32)
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m : m + TM, n : n + TN], tile)
""", slabs=1)  # fmt: skip

RESIDENT = Tiled("""
left = nl.ndarray((TK, K // TK, M), lhsT.dtype)
right = nl.ndarray((TK, K // TK, N), rhs.dtype)
for k in range(K // TK):
    nisa.dma_copy(left[:, k, :], lhsT[k * TK : (k + 1) * TK, :])
    nisa.dma_copy(right[:, k, :], rhs[k * TK : (k + 1) * TK, :])
for m in range(0, M, TM):
    for n in range(0, N, TN):
        acc = nl.ndarray((TM, TN), nl.float32, buffer=nl.psum)
        for k in range(K // TK):
            nisa.nc_matmul(acc, left[:, k, m : m + TM], right[:, k, n : n + TN])
        tile = nl.ndarray((TM, TN), nl.float32)
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m : m + TM, n : n + TN], tile)
""", slabs=1)  # fmt: skip

WIDE_ROW = Tiled("""
for m in range(0, M, TM):
    row = nl.ndarray((TM, N), nl.float32)
    sums = [nl.ndarray((TM, TN), nl.float32, buffer=nl.psum) for _ in range(0, N, TN)]
    for k in range(0, K, TK):
        a = nl.ndarray((TK, TM), lhsT.dtype)
        nisa.dma_copy(a, lhsT[k : k + TK, m : m + TM])
        for i, n in enumerate(range(0, N, TN)):
            b = nl.ndarray((TK, TN), rhs.dtype)
            nisa.dma_copy(b, rhs[k : k + TK, n : n + TN])
            nisa.nc_matmul(sums[i], a, b)
    for i, n in enumerate(range(0, N, TN)):
        nisa.tensor_copy(row[:, n : n + TN], sums[i])
    nisa.dma_copy(out[m : m + TM, :], row)
""", slabs=1)  # fmt: skip

RAGGED = Tiled("""
for m in range(0, M, TM):
    tm = min(TM, M - m)
    for n in range(0, N, TN):
        tn = min(TN, N - n)
        acc = nl.ndarray((TM, TN), nl.float32, buffer=nl.psum)
        for k in range(0, K, TK):
            tk = min(TK, K - k)
            a = nl.ndarray((TK, TM), lhsT.dtype)
            b = nl.ndarray((TK, TN), rhs.dtype)
            nisa.dma_copy(a[0:tk, 0:tm], lhsT[k : k + tk, m : m + tm])
            nisa.dma_copy(b[0:tk, 0:tn], rhs[k : k + tk, n : n + tn])
            nisa.nc_matmul(acc[0:tm, 0:tn], a[0:tk, 0:tm], b[0:tk, 0:tn])
        tile = nl.ndarray((TM, TN), nl.float32)
        nisa.tensor_copy(tile[0:tm, 0:tn], acc[0:tm, 0:tn])
        nisa.dma_copy(out[m : m + tm, n : n + tn], tile[0:tm, 0:tn])
""", slabs=1, sizes=((256, 256, 128), (130, 70, 40), (300, 65, 33), (1, 1, 1), (129, 64, 31)))  # fmt: skip

SNUG = Tiled("""
for m in range(0, M, TM):
    tm = min(TM, M - m)
    for n in range(0, N, TN):
        tn = min(TN, N - n)
        acc = nl.ndarray((tm, tn), nl.float32, buffer=nl.psum)
        for k in range(0, K, TK):
            tk = min(TK, K - k)
            a = nl.ndarray((tk, tm), lhsT.dtype)
            b = nl.ndarray((tk, tn), rhs.dtype)
            nisa.dma_copy(a, lhsT[k : k + tk, m : m + tm])
            nisa.dma_copy(b, rhs[k : k + tk, n : n + tn])
            nisa.nc_matmul(acc, a, b)
        tile = nl.ndarray((tm, tn), nl.float32)
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m : m + tm, n : n + tn], tile)
""", slabs=1, sizes=((256, 256, 128), (130, 140, 80), (300, 65, 33), (129, 200, 40)))  # fmt: skip

ONE_PSUM_TILE = Tiled("""
acc = nl.ndarray((TM, TN), nl.float32, buffer=nl.psum)
for m in range(0, M, TM):
    for n in range(0, N, TN):
        for k in range(0, K, TK):
            a = nl.ndarray((TK, TM), lhsT.dtype)
            b = nl.ndarray((TK, TN), rhs.dtype)
            nisa.dma_copy(a, lhsT[k : k + TK, m : m + TM])
            nisa.dma_copy(b, rhs[k : k + TK, n : n + TN])
            nisa.nc_matmul(acc, a, b, accumulate=k > 0)
        tile = nl.ndarray((TM, TN), nl.float32)
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m : m + TM, n : n + TN], tile)
""", slabs=0)  # fmt: skip

ZEROED = Tiled("""
for m in range(0, M, TM):
    for n in range(0, N, TN):
        acc = nl.zeros((TM, TN), nl.float32, buffer=nl.psum)
        for k in range(0, K, TK):
            a = nl.ndarray((TK, TM), lhsT.dtype)
            b = nl.ndarray((TK, TN), rhs.dtype)
            nisa.dma_copy(a, lhsT[k : k + TK, m : m + TM])
            nisa.dma_copy(b, rhs[k : k + TK, n : n + TN])
            nisa.nc_matmul(acc, a, b, accumulate=True)
        tile = nl.ndarray((TM, TN), nl.float32)
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m : m + TM, n : n + TN], tile)
""", slabs=0)  # fmt: skip

ZEROED_THEN_FIRST = Tiled(ZEROED.body.replace("accumulate=True", "accumulate=None"), slabs=0)

CLEARED_BETWEEN = Tiled("""
for m in range(0, M, TM):
    for n in range(0, N, TN):
        acc = nl.zeros((TM, TN), nl.float32, buffer=nl.psum)
        for k in range(0, K, TK):
            a = nl.ndarray((TK, TM), lhsT.dtype)
            b = nl.ndarray((TK, TN), rhs.dtype)
            nisa.dma_copy(a, lhsT[k : k + TK, m : m + TM])
            nisa.dma_copy(b, rhs[k : k + TK, n : n + TN])
            if k:
                nisa.memset(acc, 0.0)
            nisa.nc_matmul(acc, a, b)
        tile = nl.ndarray((TM, TN), nl.float32)
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m : m + TM, n : n + TN], tile)
""", slabs=0)  # fmt: skip

READ_BETWEEN = Tiled("""
seen = nl.zeros((TM, TN), nl.float32)
for m in range(0, M, TM):
    for n in range(0, N, TN):
        acc = nl.ndarray((TM, TN), nl.float32, buffer=nl.psum)
        for k in range(0, K, TK):
            a = nl.ndarray((TK, TM), lhsT.dtype)
            b = nl.ndarray((TK, TN), rhs.dtype)
            nisa.dma_copy(a, lhsT[k : k + TK, m : m + TM])
            nisa.dma_copy(b, rhs[k : k + TK, n : n + TN])
            nisa.nc_matmul(acc, a, b)
            nisa.tensor_tensor(seen, seen, acc, nl.add)
        nisa.dma_copy(out[m : m + TM, n : n + TN], seen)
""", slabs=0)  # fmt: skip

OPERAND_CHANGES = Tiled("""
a = nl.ndarray((TK, TM), lhsT.dtype)
b = nl.ndarray((TK, TN), rhs.dtype)
for m in range(0, M, TM):
    for n in range(0, N, TN):
        acc = nl.ndarray((TM, TN), nl.float32, buffer=nl.psum)
        for k in range(0, K, TK):
            nisa.dma_copy(a, lhsT[k : k + TK, m : m + TM])
            nisa.dma_copy(b, rhs[k : k + TK, n : n + TN])
            nisa.nc_matmul(acc, a, b)
        tile = nl.ndarray((TM, TN), nl.float32)
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m : m + TM, n : n + TN], tile)
""", slabs=0)  # fmt: skip

OPERAND_ALSO_READ = Tiled(K_INNER.body.replace(
    "            nisa.nc_matmul(acc, a, b)", "            nisa.tensor_scalar(b, b, nl.multiply, 2.0)\n"
    "            nisa.nc_matmul(acc, a, b)"), slabs=0)  # fmt: skip

TRANSPOSED = Tiled(K_INNER.body.replace("            nisa.nc_matmul(acc, a, b)", """
            turned = nl.ndarray((TM, TK), lhsT.dtype, buffer=nl.psum)
            nisa.nc_transpose(turned, a)
            back = nl.ndarray((TM, TK), lhsT.dtype)
            nisa.tensor_copy(back, turned)
            again = nl.ndarray((TK, TM), lhsT.dtype, buffer=nl.psum)
            nisa.nc_transpose(again, back)
            left = nl.ndarray((TK, TM), lhsT.dtype)
            nisa.tensor_copy(left, again)
            nisa.nc_matmul(acc, left, b)""".lstrip("\n")), slabs=0)  # fmt: skip

SPREAD = Tiled("""
for m in range(0, M, TM):
    for n in range(0, N, TN):
        acc = nl.ndarray((TM, TN), nl.float32, buffer=nl.psum)
        for first, step in ((0, 1), (128, 1), (256, 2), (257, 2)):
            a = nl.ndarray((TK, TM), lhsT.dtype)
            b = nl.ndarray((TK, TN), rhs.dtype)
            last = first + step * (TK - 1) + 1
            nisa.dma_copy(a, lhsT[first : last : step, m : m + TM])
            nisa.dma_copy(b, rhs[first : last : step, n : n + TN])
            nisa.nc_matmul(acc, a, b)
        tile = nl.ndarray((TM, TN), nl.float32)
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m : m + TM, n : n + TN], tile)
""", slabs=1, sizes=((512, 256, 128),))  # fmt: skip

KERNELS = {
    "k inner": K_INNER, "hoisted": HOISTED, "resident": RESIDENT, "wide row": WIDE_ROW, "ragged": RAGGED, "snug": SNUG,
    "one psum tile": ONE_PSUM_TILE, "zeroed": ZEROED, "zeroed then first": ZEROED_THEN_FIRST,
    "cleared between": CLEARED_BETWEEN, "read between": READ_BETWEEN, "operand changes": OPERAND_CHANGES,
    "operand also read": OPERAND_ALSO_READ, "transposed": TRANSPOSED, "spread": SPREAD,
}  # fmt: skip


def run(
    tiled: Tiled, left: Array, right: Array, dtype: str, order: str, *, final: bool = True
) -> tuple[Executor, Array]:
    options = {"matmul_order": order}
    program, _ = traced(kernel_of(tiled.text), [left, right], [dtype, dtype], "trn2", **options)
    executor = Executor(program, {0: left, 1: right})
    executor.run(final=final)
    return executor, executor.read(program.outputs[0])


def operands(size: tuple[int, int, int], dtype: str) -> tuple[Array, Array]:
    k, m, n = size
    rng = np.random.default_rng(sum(size))
    kind = {"bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float8_e5m2": ml_dtypes.float8_e5m2}[dtype]
    return tuple(rng.standard_normal((k, columns), np.float32).astype(kind) for columns in (m, n))  # type: ignore[return-value]


def cases() -> list[Any]:
    return [
        pytest.param(tiled, size, dtype, id=f"{name}-{size}-{dtype}")
        for name, tiled in KERNELS.items()
        for size in tiled.sizes
        for dtype in ("float32", "bfloat16")
    ]


@pytest.mark.parametrize(("tiled", "size", "dtype"), cases())
def test_slabs_give_the_tiles_sums(tiled: Tiled, size: tuple[int, int, int], dtype: str) -> None:
    left, right = operands(size, dtype)
    _, by_tile = run(tiled, left, right, dtype, "tile")
    _, in_steps = run(tiled, left, right, dtype, "tile", final=False)
    np.testing.assert_array_equal(by_tile, in_steps)
    a, b = left.astype(np.float64), right.astype(np.float64)
    # The largest partial sum of an element is at most that of the magnitudes.
    scale = np.maximum(np.abs(a).T @ np.abs(b), np.abs(by_tile))
    for order in ("slab", "free"):
        _, grouped = run(tiled, left, right, dtype, order)
        assert ulps(grouped, by_tile, scale) <= slab.ULP_BOUND


PLAIN = ("k inner", "hoisted", "resident", "wide row", "ragged", "snug", "one psum tile", "zeroed", "zeroed then first",
         "operand changes", "transposed", "spread")  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("order", ["tile", "slab", "free"])
def test_a_tiled_matmul_is_a_matmul(name: str, order: str) -> None:
    for size in KERNELS[name].sizes:
        for dtype in ("float32", "bfloat16", "float8_e5m2"):
            left, right = operands(size, dtype)
            _, got = run(KERNELS[name], left, right, dtype, order)
            a, b = left.astype(np.float64), right.astype(np.float64)
            slack = (size[0] + 2) * 2.0**-24 * (np.abs(a).T @ np.abs(b))
            assert (np.abs(got - a.T @ b) <= slack).all()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_grids_are_found_where_they_are_and_only_there(name: str, dtype: str) -> None:
    tiled = KERNELS[name]
    left, right = operands(tiled.sizes[0], dtype)
    executor, _ = run(tiled, left, right, dtype, "slab")
    assert len(executor.slabs) == tiled.slabs
    k, m, n = tiled.sizes[0]
    if tiled.slabs:
        (found,) = executor.slabs
        assert found.shape == (m, n)
        assert len(found.ops) == (m // 64) * (n // 32) * (k // 128)
        assert [level.depth for level in found.levels] == [128] * (k // 128)


@pytest.mark.parametrize("name", KERNELS)
def test_tile_order_groups_nothing(name: str) -> None:
    left, right = operands(KERNELS[name].sizes[0], "float32")
    executor, _ = run(KERNELS[name], left, right, "float32", "tile")
    assert not executor.slabs


def levels_of(*places: tuple[int, int]) -> list[slab.Level]:
    """Return levels of 128 rows whose stationary rows begin at an offset and lie a pitch apart."""
    step = slab.Submatrix(1, 0, 64)
    return [
        slab.Level(slab.Submatrix(0, offset, pitch), step._replace(offset=number * 128 * 64), 128)
        for number, (offset, pitch) in enumerate(places)
    ]


@pytest.mark.parametrize(
    ("places", "most", "depths"),
    [
        ([(number * 128 * 32, 32) for number in range(7)], slab_product.JOINED_ROWS, [384, 384, 128]),
        ([(number * 128 * 32, 32) for number in range(8)], 256, [256] * 4),
        ([(number * 128 * 32, 32) for number in range(8)], None, [1024]),
        ([(number * 128 * 32, 32) for number in range(8)], 100, [128] * 8),
        ([(0, 32), (128 * 32, 64), (3 * 128 * 32, 64)], 384, [128, 256]),  # every second row from there on
        ([(0, 32), (2 * 128 * 32, 32), (128 * 32, 32)], 384, [128, 128, 128]),
    ],
)
def test_levels_that_follow_each_other_are_one_product(
    places: list[tuple[int, int]], most: int | None, depths: list[int]
) -> None:
    levels = levels_of(*places)
    found = slab_product.joined(levels, most)
    assert [level.depth for level in found] == depths
    assert found[0].left == levels[0].left
    assert sum(depths) == 128 * len(levels)


def test_a_slab_is_no_larger_than_its_limit() -> None:
    left, right = operands((128, 512, 256), "float32")
    program, _ = traced(kernel_of(K_INNER.text), [left, right], ["float32"] * 2, "trn2", slab_bytes=4 * 64 * 256 * 2)
    executor = Executor(program, {0: left, 1: right})
    executor.run(final=True)
    assert [found.shape for found in executor.slabs] == [(128, 256)] * 4
    np.testing.assert_allclose(executor.read(program.outputs[0]), left.T @ right, rtol=1e-4, atol=1e-4)


def test_a_written_argument_is_no_operand_of_a_slab() -> None:
    text = K_INNER.text.replace(
        "    return out", "    nisa.dma_copy(lhsT[0:64, 0:32], rhs[0:64, 0:32])\n    return out"
    )
    left, right = operands((256, 256, 128), "float32")
    program, _ = traced(kernel_of(text), [left, right], ["float32"] * 2, "trn2")
    executor = Executor(program, {0: left, 1: right})
    executor.run(final=True)
    assert not executor.slabs
    np.testing.assert_allclose(executor.read(program.outputs[0]), left.T @ right, rtol=1e-4, atol=1e-4)


def test_nan_and_infinity_stay_in_their_rows() -> None:
    left, right = operands((256, 256, 128), "float32")
    left[3, 5], left[200, 70] = np.nan, np.inf
    _, by_tile = run(K_INNER, left, right, "float32", "tile")
    executor, grouped = run(K_INNER, left, right, "float32", "slab")
    assert executor.slabs
    assert np.isnan(grouped[5]).all()
    np.testing.assert_array_equal(np.isnan(grouped), np.isnan(by_tile))
    np.testing.assert_array_equal(np.isinf(grouped), np.isinf(by_tile))


@pytest.mark.parametrize("rows", [1, 128, 200, 1024])
@pytest.mark.parametrize("sizes", [(256, 256, 128), (512, 64, 96), (128, 64, 32), (256, 64, 320)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bands_leave_no_part_of_a_slab_out(
    monkeypatch: pytest.MonkeyPatch, rows: int, sizes: tuple[int, int, int], dtype: str
) -> None:
    monkeypatch.setattr(slab_product, "_BAND_ROWS", rows)
    monkeypatch.setattr(slab_product, "_BAND_BYTES", 1)
    left, right = operands(sizes, dtype)
    executor, banded = run(K_INNER, left, right, dtype, "slab")
    _, by_tile = run(K_INNER, left, right, dtype, "tile")
    for found in executor.slabs:
        covered = np.zeros(found.shape[0], int)
        for band in slab_product.bands_of(found, narrow=True):
            covered[band] += 1
        assert (covered == 1).all()
    np.testing.assert_allclose(banded, by_tile, rtol=1e-4, atol=1e-4)


def test_sums_that_are_to_be_rounded_take_little_memory() -> None:
    shape = (8192, 8192)
    found = slab.Slab(0, 128, 512, shape, [slab.Level(slab.Submatrix(0, 0, 1), slab.Submatrix(1, 0, 1), 128)], {}, [])
    bands = slab_product.bands_of(found, narrow=True)
    assert slab_product.workspace_sizes(found, bands, found.levels, operands=False, result=True) == (0, 1024 * 8192)
    assert slab_product.bands_of(found, narrow=False) == [slice(0, 8192)]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("order", ["tile", "slab", "free"])
def test_memory_that_is_foreseen_is_used(name: str, dtype: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    foreseen: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    take = pool.Pool.take_untouched

    def noted(self: pool.Pool, nbytes: int) -> pool.Block:
        taken[nbytes] += 1
        return take(self, nbytes)

    monkeypatch.setattr(pool.Pool, "foresee", lambda _self, sizes, _: foreseen.update(map(pool._rounded, sizes)))
    monkeypatch.setattr(pool.Pool, "take_untouched", noted)
    left, right = operands(KERNELS[name].sizes[0], dtype)
    program, _ = traced(kernel_of(KERNELS[name].text), [left, right], [dtype, dtype], "trn2", matmul_order=order)
    executor = Executor(program, {0: left, 1: right})
    executor.foresee()
    executor.run(final=True)
    del foreseen[pool._rounded(0)]  # products without conversions need no memory for them
    assert foreseen <= taken
    assert foreseen[pool._rounded(program.outputs[0]._buffer.nbytes)]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("order", ["slab", "free"])
@pytest.mark.parametrize("result", ["float32", "bfloat16"])
def test_operands_that_were_widened_before_the_run_give_the_same_bits(
    name: str, order: str, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "processor_count", lambda: 2)
    monkeypatch.setattr(pool, "_LARGE", 1)
    left, right = operands(KERNELS[name].sizes[0], "bfloat16")
    text = KERNELS[name].text.replace("nl.float32, buffer=nl.shared_hbm", f"nl.{result}, buffer=nl.shared_hbm")
    program, _ = traced(kernel_of(text), [left, right], ["bfloat16"] * 2, "trn2", matmul_order=order)

    def values(*, ahead: bool) -> tuple[Array, set[int]]:
        executor = Executor(program, {0: left, 1: right})
        widened: set[int] = set()
        if ahead:
            executor.foresee()
            while executor._pool._mapped is not None and executor._pool._mapped._waiting:
                time.sleep(0.001)
        take = executor._pool.take_widened

        def noted(number: int) -> pool.Block | None:
            block = take(number)
            if block is not None:
                widened.add(number)
            return block

        monkeypatch.setattr(executor._pool, "take_widened", noted)
        executor.run(final=True)
        assert not executor._widened
        if ahead:
            assert widened == executor._narrow
        return executor.read(program.outputs[0]), widened

    (plain, none), (ahead, some) = values(ahead=False), values(ahead=True)
    assert not none
    assert some == {0, 1} or name not in ("k inner", "hoisted")
    assert plain.tobytes() == ahead.tobytes()


UNNEEDED = """
def kernel(lhsT, rhs, unread):
    scratch = nl.ndarray((256, 1024), nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(lhsT[0:128, 0:64])
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""


def test_nothing_is_foreseen_for_tensors_that_no_instruction_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    foreseen: list[int] = []
    monkeypatch.setattr(pool.Pool, "foresee", lambda _self, sizes, _: foreseen.extend(sizes))
    arrays = [np.ones((128, 64), ml_dtypes.float8_e5m2), *[np.ones((256, 512), ml_dtypes.bfloat16)] * 2]
    program, _ = traced(kernel_of(UNNEEDED), arrays, ["float8_e5m2", "bfloat16", "bfloat16"], "trn2")
    Executor(program, dict(enumerate(arrays))).foresee()
    assert foreseen == [4 * 128 * 64, 4 * 128 * 64]
