"""Beta 1: an index expression that leaves the tensor."""

import neuronxcc.nki.language as nl
from neuronxcc import nki

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI303"


@nki.jit
def kernel(x):
    ix = nl.arange(128)[:, None]
    iy = nl.arange(64)[None, :]
    return nl.load(x[ix + 64, iy])
