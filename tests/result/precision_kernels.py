"""Kernels that keep their precision, each with one place where a coarse step can be planted.

Every kernel takes `low`, a dtype or a flag: the dtype of one tile, or whether the numerically bad variant is taken. The
instruction that loses precision then stands on a line that ends with `# planted`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import neuronxcc.nki as beta1
import neuronxcc.nki.isa as beta1_isa
import neuronxcc.nki.language as beta1_nl
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

F32, BF16, F16, FP8 = nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3


def result(x: Any, shape: Any = None) -> Any:
    return nl.ndarray(x.shape if shape is None else shape, x.dtype, buffer=nl.shared_hbm)


def tile(shape: Any, dtype: Any = F32, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype, buffer=buffer)


@nki.jit
def matmul_by_k(a, b, low):
    out = result(a, (64, 128))
    acc = tile((64, 128), buffer=nl.psum)
    for k in range(4):
        left, right = nl.load(a[k]), nl.load(b[k])
        kept = tile(left.shape, low if k == 2 else a.dtype)
        nisa.tensor_copy(dst=kept, src=left)  # planted
        wide = tile(left.shape, a.dtype)
        nisa.tensor_copy(dst=wide, src=kept)
        nisa.nc_matmul(dst=acc, stationary=wide, moving=right)
    kept = tile((64, 128), a.dtype)
    nisa.tensor_copy(dst=kept, src=acc)
    nl.store(out, kept)
    return out


@nki.jit
def matmul_tiles(a, b, low):
    out = result(a, (128, 256))
    for m in range(2):
        for n in range(2):
            left = nl.load(a[:, m * 64 : m * 64 + 64])
            moving = tile((128, 128), low if (m, n) == (1, 0) else a.dtype)
            nisa.dma_copy(dst=moving, src=b[:, n * 128 : n * 128 + 128])  # planted
            wide = tile((128, 128), a.dtype)
            nisa.activation(dst=wide, op=nl.copy, data=moving)
            acc = tile((64, 128), buffer=nl.psum)
            nisa.nc_matmul(dst=acc, stationary=left, moving=wide)
            done = tile((64, 128), a.dtype)
            nisa.tensor_copy(dst=done, src=acc)
            nisa.dma_copy(dst=out[m * 64 : m * 64 + 64, n * 128 : n * 128 + 128], src=done)
    return out


@nki.jit
def softmax(x, low):
    out = result(x)
    data = nl.load(x, dtype=F32)
    top, total = tile((128, 1)), tile((128, 1))
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=data, axis=1, negate=True)
    powers = tile(x.shape, low)
    nisa.activation(dst=powers, op=nl.exp, data=data, bias=top)  # planted
    nisa.tensor_reduce(dst=total, op=nl.add, data=powers, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=data, data=powers, op0=nl.multiply, operand0=total)
    nl.store(out, nl.copy(data, dtype=x.dtype))
    return out


@nki.jit
def exp_of_large(x, low):
    """Logits of some size: an exponential needs their absolute error small."""
    out = result(x)
    data = nl.load(x)
    logits = tile(x.shape, low)
    nisa.tensor_scalar(dst=logits, data=data, op0=nl.multiply, operand0=4.0)  # planted
    powers = tile(x.shape)
    nisa.activation(dst=powers, op=nl.exp, data=logits)
    nl.store(out, powers)
    return out


@nki.jit
def variance(x, low):
    """The mean of squares less the square of the mean, or the mean of centred squares."""
    out = result(x, (128, 1))
    data = nl.load(x)
    mean, spread = tile((128, 1)), tile((128, 1))
    nisa.tensor_reduce(dst=mean, op=nl.add, data=data, axis=1)
    nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1 / 256)
    squares = tile(x.shape)
    if low:
        nisa.activation(dst=squares, op=nl.square, data=data)
        nisa.tensor_reduce(dst=spread, op=nl.add, data=squares, axis=1)
        nisa.tensor_scalar(dst=spread, data=spread, op0=nl.multiply, operand0=1 / 256)
        nisa.tensor_tensor(dst=mean, data1=mean, data2=mean, op=nl.multiply)
        nisa.tensor_tensor(dst=spread, data1=spread, data2=mean, op=nl.subtract)  # planted
    else:
        centred = tile(x.shape)
        nisa.tensor_scalar(dst=centred, data=data, op0=nl.subtract, operand0=mean)
        nisa.activation(dst=squares, op=nl.square, data=centred)
        nisa.tensor_reduce(dst=spread, op=nl.add, data=squares, axis=1)
        nisa.tensor_scalar(dst=spread, data=spread, op0=nl.multiply, operand0=1 / 256)
    nl.store(out, spread)
    return out


@nki.jit
def layer_norm(x, low):
    out = result(x)
    data = nl.load(x)
    stats, moments, scale = tile((128, 6)), tile((128, 2)), tile((128, 1), low)
    nisa.bn_stats(dst=stats, data=data)
    nisa.bn_aggr(dst=moments, data=stats)
    shifted = tile((128, 1))
    nisa.tensor_scalar(dst=shifted, data=moments[:, 1:2], op0=nl.add, operand0=1e-5)
    nisa.activation(dst=scale, op=nl.rsqrt, data=shifted)  # planted
    wide = tile((128, 1))
    nisa.tensor_copy(dst=wide, src=scale)
    nisa.tensor_scalar(dst=data, data=data, op0=nl.subtract, operand0=moments[:, 0:1], op1=nl.multiply, operand1=wide)
    nl.store(out, data)
    return out


@nki.jit
def rms_norm(x, low):
    out = result(x)
    data = nl.load(x, dtype=F32)
    squares, total = tile(x.shape, low), tile((128, 1))
    nisa.tensor_tensor(dst=squares, data1=data, data2=data, op=nl.multiply)  # planted
    nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
    nisa.activation(dst=total, op=nl.rsqrt, data=total, scale=1 / 256)
    scaled = tile(x.shape)
    nisa.tensor_scalar(dst=scaled, data=data, op0=nl.multiply, operand0=total)
    nl.store(out, nl.copy(scaled, dtype=x.dtype))
    return out


def attention(q, k, v, low, causal, out):
    """Queries, keys (D, S) and values (S, D); the planted tile are the scores."""
    scores = tile((128, 128), buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=nl.load(q), moving=nl.load(k))
    kept = tile((128, 128), low)
    nisa.activation(dst=kept, op=nl.copy, data=scores, scale=0.125)  # planted
    wide = tile((128, 128))
    nisa.tensor_copy(dst=wide, src=kept)
    if causal:
        nisa.affine_select(
            dst=wide, pattern=[[-1, 128]], offset=0, channel_multiplier=1, cmp_op=nl.greater_equal,
            on_true_tile=wide, on_false_value=-30000.0,
        )  # fmt: skip
    top, total = tile((128, 1)), tile((128, 1))
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=wide, axis=1, negate=True)
    powers = tile((128, 128), q.dtype)
    nisa.activation(dst=powers, op=nl.exp, data=wide, bias=top)
    nisa.tensor_reduce(dst=total, op=nl.add, data=powers, axis=1)
    nisa.reciprocal(dst=total, data=total)
    turned = tile((128, 128), q.dtype, nl.psum)
    nisa.nc_transpose(dst=turned, data=powers)
    shares = tile((128, 128), q.dtype)
    nisa.tensor_copy(dst=shares, src=turned)
    acc = tile((128, 64), buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=shares, moving=nl.load(v))
    done = tile((128, 64), q.dtype)
    nisa.tensor_scalar(dst=done, data=acc, op0=nl.multiply, operand0=total)
    nl.store(out, done)
    return out


@nki.jit
def attention_plain(q, k, v, low):
    return attention(q, k, v, low, False, result(v))


@nki.jit
def attention_causal(q, k, v, low):
    return attention(q, k, v, low, True, result(v))


@nki.jit
def scan(x, decay, low):
    out = result(x)
    states = tile(x.shape, low)
    nisa.tensor_tensor_scan(  # planted
        dst=states, data0=nl.load(decay), data1=nl.load(x), initial=0.0, op0=nl.multiply, op1=nl.add
    )
    wide = tile(x.shape)
    nisa.tensor_copy(dst=wide, src=states)
    nl.store(out, wide)
    return out


@nki.jit
def sum_of_tiles(x, low):
    out = result(x, x.shape[1:])
    acc = tile(x.shape[1:], low)
    nisa.memset(dst=acc, value=0.0)
    for n in range(x.shape[0]):
        nisa.tensor_tensor(dst=acc, data1=acc, data2=nl.load(x[n]), op=nl.add)  # planted
    wide = tile(x.shape[1:])
    nisa.tensor_copy(dst=wide, src=acc)
    nl.store(out, wide)
    return out


@nki.jit
def chain(x, y, low):
    out = result(x)
    a, b = nl.load(x), nl.load(y)
    for n in range(5):
        link = tile(x.shape, low if n == 3 else F32)
        nisa.tensor_tensor(dst=link, data1=a, data2=b, op=nl.add if n % 2 else nl.multiply)  # planted
        a = tile(x.shape)
        nisa.tensor_copy(dst=a, src=link)
    nl.store(out, a)
    return out


@nki.jit
def transposes(x, low):
    out = result(x, (128, 128))
    data = nl.load(x)
    kept = tile((128, 128), low)
    nisa.tensor_copy(dst=kept, src=data)  # planted
    turned = tile((128, 128), low, nl.psum)
    nisa.nc_transpose(dst=turned, data=kept)
    back = tile((128, 128))
    nisa.tensor_copy(dst=back, src=turned)
    nl.store(out, back)
    return out


@nki.jit
def gather(table, rows, low):
    out = result(table, (128, 64))
    index = nl.load(rows)
    picked = tile((128, 64), low)
    nisa.dma_copy(dst=picked, src=table.ap([[64, 128], [1, 64]], vector_offset=index))  # planted
    wide = tile((128, 64))
    nisa.tensor_scalar(dst=wide, data=picked, op0=nl.multiply, operand0=0.5)
    nl.store(out, wide)
    return out


@nki.jit
def two_cores(x, low):
    out = result(x)
    core = nl.program_id(0)
    half = nl.ds(core * 64, 64)
    data = nl.load(x[:, half])
    kept = tile(data.shape, low if core == 1 else F32)
    nisa.activation(dst=kept, op=nl.tanh, data=data)  # planted
    wide = tile(data.shape)
    nisa.tensor_copy(dst=wide, src=kept)
    nisa.dma_copy(dst=out[:, half], src=wide)
    return out


@nki.jit
def device_loop(x, low):
    out = result(x, x.shape[1:])
    acc = tile(x.shape[1:])
    nisa.memset(dst=acc, value=0.0)
    for n in nl.dynamic_range(x.shape[0]):
        data = nl.load(x[n])
        kept = tile(x.shape[1:], low)
        nisa.tensor_copy(dst=kept, src=data)  # planted
        nisa.tensor_tensor(dst=acc, data1=acc, data2=kept, op=nl.add)
    nl.store(out, acc)
    return out


@nki.jit
def shifted(x, low):
    """A large number that is added and taken away again."""
    out = result(x)
    data = nl.load(x)
    moved, back = tile(x.shape), tile(x.shape)
    nisa.tensor_scalar(dst=moved, data=data, op0=nl.add, operand0=1e4 if low else 0.5)
    nisa.tensor_scalar(dst=back, data=moved, op0=nl.subtract, operand0=1e4 if low else 0.5)  # planted
    nl.store(out, back)
    return out


@nki.jit
def mlp(x, w, u, low):
    """Two layers, (K, S) inputs, with a gelu between."""
    out = result(x, (64, 128))
    hidden = tile((128, 128), buffer=nl.psum)
    nisa.nc_matmul(dst=hidden, stationary=nl.load(w), moving=nl.load(x))
    active = tile((128, 128), low)
    nisa.activation(dst=active, op=nl.gelu, data=hidden)  # planted
    wide = tile((128, 128), x.dtype)
    nisa.tensor_copy(dst=wide, src=active)
    acc = tile((64, 128), buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(u), moving=wide)
    nl.store(out, nl.copy(acc, dtype=x.dtype))
    return out


@nki.jit
def placed(x, low):
    """Tiles at addresses of the kernel's own; the second takes the place of the first."""
    out = result(x)
    first = nl.ndarray(x.shape, F32, address=(0, 0))
    nisa.dma_copy(dst=first, src=x)
    kept = nl.ndarray(x.shape, low, address=(0, 4096))
    nisa.tensor_scalar(dst=kept, data=first, op0=nl.multiply, operand0=3.0)  # planted
    second = nl.ndarray(x.shape, F32, address=(0, 0))
    nisa.activation(dst=second, op=nl.sigmoid, data=kept)
    nisa.dma_copy(dst=out, src=second)
    return out


@beta1.jit
def beta1_softmax(x, low):
    out = beta1_nl.ndarray(x.shape, dtype=x.dtype, buffer=beta1_nl.shared_hbm)
    data = beta1_nl.load(x)
    top = beta1_nl.max(data, axis=1, keepdims=True)
    powers = beta1_isa.activation(op=beta1_nl.exp, data=data - top, scale=1.0, dtype=low)  # planted
    total = beta1_nl.sum(powers, axis=1, keepdims=True, dtype=beta1_nl.float32)
    beta1_nl.store(out, value=beta1_nl.divide(powers, total, dtype=beta1_nl.float32))
    return out


@beta1.jit
def beta1_matmul(a, b, low):
    out = beta1_nl.ndarray((64, 128), dtype=a.dtype, buffer=beta1_nl.shared_hbm)
    left = beta1_nl.load(a)
    right = beta1_nl.copy(beta1_nl.load(b), dtype=low)  # planted
    product = beta1_isa.nc_matmul(left, beta1_nl.copy(right, dtype=a.dtype))
    beta1_nl.store(out, value=beta1_nl.copy(product, dtype=a.dtype))
    return out


@dataclass(frozen=True)
class Subject:
    """A kernel with `arguments`, its `fine` and its `coarse` value of `low`, and the keywords of its run."""

    name: str
    kernel: Any
    arguments: Callable[[np.random.Generator], tuple[Any, ...]]
    fine: Any
    coarse: Any
    keywords: dict[str, Any]


def normal(*shapes: tuple[int, ...], dtype: Any = np.float32, shift: float = 0.0) -> Any:
    """Arguments of normally distributed numbers."""
    return lambda rng: tuple((rng.standard_normal(shape) + shift).astype(dtype) for shape in shapes)


def rows_of_a_table(rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.standard_normal((300, 64)).astype(np.float32), rng.integers(0, 300, (128, 1)).astype(np.int32)


def decays(rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.standard_normal((128, 48)).astype(np.float32), rng.uniform(0.5, 0.99, (128, 48)).astype(np.float32)


_BF16 = ml_dtypes.bfloat16
_K = ((4, 128, 64), (4, 128, 128))
_HEADS = ((64, 128), (64, 128), (128, 64))
_TABLE = (
    ("matmul, bfloat16 in float32", matmul_by_k, normal(*_K), F32, BF16),
    ("matmul, fp8 in bfloat16", matmul_by_k, normal(*_K, dtype=_BF16), BF16, FP8),
    ("matmul tiles, transfer to fp8", matmul_tiles, normal((128, 128), (128, 256), dtype=_BF16), BF16, FP8),
    ("softmax, exp in bfloat16", softmax, normal((128, 96)), F32, BF16),
    ("softmax, exp in fp8", softmax, normal((128, 96), dtype=_BF16), BF16, FP8),
    ("exp of bfloat16 logits", exp_of_large, normal((128, 64)), F32, BF16),
    ("variance by cancellation", variance, normal((128, 256), shift=20.0), False, True),
    ("layer norm, scale in float16", layer_norm, normal((128, 128)), F32, F16),
    ("rms norm, squares in fp8", rms_norm, normal((128, 256), dtype=_BF16), F32, FP8),
    ("attention, scores in bfloat16", attention_plain, normal(*_HEADS), F32, BF16),
    ("causal attention, scores in fp8", attention_causal, normal(*_HEADS, dtype=_BF16), F32, FP8),
    ("scan in bfloat16", scan, decays, F32, BF16),
    ("sum in bfloat16", sum_of_tiles, normal((6, 128, 64)), F32, BF16),
    ("chain, a link in float16", chain, normal((128, 64), (128, 64)), F32, F16),
    ("transpose of bfloat16", transposes, normal((128, 128)), F32, BF16),
    ("gather to bfloat16", gather, rows_of_a_table, F32, BF16),
    ("device loop, tiles in bfloat16", device_loop, normal((3, 128, 64)), F32, BF16),
    ("large shift", shifted, normal((128, 64)), False, True),
    ("mlp, fp8 in bfloat16", mlp, normal((128, 128), (128, 128), (128, 64), dtype=_BF16), BF16, FP8),
    ("placed tiles, bfloat16 in float32", placed, normal((128, 64)), F32, BF16),
)

SUBJECTS = (
    *(Subject(*row, {}) for row in _TABLE),
    Subject("two cores, tanh in bfloat16", two_cores[2], normal((128, 128)), F32, BF16, {}),
    Subject("Beta 1 softmax, exp in float16", beta1_softmax, normal((128, 96)), beta1_nl.float32, beta1_nl.float16, {}),
    Subject(
        "Beta 1 matmul, fp8 in bfloat16",
        beta1_matmul,
        normal((128, 64), (128, 128), dtype=_BF16),
        beta1_nl.bfloat16,
        beta1_nl.float8_e4m3,
        {"precise": True},
    ),
)
