"""Beta 1: an index expression that leaves the tensor."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI303"


@nki.jit
def kernel(x):
    ix = nl.arange(128)[:, None]
    iy = nl.arange(64)[None, :]
    tile = nl.load(x[ix + 64, iy])
    return tile
