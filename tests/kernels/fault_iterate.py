"""A loop over the partitions of a tile."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI304"


@nki.jit
def kernel(x):
    tile = nl.load(x)
    for row in tile:
        nl.store(x, row)
    return x
