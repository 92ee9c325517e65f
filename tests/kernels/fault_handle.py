"""The handle of an instruction passed as a tensor."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI013"


@nki.jit
def kernel(x):
    tile = nl.load(x)
    copied = nisa.tensor_copy(dst=tile, src=tile)
    nl.store(x, copied)
    return x
