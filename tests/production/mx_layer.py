"""A projection in MX formats: activations quantised on the way, weights that arrive packed with their scales."""

from typing import Any

import nki
import nki.dtype as nt
import nki.isa as nisa
import nki.language as nl


class Packed(nl.NKIObject):
    """A matrix of x4 elements with a scale for eight partitions."""

    data: Any
    scale: Any

    def __init__(self, data, scale):
        self.data = data
        self.scale = scale


def _quantise(tile, dtype):
    """(P, F) in BF16 to (P, F / 4) of x4 and their scales."""
    rows, columns = tile.shape
    small = nl.ndarray((rows, columns // 4), dtype=dtype, buffer=nl.sbuf)
    scale = nl.ndarray((rows, columns // 4), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(dst=scale, value=0.0)
    nisa.quantize_mx(dst=small, src=tile, dst_scale=scale)
    return Packed(small, scale)


@nki.jit
def mx_project(x, w_bits, w_scale, dtype: Any = nt.float8_e4m3fn_x4):
    """x (128, T * 4) of four interleaved rows each, w_bits (128, N) as integers of x4's width, w_scale (16, N)."""
    rows, wide = x.shape
    columns = w_bits.shape[1]
    tile = nl.ndarray((rows, wide), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    moving = _quantise(tile, nl.float8_e5m2_x4)
    w = nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w, src=w_bits.ap([[columns, rows], [1, columns]], dtype=dtype))
    scale = nl.ndarray((rows, columns), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(dst=scale, value=0.0)
    for quadrant in range(rows // 32):
        nisa.dma_copy(dst=scale[quadrant * 32 : quadrant * 32 + 4], src=w_scale[quadrant * 4 : quadrant * 4 + 4])
    acc = nl.ndarray((columns, wide // 4), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(dst=acc, stationary=w, moving=moving.data, stationary_scale=scale, moving_scale=moving.scale)
    out = nl.ndarray((columns, wide // 4), dtype=nl.float32, buffer=nl.shared_hbm)
    result = nl.ndarray(acc.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out
