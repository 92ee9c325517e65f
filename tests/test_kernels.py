"""Whole kernels against float64 references, on the three targets and in both dialects."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import neuronxcc.nki.isa as old_isa
import neuronxcc.nki.language as old
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from neuronxcc import nki as old_nki

import nki_lab
from nki_lab.testing import assert_close

TARGETS = ("trn1", "trn2", "trn3")
KINDS = (np.float32, ml_dtypes.bfloat16)


@nki.jit
def matmul(lhs_t, rhs):
    depth, rows = lhs_t.shape
    _, columns = rhs.shape
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(rows // 128):
        for n in nl.affine_range(columns // 512):
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(depth // 128):
                left = nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf)
                right = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=lhs_t[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                nisa.dma_copy(dst=right, src=rhs[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                nisa.nc_matmul(dst=acc, stationary=left, moving=right)
            tile = nl.ndarray((128, 512), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=acc)
            nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], src=tile)
    return out


@nki.jit
def softmax(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, rows - start)
        tile = nl.ndarray((size, columns), dtype=x.dtype)
        nisa.dma_copy(dst=tile, src=x[start : start + size, :])
        top = nl.ndarray((size, 1), dtype=nl.float32)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
        power = nl.ndarray((size, columns), dtype=nl.float32)
        total = nl.ndarray((size, 1), dtype=nl.float32)
        nisa.activation(dst=power, op=nl.exp, data=tile, bias=top, reduce_op=nl.add, reduce_res=total,
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)  # fmt: skip
        inverse = nl.ndarray((size, 1), dtype=nl.float32)
        nisa.reciprocal(dst=inverse, data=total)
        result = nl.ndarray((size, columns), dtype=x.dtype)
        nisa.tensor_scalar(dst=result, data=power, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[start : start + size, :], src=result)
    return out


@nki.jit
def layer_norm(x, gamma, beta):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scale = nl.load(gamma)
    shift = nl.load(beta)
    for start in range(0, rows, 128):
        tile = nl.load(x[start : start + 128, :], dtype=nl.float32)
        mean = nl.mean(tile, axis=1)
        centred = nl.ndarray((128, columns), nl.float32)
        nisa.tensor_scalar(dst=centred, data=tile, op0=nl.subtract, operand0=mean)
        variance = nl.mean(nl.multiply(centred, centred), axis=1)
        deviation = nl.ndarray((128, 1), nl.float32)
        epsilon = nl.full((128, 1), 1e-5, dtype=nl.float32)
        nisa.activation(dst=deviation, op=nl.rsqrt, data=variance, bias=epsilon)
        normal = nl.ndarray((128, columns), nl.float32)
        nisa.scalar_tensor_tensor(dst=normal, data=centred, op0=nl.multiply, operand0=deviation, op1=nl.multiply,
                                  operand1=scale)  # fmt: skip
        nl.store(out[start : start + 128, :], nl.add(normal, shift, dtype=x.dtype))
    return out


@nki.jit
def transpose(x):
    rows, columns = x.shape
    out = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(0, rows, 128):
        for j in range(0, columns, 128):
            tile = nl.load(x[i : i + 128, j : j + 128])
            turned = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=tile)
            nl.store(out[j : j + 128, i : i + 128], nl.copy(turned))
    return out


@old_nki.jit(mode="simulation")
def old_matmul(lhs_t, rhs):
    depth, rows = lhs_t.shape
    _, columns = rhs.shape
    out = old.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=old.shared_hbm)
    i_k = old.arange(128)[:, None]
    i_m = old.arange(128)[None, :]
    i_n = old.arange(512)[None, :]
    i_p = old.arange(128)[:, None]
    for m in old.affine_range(rows // 128):
        for n in old.affine_range(columns // 512):
            acc = old.zeros((128, 512), old.float32, buffer=old.psum)
            for k in old.affine_range(depth // 128):
                left = old.load(lhs_t[k * 128 + i_k, m * 128 + i_m])
                right = old.load(rhs[k * 128 + i_k, n * 512 + i_n])
                acc += old_isa.nc_matmul(left, right)
            old.store(out[m * 128 + i_p, n * 512 + i_n], value=old.copy(acc, dtype=out.dtype))
    return out


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def wide(array: Any) -> Any:
    return array.astype(np.float64)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["slab", "tile", "free"])
def test_tiled_matmul_of_1024_agrees_with_float64(rng: Any, target: str, kind: Any, order: Any) -> None:
    a, b = (rng.standard_normal((1024, 1024)).astype(kind) for _ in range(2))
    run = nki_lab.run(matmul, a, b, target=target, matmul_order=order)
    assert not [item for item in run.diagnostics if item.severity != "information"]
    assert_close(run.outputs[0], wide(a).T @ wide(b))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_tiled_matmul_of_4096_agrees_with_float64(rng: Any, kind: Any) -> None:
    a, b = (rng.standard_normal((4096, 4096)).astype(kind) for _ in range(2))
    run = nki_lab.run(matmul, a, b, target="trn2")
    assert_close(run.outputs[0], wide(a).T @ wide(b))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [*KINDS, np.float16])
def test_row_softmax_agrees_with_float64(rng: Any, target: str, kind: Any) -> None:
    x = (4 * rng.standard_normal((300, 777))).astype(kind)
    run = nki_lab.run(softmax, x, target=target)
    power = np.exp(wide(x) - wide(x).max(axis=1, keepdims=True))
    assert_close(run.outputs[0], power / power.sum(axis=1, keepdims=True))
    assert not [item for item in run.diagnostics if item.severity != "information"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_layer_norm_agrees_with_float64(rng: Any, target: str, kind: Any) -> None:
    x = (3 * rng.standard_normal((256, 640)) + 1).astype(kind)
    gamma, beta = (np.broadcast_to(rng.standard_normal(640), (128, 640)).astype(np.float32) for _ in range(2))
    run = nki_lab.run(layer_norm, x, gamma, beta, target=target)
    normal = (wide(x) - wide(x).mean(1, keepdims=True)) / np.sqrt(wide(x).var(1, keepdims=True) + 1e-5)
    assert_close(run.outputs[0], normal * wide(gamma[:1]) + wide(beta[:1]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [*KINDS, np.float16, np.int32])
def test_tensor_engine_transpose_is_exact(rng: Any, target: str, kind: Any) -> None:
    x = (100 * rng.standard_normal((256, 384))).astype(kind)
    run = nki_lab.run(transpose, x, target=target)
    np.testing.assert_array_equal(run.outputs[0], x.T)


def test_a_nan_stays_where_it_is_in_a_transpose_from_neuroncore_v3_on(rng: Any) -> None:
    x = rng.standard_normal((128, 128)).astype(np.float32)
    x[3, 5] = np.nan
    np.testing.assert_array_equal(nki_lab.run(transpose, x, target="trn2").outputs[0], x.T)
    spread = np.isnan(nki_lab.run(transpose, x, target="trn1").outputs[0])
    assert spread[5].all()
    assert spread.sum() == 128


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_legacy_matmul_agrees_with_float64(rng: Any, target: str, kind: Any) -> None:
    a, b = (rng.standard_normal((512, 512)).astype(kind) for _ in range(2))
    run = nki_lab.run(old_matmul, a, b, target=target)
    assert_close(run.outputs[0], wide(a).T @ wide(b))


def test_tile_order_gives_the_same_bits_every_time(rng: Any) -> None:
    a, b = (rng.standard_normal((512, 512)).astype(np.float32) for _ in range(2))
    first, second = (nki_lab.run(matmul, a, b, target="trn2", matmul_order="tile").outputs[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()
