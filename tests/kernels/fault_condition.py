"""An element of a tile used as a condition."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI017"


@nki.jit
def kernel(x):
    tile = nl.load(x)
    if tile[0, 0]:
        nl.store(x, tile)
    return x
