"""Beta 1: reductions and activations that return tiles, with a mask."""

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc import nki

from nki_lab import spec

ARGUMENTS = (spec((100, 256), "float32"),)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(256)[None, :]
    tile = nl.load(x[i_p, i_f], mask=(i_p < x.shape[0]))
    top = nl.max(tile, axis=1, keepdims=True, mask=(i_p < x.shape[0]))
    powers = nisa.activation(op=nl.exp, data=tile - top, scale=1.0)
    total = nl.sum(powers, axis=1, keepdims=True)
    nl.store(out[i_p, i_f], value=powers / total, mask=(i_p < x.shape[0]))
    return out
