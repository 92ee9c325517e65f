"""Arithmetic, comparisons, conditional expressions, text and numbers at specialisation time."""

import math

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from nki_lab import spec

ARGUMENTS = (spec((128, 512), "float32"), 7, None)


LIMIT = 2 * 64


@nki.jit
def kernel(x, n, mask=None, *, unused=1):
    P, F = x.shape
    half = F // 2 if n % 2 else F
    scale = 1 / math.sqrt(F) if mask is None else 1.0
    assert 0 < half <= F < 10**6 and not (n < 3 or n > 9), "sizes"
    assert x.shape == (128, 512) and x.shape == [128, 512] and x.shape[-1] in (512, 1024) and P is not None
    bits = (1 << 4 | 3) & ~1 ^ 8
    width = int(np.ceil(half / bits)) + divmod(n, 2)[1] + round(2.6) + abs(-1) + int(np.prod(x.shape)) % 3
    width = min(width, half, LIMIT) or 1
    n **= 2
    n //= 5
    name = f"w{width:03d}_{scale:.3f}_{n!r:>4}" + ("_x" if n and scale else "_y")
    tile = nl.ndarray((P, width), dtype=x.dtype, buffer=nl.sbuf, name=name)
    nisa.dma_copy(dst=tile, src=x[:, -width:])
    nisa.activation(dst=tile, op=nl.exp, data=tile, scale=scale)
    out = nl.ndarray((P, width), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[...], src=tile)
    return out
