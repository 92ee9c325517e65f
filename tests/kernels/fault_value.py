"""An attribute of the wrong kind."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI012"


@nki.jit
def kernel(x):
    tile = nl.load(x)
    nisa.tensor_copy(dst=tile, src=tile, engine="vector")
    return x
