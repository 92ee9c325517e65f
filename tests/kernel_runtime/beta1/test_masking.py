"""Masks restrict instructions to a box: ragged edges, shapes of results, what is left alone."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from tests.scale import scaled

SIZES = st.integers(1, 300)


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def tiled(compute: Any) -> Any:
    """A kernel that runs `compute(tile, mask)` over 128 x 64 tiles of any size, masked at the edges."""

    def kernel(a: Any) -> Any:
        rows, columns = a.shape
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(-(-rows // 128)):
            for j in nl.affine_range(-(-columns // 64)):
                i_p = i * 128 + nl.arange(128)[:, None]
                i_f = j * 64 + nl.arange(64)[None, :]
                inside = (i_p < rows) & (i_f < columns)
                tile = nl.load(a[i_p, i_f], mask=inside)
                assert tile.shape == (128, 64)
                nl.store(out[i_p, i_f], value=compute(tile, inside), mask=inside)
        return out

    return kernel


@settings(max_examples=scaled(25))
@given(SIZES, SIZES)
def test_ragged_sizes_are_covered_by_masked_tiles(execute: Any, rows: int, columns: int) -> None:
    source = random(rows, columns)
    done = execute(tiled(lambda tile, mask: nl.square(tile, mask=mask)), source)
    np.testing.assert_array_equal(done.outputs, source * source)
    assert not done.diagnostics


@settings(max_examples=scaled(15))
@given(st.integers(1, 64), st.integers(1, 64))
def test_unmasked_work_on_partly_loaded_tiles_is_a_warning_at_most(execute: Any, rows: int, columns: int) -> None:
    source = random(rows, columns)
    done = execute(tiled(lambda tile, mask: tile * 2.0 + 1.0), source)
    np.testing.assert_array_equal(done.outputs, source * 2 + 1)
    assert {item.outcome for item in done.diagnostics} <= {"advice"}


@settings(max_examples=scaled(20))
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_lower_and_upper_bounds_of_a_result(execute: Any, p0: int, p1: int, f0: int, f1: int) -> None:
    """The masked part of a new tile is written where the operand is read, whatever the bounds."""
    source = random(12, 12)

    def kernel(a: Any) -> Any:
        i_p, i_f = nl.mgrid[0:12, 0:12]
        tile = nl.zeros((12, 12), a.dtype)
        mask = (i_p >= p0 - 1) & (i_p < p1) & (i_f > f0 - 2) & (i_f <= f1 - 1)
        tile[i_p, i_f] = nl.add(nl.load(a), 1.0, mask=mask)
        out = nl.ndarray((12, 12), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    want = np.zeros_like(source)
    want[p0 - 1 : p1, f0 - 1 : f1] = source[p0 - 1 : p1, f0 - 1 : f1] + 1
    np.testing.assert_array_equal(execute(kernel, source).outputs, want)


def test_a_masked_reduction_leaves_out_what_is_masked(execute: Any) -> None:
    source = random(16, 10)

    def kernel(a: Any) -> Any:
        i_p, i_f = nl.arange(16)[:, None], nl.arange(10)[None, :]
        tile = nl.load(a)
        total = nl.zeros((16, 1), a.dtype)
        total[...] = nisa.tensor_reduce(np.add, tile[i_p, i_f], axis=[1], mask=(i_f < 7) & (i_p < 9))
        out = nl.ndarray((16, 1), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, total)
        return out

    want = np.zeros((16, 1), np.float32)
    want[:9, 0] = source[:9, :7].sum(1)
    np.testing.assert_allclose(execute(kernel, source).outputs, want, rtol=1e-5)


def test_a_mask_over_a_matmul_bounds_the_operands_that_walk_it(execute: Any) -> None:
    left, right = random(64, 32), random(64, 48)

    def kernel(a: Any, b: Any) -> Any:
        i_k, i_m, i_n = nl.arange(64)[:, None], nl.arange(32)[None, :], nl.arange(48)[None, :]
        x, y = nl.load(a), nl.load(b)
        acc = nl.zeros((32, 48), nl.float32, buffer=nl.psum)
        acc[...] = nisa.nc_matmul(x[i_k, i_m], y[i_k, i_n], mask=(i_k < 50) & (i_m < 20) & (i_n < 40))
        out = nl.ndarray((32, 48), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros((32, 48), nl.float32))
        i_r, i_c = nl.mgrid[0:32, 0:48]
        nl.store(out[i_r, i_c], acc[i_r, i_c], mask=(i_r < 20) & (i_c < 40))
        return out

    want = np.zeros((32, 48), np.float32)
    want[:20, :40] = left[:50, :20].T @ right[:50, :40]
    np.testing.assert_allclose(execute(kernel, left, right).outputs, want, rtol=1e-5, atol=1e-5)


def test_operands_without_the_index_are_bounded_by_their_shared_letter(execute: Any) -> None:
    source = random(8, 6)

    def kernel(a: Any) -> Any:
        i_p, i_f = nl.arange(8)[:, None], nl.arange(6)[None, :]
        whole = nl.load(a)
        both = nl.zeros((8, 6), a.dtype)
        both[...] = nisa.tensor_tensor(whole[i_p, i_f], whole, np.add, mask=i_p < 3)
        out = nl.ndarray((8, 6), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, both)
        return out

    want = np.where(np.arange(8)[:, None] < 3, source * 2, 0)
    np.testing.assert_array_equal(execute(kernel, source).outputs, want)


def test_an_empty_mask_issues_nothing_and_keeps_the_target(execute: Any, names_of: Any) -> None:
    source = random(4, 4)

    def kernel(a: Any, n: int) -> Any:
        i_p = n + nl.arange(4)[:, None]
        tile = nl.load(a)
        tile[...] = nl.exp(tile, mask=i_p < 4)
        tile[...] = nl.multiply(tile, 0.0, mask=n < 4)
        tile += nl.exp(tile, mask=False)
        out = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        nl.store(out[i_p, nl.arange(4)[None, :]], tile, mask=i_p < 4)
        nl.store(out, 0.0, mask=n < 4)
        return out

    done = execute(kernel, source, n=4)
    np.testing.assert_array_equal(done.outputs, source)
    assert names_of(done) == ["dma_copy", "dma_copy"]


def test_a_number_is_stored_where_the_mask_holds(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        i_p, i_f = nl.mgrid[0:8, 0:8]
        out = nl.ndarray((5, 3), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out[i_p, i_f], 7, mask=(i_p < 5) & (i_f < 3))
        return out

    np.testing.assert_array_equal(execute(kernel, random(1, 1)).outputs, np.full((5, 3), 7, np.float32))


def test_dma_copy_between_masked_views(execute: Any) -> None:
    source = random(8, 8)

    def kernel(a: Any) -> Any:
        i_p, i_f = nl.mgrid[0:8, 0:8]
        out = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros((8, 8), a.dtype))
        nisa.dma_copy(dst=out[i_p, i_f], src=a[i_p, i_f + 2], mask=i_f < 6)
        nisa.dma_copy(dst=out[i_p, i_f], src=a[i_p, i_f + 99], mask=i_f < 0)
        return out

    want = np.zeros_like(source)
    want[:, :6] = source[:, 2:]
    np.testing.assert_array_equal(execute(kernel, source).outputs, want)


def test_an_index_outside_the_tensor_needs_the_mask_that_excludes_it(execute: Any) -> None:
    def kernel(a: Any, limit: int) -> Any:
        i_p, i_f = nl.mgrid[0:8, 0:4]
        out = nl.ndarray((8, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros((8, 4), a.dtype))
        nl.store(out[i_p, i_f], nl.load(a[i_p, i_f], mask=i_p < limit), mask=i_p < 5)
        return out

    source = random(5, 4)
    np.testing.assert_array_equal(execute(kernel, source, limit=5).outputs[:5], source)
    with pytest.raises(NkiError, match="NKI303 indices 0 to 5 of dimension 0, which has 5 elements"):
        execute(kernel, source, limit=6)


def test_a_mask_of_other_indices_goes_by_position(execute: Any) -> None:
    source = random(8, 4)

    def kernel(a: Any) -> Any:
        tile = nl.load(a[0:8, 0:4], mask=nl.arange(8)[:, None] < 3)
        out = nl.ndarray((3, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile[0:3, :])
        return out

    done = execute(kernel, source)
    np.testing.assert_array_equal(done.outputs, source[:3])
    assert not done.diagnostics


def test_a_mask_of_another_size_is_refused(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        nl.load(a, mask=nl.arange(9)[:, None] < 3)

    with pytest.raises(NkiError, match="NKI203 the mask bounds an index of 9 positions"):
        execute(kernel, random(8, 4))
