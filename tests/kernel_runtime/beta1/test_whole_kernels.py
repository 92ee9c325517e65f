"""Whole kernels in the styles of 2024 and 2025 against NumPy: masks at edges, blocks, helpers, grids, run-time rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from neuronxcc import nki
from neuronxcc.nki.language import par_dim

P = 128


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def softmax_of(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def layernorm(x: Any, gamma: Any, beta: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(P)[:, None], nl.arange(x.shape[1])[None, :]
    i_one = nl.arange(1)[:, None]
    scale = nl.load(gamma.reshape((1, gamma.shape[0]))[i_one, i_f]).broadcast_to((P, gamma.shape[0]))
    shift = nl.load(beta.reshape((1, beta.shape[0]))[i_one, i_f]).broadcast_to((P, beta.shape[0]))
    for i in nl.affine_range(math.ceil(x.shape[0] / P)):
        inside = x.shape[0] > i * P + i_p
        tile = nl.load(x[i * P + i_p, i_f], mask=inside)
        centred = nl.subtract(tile, nl.mean(tile, axis=[1], mask=inside), mask=inside)
        inverse = nl.rsqrt(nl.mean(nl.square(centred, mask=inside), axis=[1], mask=inside) + 1e-5, mask=inside)
        normed = nl.multiply(nl.multiply(centred, inverse, mask=inside), scale, mask=inside)
        nl.store(out[i * P + i_p, i_f], value=nl.add(normed, shift, mask=inside), mask=inside)
    return out


def test_layernorm_of_rows_that_fill_no_tile(execute: Any) -> None:
    x, gamma, beta = normal(200, 96), normal(96), normal(97)[:96]
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * gamma + beta
    np.testing.assert_allclose(execute(layernorm, x, gamma, beta).outputs, want, rtol=1e-4, atol=1e-4)


def online_softmax(x: Any, block: int) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    top = nl.full((par_dim(P), 1), fill_value=nl.fp32.min, dtype=nl.float32)
    total = nl.zeros((par_dim(P), 1), dtype=nl.float32)
    for j in nl.sequential_range(x.shape[1] // block):
        tile = nl.load(x[:, nl.ds(j * block, block)])
        higher = nl.maximum(top, nl.max(tile, axis=1))
        total[...] = total * nl.exp(top - higher) + nl.sum(nl.exp(tile - higher), axis=1)
        top[...] = higher
    for j in nl.affine_range(x.shape[1] // block):
        tile = nl.load(x[:, nl.ds(j * block, block)])
        nl.store(out[:, nl.ds(j * block, block)], nl.exp(tile - top) / total)
    return out


def test_softmax_in_one_pass_and_a_half(execute: Any) -> None:
    x = normal(P, 512) * 5
    np.testing.assert_allclose(execute(online_softmax, x, 128).outputs, softmax_of(x.astype(np.float64)), rtol=1e-4)


def rope(x: Any, cos: Any, sin: Any) -> Any:
    rows, width = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_h = nl.arange(rows)[:, None], nl.arange(width // 2)[None, :]
    tile, c, s = nl.load(x), nl.load(cos), nl.load(sin)
    turned = nl.ndarray((par_dim(rows), width), dtype=x.dtype)
    turned[i_p, 2 * i_h] = tile[i_p, 2 * i_h] * c[i_p, i_h] - tile[i_p, 2 * i_h + 1] * s[i_p, i_h]
    turned[i_p, 2 * i_h + 1] = tile[i_p, 2 * i_h + 1] * c[i_p, i_h] + tile[i_p, 2 * i_h] * s[i_p, i_h]
    nl.store(out, turned)
    return out


def test_rope_turns_neighbouring_columns(execute: Any) -> None:
    x, angle = normal(P, 64), normal(P, 32)
    pairs = (x[:, ::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
    want = np.stack([pairs.real, pairs.imag], axis=2).reshape(x.shape)
    np.testing.assert_allclose(execute(rope, x, np.cos(angle), np.sin(angle)).outputs, want, rtol=1e-4, atol=1e-5)


def pooled_convolution(x: Any, weight: Any, bias: Any, pool: int) -> Any:
    """Convolve rows, add the bias and take the maximum of windows, in the way of course work."""
    channels, height, width = x.shape
    taps, _, features = weight.shape
    columns = width - taps + 1
    out = nl.ndarray((features, height // pool, columns // pool), dtype=x.dtype, buffer=nl.shared_hbm)
    column = nl.ndarray((par_dim(features),), dtype=bias.dtype, buffer=nl.sbuf)
    column = nl.load(bias[0:features])
    weights = nl.ndarray((channels, taps, features), dtype=weight.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(taps):
        weights[:, k, :] = nl.load(weight[k])
    for h in nl.affine_range(height // pool):
        rows = nl.ndarray((features, pool, columns), dtype=x.dtype, buffer=nl.sbuf)
        for p in nl.sequential_range(pool):
            line = nl.load(x[:, h * pool + p])
            total = nl.zeros((features, columns), dtype=nl.float32, buffer=nl.psum)
            for k in nl.sequential_range(taps):
                total += nisa.nc_matmul(weights[:, k, :], line[:, k : k + columns])
            rows[:, p, :] = nisa.tensor_copy(total)
        windows = rows.reshape((features, pool, columns // pool, pool))
        best = nisa.tensor_reduce(nl.max, windows, axis=(1, 3))
        nl.store(out[:, h], value=nisa.tensor_tensor(best, column, op=nl.add))
    return out


def test_a_convolution_pools_with_axes_that_are_not_the_last(execute: Any) -> None:
    x, weight, bias = normal(64, 4, 18), normal(3, 64, 32), normal(32)
    full = sum(np.einsum("cf,chw->fhw", weight[k].astype(np.float64), x[:, :, k : k + 16]) for k in range(3))
    want = full.reshape(32, 2, 2, 8, 2).max((2, 4)) + bias[:, None, None]
    np.testing.assert_allclose(execute(pooled_convolution, x, weight, bias, 2).outputs, want, rtol=1e-4, atol=1e-4)


def transposed_edges(x: Any) -> Any:
    rows, columns = x.shape
    out = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(P)[:, None], nl.arange(P)[None, :]
    for i in nl.affine_range(math.ceil(rows / P)):
        for j in nl.affine_range(math.ceil(columns / P)):
            inside = (i * P + i_p < rows) & ~(j * P + i_f >= columns)
            tile = nl.load(x[i * P + i_p, j * P + i_f], mask=inside)
            turned = nisa.nc_transpose(tile[i_p, i_f], mask=inside)
            inside = (columns > j * P + i_p) & (rows - 1 >= i * P + i_f)
            nl.store(out[j * P + i_p, i * P + i_f], nl.copy(turned[i_p, i_f], mask=inside), mask=inside)
    return out


def test_a_transpose_is_masked_on_both_sides(execute: Any) -> None:
    x = normal(200, 150)
    np.testing.assert_array_equal(execute(transposed_edges, x).outputs, x.T)


@dataclass(frozen=True)
class Tiling:
    columns: int = 256
    causal: bool = True


@nki.jit(mode="trace")
def attend(out: Any, top: Any, total: Any, q: Any, k: Any, values: Any, place: tuple[int, int], tiling: Tiling) -> None:
    """Fold a block of keys into the running softmax; blocks above the diagonal are masked by their place alone."""
    i, j = place
    width = tiling.columns
    i_q, i_k = nl.arange(P)[:, None], nl.arange(width)[None, :]
    forward = i * P + P > j * width if tiling.causal else True
    products = nl.zeros((par_dim(P), width), dtype=nl.float32, buffer=nl.psum)
    products[i_q, i_k] += nl.matmul(q, k, transpose_x=True, mask=forward)
    scores = nl.ndarray((par_dim(P), width), dtype=nl.float32)
    scores[i_q, i_k] = nl.copy(products[i_q, i_k], mask=forward)
    if tiling.causal:
        scores[i_q, i_k] = nisa.affine_select(
            pred=i * P + i_q >= j * width + i_k, on_true_tile=scores[i_q, i_k], on_false_value=-9984.0, mask=forward
        )
    former = nl.copy(top[:, 0], mask=forward)
    higher = nl.maximum(former, nisa.tensor_reduce(np.max, scores[i_q, i_k], axis=(1,), mask=forward), mask=forward)
    top[:, 0] = nl.copy(higher, mask=forward)
    shrink = nisa.activation(np.exp, higher, bias=former, scale=-1.0, mask=forward)
    powers, sums = nl.ndarray((par_dim(P), width), dtype=nl.float32), nl.ndarray((par_dim(P), 1), dtype=nl.float32)
    powers[i_q, i_k] = nisa.activation_reduce(
        np.exp, scores[i_q, i_k], bias=nl.multiply(higher, -1.0, mask=forward), reduce_op=nl.add,
        reduce_res=sums[:, 0], mask=forward,
    )  # fmt: skip
    total[:, 0] = nl.add(nl.multiply(total[:, 0], shrink, mask=forward), sums[:, 0], mask=forward)
    share = nl.zeros((par_dim(P), out.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for t in nl.affine_range(width // P):
        turned = nl.copy(nisa.nc_transpose(powers[:, nl.ds(t * P, P)], mask=forward), mask=forward)
        value = nl.load(values[nl.ds(j * width + t * P, P), :], mask=forward)
        share[:, :] += nl.matmul(turned, value, transpose_x=True, mask=forward)
    out[:, :] = nl.add(nl.multiply(out, shrink, mask=forward), share, mask=forward)


def attention(q: Any, k: Any, v: Any, tiling: Tiling) -> Any:
    _, heads, depth, length = q.shape
    out = nl.ndarray((1, heads, length, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    batch, head = nl.program_id(axis=0), nl.program_id(axis=1)
    for i in nl.sequential_range(length // P):
        query = (1 / np.sqrt(depth)) * nl.load(q[batch, head, :, nl.ds(i * P, P)])
        part = nl.zeros((par_dim(P), depth), dtype=nl.float32)
        top = nl.full((par_dim(P), 1), -20000.0, dtype=nl.float32)
        total = nl.zeros((par_dim(P), 1), dtype=nl.float32)
        for j in nl.sequential_range(length // tiling.columns):
            key = nl.load(k[batch, head, :, nl.ds(j * tiling.columns, tiling.columns)])
            attend(part, top, total, query, key, v[batch, head], (i, j), tiling)
        nl.store(out[batch, head, nl.ds(i * P, P), :], part * nl.reciprocal(total))
    return out


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_a_running_softmax(execute: Any, causal: bool) -> None:
    q, k, v = normal(1, 2, 32, 512), normal(1, 3, 32, 512)[:, :2], normal(1, 2, 512, 32)
    scores = np.einsum("bhdq,bhdk->bhqk", q.astype(np.float64), k) / np.sqrt(32)
    scores = np.where(np.tril(np.ones((512, 512), bool)), scores, -np.inf) if causal else scores
    found = execute(attention, q, k, v, Tiling(causal=causal), grid=(1, 2)).outputs
    np.testing.assert_allclose(found, softmax_of(scores) @ v, rtol=1e-3, atol=1e-4)


def selective_scan(delta: Any, u: Any, decay: Any, inputs: Any, outputs: Any) -> Any:
    channels, length = delta.shape
    out = nl.ndarray((channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((par_dim(channels), length), dtype=nl.float32)
    step, source, rate = nl.load(delta), nl.load(u), nl.load(decay)
    for s in nl.affine_range(decay.shape[1]):
        kept = nisa.activation(op=nl.exp, data=step, scale=rate[:, s])
        fed = step * source * nl.load(inputs[s : s + 1, :]).broadcast_to((channels, length))
        state = nl.ndarray((par_dim(channels), length), dtype=nl.float32)
        for j in nl.static_range(length // 32):
            part = nl.ds(j * 32, 32)
            before = 0 if j == 0 else state[:, j * 32 - 1]
            state[:, part] = nisa.tensor_tensor_scan(kept[:, part], fed[:, part], before, op0=np.multiply, op1=np.add)
        total[...] += nl.multiply(state, nl.load(outputs[s : s + 1, :]))
    nl.store(out, total)
    return out


def test_a_selective_scan_carries_its_state_between_chunks(execute: Any) -> None:
    delta, u, decay = np.abs(normal(64, 96)) / 10, normal(64, 96), -np.abs(normal(64, 4))
    inputs, outputs = normal(4, 96), normal(5, 96)[:4]
    state, want = np.zeros((64, 4)), np.zeros((64, 96))
    for t in range(96):
        state = np.exp(delta[:, t, None] * decay) * state + (delta * u)[:, t, None] * inputs[:, t]
        want[:, t] = state @ outputs[:, t]
    found = execute(selective_scan, delta, u, decay, inputs, outputs).outputs
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


def embedding(ids: Any, table: Any) -> Any:
    (count,), (_, width) = ids.shape, table.shape
    out = nl.ndarray((count, width), dtype=table.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range((count + P - 1) // P):
        i_p, i_f, j_p = i * P + nl.arange(P)[:, None], nl.arange(width)[None, :], nl.arange(P)[:, None]
        rows = nl.load(ids[i_p], mask=i_p < count)
        nl.store(out[i_p, i_f], nl.load(table[rows[j_p, 0], i_f], mask=i_p < count), mask=i_p < count)
    return out


def test_rows_are_gathered_by_masked_numbers(execute: Any) -> None:
    ids, table = np.random.default_rng(0).integers(0, 50, 200).astype(np.int32), normal(50, 32)
    np.testing.assert_array_equal(execute(embedding, ids, table).outputs, table[ids])


def paged(blocks: Any, cache: Any, size: int) -> Any:
    """Take rows of a cache whose blocks are listed: the number of the block is a quotient, the row in it the rest."""
    rows = blocks.shape[1] * size
    out = nl.ndarray((rows, cache.shape[1]), dtype=cache.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(rows)[:, None], nl.arange(cache.shape[1])[None, :]
    place = nisa.iota(i_p, dtype=nl.int32)
    table = nl.load(blocks[0:1, :]).broadcast_to((rows, blocks.shape[1]))
    block = nl.gather_flattened(table, nl.copy(place // size, dtype=nl.uint32))
    row = block * size + place % size
    nl.store(out[i_p, i_f], nl.load(cache[row[i_p, 0], i_f]))
    return out


def test_rows_of_blocks_are_found_by_quotient_and_rest(execute: Any) -> None:
    cache, blocks = normal(128, 16), np.array([[5, 0, 7, 2]], np.int32)
    want = cache.reshape(8, 16, 16)[blocks[0]].reshape(64, 16)
    np.testing.assert_array_equal(execute(paged, blocks, cache, 16).outputs, want)


def cross_entropy(logits: Any, labels: Any) -> Any:
    rows, words = logits.shape
    out = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile, label = nl.load(logits), nl.load(labels)
    top = nl.max(tile, axis=-1, keepdims=True)
    total = nl.log(nl.sum(nl.exp(tile - top), axis=-1, keepdims=True)) + top
    column = nl.broadcast_to(nisa.iota(nl.arange(words)[None, :], dtype=nl.int32), shape=(rows, words))
    nl.store(out, total - nl.sum(nl.where(nl.equal(column, label), tile, 0.0), axis=1))
    return out


def test_cross_entropy_picks_by_comparison(execute: Any) -> None:
    logits = normal(64, 50)
    labels = np.random.default_rng(0).integers(0, 50, (64, 1)).astype(np.int32)
    want = -np.log(np.take_along_axis(softmax_of(logits.astype(np.float64)), labels, axis=1))
    np.testing.assert_allclose(execute(cross_entropy, logits, labels).outputs, want, rtol=1e-4, atol=1e-5)


def batchnorm(x: Any, gamma: Any, beta: Any) -> Any:
    images, channels, height, width = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_c, i_n = nl.arange(channels)[:, None, None], nl.arange(images)[None, :, None]
    i_s = nl.arange(height * width)[None, None, :]
    tile = nl.load(x.reshape((images, channels, height * width))[i_n, i_c, i_s])
    scale = nl.load(gamma) * nl.rsqrt(nl.var(tile, axis=[1, 2]) + 1e-5)
    shift = nl.load(beta) - nl.mean(tile, axis=[1, 2]) * scale
    normed = nisa.tensor_scalar(tile, np.multiply, scale, op1=np.add, operand1=shift)
    nl.store(out.reshape((images, channels, height * width))[i_n, i_c, i_s], normed)
    return out


def test_batchnorm_walks_images_beside_channels(execute: Any) -> None:
    x, gamma, beta = normal(2, 32, 4, 4), normal(32), normal(33)[:32]
    wide = x.astype(np.float64)
    centred = wide - wide.mean((0, 2, 3), keepdims=True)
    want = centred / np.sqrt((centred**2).mean((0, 2, 3), keepdims=True) + 1e-5)
    want = want * gamma[:, None, None] + beta[:, None, None]
    np.testing.assert_allclose(execute(batchnorm, x, gamma, beta).outputs, want, rtol=1e-4, atol=1e-4)
