"""Causal flash attention over sections of keys, with a running maximum, and a KV cache that is written in place."""

from typing import Any, Optional

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

FP32_MIN = float(np.finfo(np.float32).min)


class RunningStats(nl.NKIObject):
    """Maximum, sum and unnormalised output of a tile of queries."""

    rows: int
    head_dim: int
    maximum: Any
    total: Any
    output: Any

    def __post_init__(self):
        self.maximum = nl.ndarray((self.rows, 1), nl.float32, buffer=nl.sbuf)
        self.total = nl.ndarray((self.rows, 1), nl.float32, buffer=nl.sbuf)
        self.output = nl.ndarray((self.rows, self.head_dim), nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=self.maximum, value=FP32_MIN)
        nisa.memset(dst=self.total, value=0.0)
        nisa.memset(dst=self.output, value=0.0)

    def rescale(self, fresh):
        """Make room for a new maximum; gives the negative of it."""
        higher = nl.ndarray((self.rows, 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=higher, data1=self.maximum, data2=fresh, op=nl.maximum)
        negative = nl.ndarray((self.rows, 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=negative, data=higher, op0=None, operand0=None, op1=nl.multiply, operand1=-1.0)
        factor = nl.ndarray((self.rows, 1), nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=factor, op=nl.exp, data=self.maximum, bias=negative, scale=1.0)
        nisa.tensor_copy(dst=self.maximum, src=higher)
        nisa.tensor_tensor(self.total, self.total, factor, nl.multiply)
        nisa.tensor_scalar(self.output, self.output, nl.multiply, factor)
        return negative


def _rope(tile, cosine, sine):
    """Rotate pairs of halves in place: partitions hold tokens."""
    rows, width = tile.shape
    half = width // 2
    parts = []
    for start, sign in ((0, nl.subtract), (half, nl.add)):
        other = half - start
        a = nl.ndarray((rows, half), nl.float32, buffer=nl.sbuf)
        b = nl.ndarray((rows, half), nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(a, tile[:, nl.ds(start, half)], cosine, nl.multiply)
        nisa.tensor_tensor(b, tile[:, nl.ds(other, half)], sine, nl.multiply, engine=nisa.gpsimd_engine)
        nisa.tensor_tensor(a, a, b, sign)
        parts.append(a)
    for n, part in enumerate(parts):
        nisa.tensor_copy(tile[:, n * half : (n + 1) * half], part)


def _mask(scores, first_query, first_key):
    columns = scores.shape[1]
    nisa.affine_select(dst=scores, pattern=[[-1, columns]], offset=first_query - first_key, channel_multiplier=1,
                       on_true_tile=scores, on_false_value=FP32_MIN, cmp_op=nl.greater_equal)  # fmt: skip


@nki.jit
def flash(q, k, v, k_cache, cosine, sine, position, scale: Optional[float] = None, section: int = 512):
    """q, k, v (S, D); k_cache (C, D) gets the rotated keys from row `position` on. Gives (S, D)."""
    length, head_dim = q.shape
    scale = 1.0 / head_dim**0.5 if scale is None else scale
    out = nl.ndarray((length, head_dim), dtype=q.dtype, buffer=nl.shared_hbm)
    tiles = length // 128
    where = nisa.register_alloc()
    nisa.register_load(where, position)
    turned = {}
    for name, tensor in (("q", q), ("k", k)):
        turned[name] = nl.ndarray((head_dim, length), dtype=q.dtype, buffer=nl.sbuf, name=name)
        for t in nl.affine_range(tiles):
            tile = nl.ndarray((128, head_dim), dtype=q.dtype, buffer=nl.sbuf)
            c, s = nl.load(cosine[t * 128 : (t + 1) * 128]), nl.load(sine[t * 128 : (t + 1) * 128])
            nisa.dma_copy(dst=tile, src=tensor[t * 128 : (t + 1) * 128, :])
            _rope(tile, c, s)
            if name == "k":
                nisa.dma_copy(dst=k_cache.ap([[head_dim, 128], [1, head_dim]], offset=t * 128 * head_dim,
                                             scalar_offset=where, indirect_dim=0), src=tile)  # fmt: skip
            bank = nl.ndarray((head_dim, 128), dtype=q.dtype, buffer=nl.psum)
            nisa.nc_transpose(bank, tile)
            nisa.tensor_copy(turned[name][:, t * 128 : (t + 1) * 128], bank)
    for t in nl.affine_range(tiles):
        stats = RunningStats(rows=128, head_dim=head_dim)
        for start in range(0, (t + 1) * 128, section):
            width = min(section, (t + 1) * 128 - start)
            acc = nl.ndarray((128, width), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(acc, turned["q"][:, t * 128 : (t + 1) * 128], turned["k"][:, start : start + width])
            scores = nl.ndarray((128, width), nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(scores, acc, nl.multiply, scale)
            if start + width > t * 128:
                _mask(scores, t * 128, start)
            top = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(top, nl.maximum, scores, axis=1)
            negative = stats.rescale(top)
            power = nl.ndarray((128, width), q.dtype, buffer=nl.sbuf)
            total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=power, op=nl.exp, data=scores, bias=negative, reduce_op=nl.add, reduce_res=total,
                            reduce_cmd=nisa.reduce_cmd.reset_reduce)  # fmt: skip
            nisa.tensor_tensor(stats.total, stats.total, total, nl.add)
            product = nl.ndarray((128, head_dim), nl.float32, buffer=nl.psum)
            for n in range(width // 128):
                bank = nl.ndarray((128, 128), q.dtype, buffer=nl.psum)
                nisa.nc_transpose(bank, power[:, n * 128 : (n + 1) * 128])
                weights = nl.ndarray((128, 128), q.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(weights, bank, engine=nisa.scalar_engine)
                nisa.nc_matmul(product, weights, nl.load(v[start + n * 128 : start + (n + 1) * 128]))
            nisa.tensor_tensor(stats.output, stats.output, product, nl.add)
        inverse = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(inverse, stats.total)
        result = nl.ndarray((128, head_dim), q.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(result, stats.output, nl.multiply, inverse)
        nisa.dma_copy(out[t * 128 : (t + 1) * 128, :], result)
    return out
