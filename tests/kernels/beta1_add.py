"""Beta 1: index expressions, loads and stores, an operator on tiles."""

import neuronxcc.nki.language as nl
from neuronxcc import nki

from nki_lab import spec

ARGUMENTS = (spec((256, 512), "float16"), spec((256, 512), "float16"))


@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    ix = nl.arange(128)[:, None]
    iy = nl.arange(512)[None, :]
    for t in nl.affine_range(a.shape[0] // 128):
        left = nl.load(a[t * 128 + ix, iy])
        right = nl.load(b[t * 128 + ix, iy])
        nl.store(out[t * 128 + ix, iy], value=left + right)
    return out
