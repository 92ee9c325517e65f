"""A choice of engine that one target lacks."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)


@nki.jit
def kernel(x):
    tile = nl.load(x)
    nisa.tensor_copy(dst=tile, src=tile, engine=nisa.engine.scalar)
    nl.store(x, tile)
    return x
