"""A keyword that the instruction does not have."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI002"


@nki.jit
def kernel(x):
    tile = nl.load(x)
    nisa.tensor_copy(dst=tile, src=tile, dist=3)
    return x
