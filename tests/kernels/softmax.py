"""Softmax along the rows, with operators and reductions."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 256), "float32"),)


@nki.jit
def kernel(x):
    tile = nl.load(x)
    top = nl.max(tile, axis=1, keepdims=True)
    shifted = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=shifted, data=tile, op0=nl.subtract, operand0=top)
    powers = nl.exp(shifted)
    total = nl.sum(powers, axis=[1], keepdims=True)
    inverse = nl.reciprocal(total)
    nisa.tensor_scalar(dst=shifted, data=powers, op0=nl.multiply, operand0=inverse)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, shifted)
    return out
