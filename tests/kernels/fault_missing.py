"""An argument that is not given."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI003"


@nki.jit
def kernel(x):
    tile = nl.load(x)
    nisa.tensor_tensor(tile, tile, op=nl.add)
    return x
