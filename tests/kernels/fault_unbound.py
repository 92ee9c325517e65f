"""A local that is bound on another branch only."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI102"


@nki.jit
def kernel(x):
    if x.shape[0] > 500:
        tile = nl.load(x)
    nl.store(x, tile)
    return x
