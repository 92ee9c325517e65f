"""Reductions, normalisations and matrix products of Beta 1 against NumPy."""

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


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).uniform(0.5, 2, size=shape).astype(np.float32)


def apply(execute: Any, function: Any, *arrays: Any) -> Any:
    def kernel(*tensors: Any) -> Any:
        result = function(*[nl.load(tensor) for tensor in tensors])
        out = nl.ndarray(result.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    return execute(kernel, *arrays).outputs


@settings(max_examples=scaled(40))
@given(
    st.sampled_from(["sum", "prod", "max", "min", "mean", "var"]),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.data(),
)
def test_any_free_axes_are_reduced(execute: Any, name: str, free: list[int], data: Any) -> None:
    source = random(6, *free)
    axes = data.draw(st.sets(st.integers(1, len(free)), min_size=1).map(sorted))
    keepdims = name != "var" and data.draw(st.booleans())
    given_axis = axes[0] if len(axes) == 1 and data.draw(st.booleans()) else axes
    extra = {"keepdims": True} if keepdims else {}
    found = apply(execute, lambda t: getattr(nl, name)(t, axis=given_axis, **extra), source)
    want = getattr(np, name)(source.astype(np.float64), axis=tuple(axes), keepdims=keepdims)
    assert found.shape == (want.shape if want.ndim > 1 else (*want.shape, 1))
    np.testing.assert_allclose(found, want.reshape(found.shape), rtol=2e-5, atol=1e-6)


@settings(max_examples=scaled(30))
@given(st.sampled_from(["add", "maximum", "minimum"]), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_the_instruction_reduces_any_free_axes(execute: Any, name: str, free: list[int], data: Any) -> None:
    source = random(6, *free)
    axes = data.draw(st.lists(st.integers(1, len(free)), min_size=1, unique=True))
    keepdims = data.draw(st.booleans())
    given_axis = tuple(axis - len(free) - 1 for axis in axes) if data.draw(st.booleans()) else axes
    found = apply(execute, lambda t: nisa.tensor_reduce(getattr(np, name), t, given_axis, keepdims=keepdims), source)
    want = getattr(np, name).reduce(source, axis=tuple(axes), keepdims=keepdims)
    np.testing.assert_allclose(found, want.reshape(found.shape), rtol=2e-5)
    assert found.shape == (want.shape if want.ndim > 1 else (*want.shape, 1))


def test_a_mask_cuts_what_is_reduced_ahead_of_the_last_axis(execute: Any) -> None:
    source = random(6, 5, 3)

    def kernel(tensor: Any) -> Any:
        i_p, i_x, i_y = nl.arange(6)[:, None, None], nl.arange(5)[None, :, None], nl.arange(3)[None, None, :]
        tile = nl.load(tensor)
        sums = nisa.tensor_reduce(np.add, tile[i_p, i_x, i_y], axis=[1], mask=i_x < 4)
        out = nl.ndarray((6, 3), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, sums)
        return out

    np.testing.assert_allclose(execute(kernel, source).outputs, source[:, :4].sum(1), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, [0, 2], 3, [1, 1], []])
def test_the_instruction_reduces_free_axes_only(execute: Any, axis: Any) -> None:
    with pytest.raises(NkiError, match="NKI217 tensor_reduce: axis"):
        apply(execute, lambda t: nisa.tensor_reduce(np.add, t, axis), random(4, 3, 2))


def test_negative_axes_count_from_the_end(execute: Any) -> None:
    source = random(4, 3, 5)
    np.testing.assert_allclose(apply(execute, lambda t: nl.max(t, axis=-1), source), source.max(-1))


def test_all_is_true_where_nothing_is_zero(execute: Any) -> None:
    source = random(6, 5)
    source[2, 3] = 0
    found = apply(execute, lambda t: nl.all(t, axis=1), source)
    np.testing.assert_array_equal(found[:, 0], (source != 0).all(1).astype(np.float32))


@pytest.mark.parametrize("axis", [0, [0, 1], 2, [1, 1], []])
def test_partitions_and_absent_axes_are_not_reduced(execute: Any, axis: Any) -> None:
    with pytest.raises(NkiError, match=r"NKI217 nl\.sum: axis"):
        apply(execute, lambda t: nl.sum(t, axis=axis), random(4, 3))


@pytest.mark.parametrize("keyword", ["dtype", "compute_dtype"])
def test_softmax_rows_sum_to_one(execute: Any, keyword: str) -> None:
    source = random(8, 12) * 20
    found = apply(execute, lambda t: nl.softmax(t, axis=1, **{keyword: nl.float32}), source)
    wide = np.exp(source.astype(np.float64) - source.max(1, keepdims=True))
    np.testing.assert_allclose(found, wide / wide.sum(1, keepdims=True), rtol=1e-5)


def test_rms_norm_is_its_formula(execute: Any) -> None:
    source, weight = random(8, 12), random(1, 12)
    found = apply(execute, lambda t, w: nl.rms_norm(t, w, axis=1, n=12, epsilon=1e-3), source, weight)
    wide = source.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-3) * weight
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_layernorm_from_its_parts(execute: Any) -> None:
    def layernorm(t: Any, scale: Any, shift: Any) -> Any:
        centred = t - nl.mean(t, axis=1)
        inverse = nl.rsqrt(nl.var(t, axis=[1]) + 1e-5)
        return nl.add(nl.multiply(centred * inverse, scale), shift)

    source, scale, shift = random(8, 32), random(1, 32), random(1, 32) - 1
    wide = source.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * scale + shift
    np.testing.assert_allclose(apply(execute, layernorm, source, scale, shift), want, rtol=1e-4, atol=1e-4)


def test_transpose_exchanges_partitions_and_columns(execute: Any) -> None:
    source = random(7, 11)
    np.testing.assert_array_equal(apply(execute, nl.transpose, source), source.T)
    with pytest.raises(NkiError, match="NKI225"):
        apply(execute, nl.transpose, random(4, 3, 2))


@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_is_a_product(execute: Any, transposed: bool) -> None:
    left, right = random(*((9, 7) if transposed else (7, 9))), random(9, 12)
    want = (left.T if transposed else left).astype(np.float64) @ right
    found = apply(execute, lambda x, y: nl.matmul(x, y, transpose_x=transposed), left, right)
    np.testing.assert_allclose(found, want, rtol=1e-5)


@settings(max_examples=10)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.sampled_from(["slices", "indices", "blocks"]))
def test_tiled_products_of_every_style_match_float64(execute: Any, k: int, m: int, n: int, style: str) -> None:
    left = np.random.default_rng(k).normal(size=(k * 128, m * 128)).astype(np.float32)
    right = np.random.default_rng(n).normal(size=(k * 128, n * 512)).astype(np.float32)
    kernel = {"slices": by_slices, "indices": by_indices, "blocks": by_blocks}[style]
    done = execute(kernel, left, right)
    want = left.T.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(done.outputs, want, rtol=1e-4, atol=1e-3)
    assert {item.code for item in done.diagnostics} <= {"NKI333", "NKI336"}  # block dimensions; a helper's output


def by_slices(lhsT: Any, rhs: Any) -> Any:
    K, M = lhsT.shape
    _, N = rhs.shape
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 128):
        for n in nl.affine_range(N // 512):
            acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                a = nl.ndarray((128, 128), dtype=lhsT.dtype, buffer=nl.sbuf)
                b = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                a[...] = nl.load(lhsT[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                b[...] = nl.load(rhs[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                acc += nl.matmul(a[...], b[...], transpose_x=True)
            nl.store(out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], value=nl.copy(acc, dtype=out.dtype))
    return out


def by_indices(lhsT: Any, rhs: Any) -> Any:
    K, M = lhsT.shape
    _, N = rhs.shape
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    i_k, i_m, i_n = nl.arange(128)[:, None], nl.arange(128)[None, :], nl.arange(512)[None, :]
    for m in nl.affine_range(M // 128):
        for n in nl.affine_range(N // 512):
            acc = nl.zeros((nl.par_dim(128), 512), nl.float32, buffer=nl.psum)
            for k in nl.sequential_range(K // 128):
                a = nl.load(lhsT[k * 128 + i_k, m * 128 + i_m])
                b = nl.load(rhs[k * 128 + i_k, n * 512 + i_n])
                acc[i_k, i_n] += nl.matmul(a, b, transpose_x=True)
            nl.store(out[m * 128 + i_k, n * 512 + i_n], value=acc)
    return out


def by_blocks(lhsT: Any, rhs: Any) -> Any:
    K, M = lhsT.shape
    _, N = rhs.shape
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray((K // 128, nl.par_dim(128), M), dtype=lhsT.dtype)
    b = nl.ndarray((K // 128, nl.par_dim(128), N), dtype=rhs.dtype)
    total = nl.zeros((M // 128, nl.par_dim(128), N), dtype=nl.float32)
    for k in nl.affine_range(K // 128):
        a[k] = nl.load(lhsT[k * 128 : (k + 1) * 128, 0:M])
        b[k, :, :] = nl.load(rhs[k * 128 : (k + 1) * 128, 0:N])
        for m in nl.affine_range(M // 128):
            for n in nl.affine_range(N // 512):
                product = nl.matmul(a[k, :, nl.ds(m * 128, 128)], b[k, :, nl.ds(n * 512, 512)], transpose_x=True)
                total[m, :, n * 512 : (n + 1) * 512] = nl.loop_reduce(product, op=np.add, loop_indices=[k])
    for m in nl.affine_range(M // 128):
        nl.store(out[m * 128 : (m + 1) * 128, 0:N], value=total[m])
    return out
