"""A helper called with one argument too few."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI007"


@nki.jit
def kernel(x):
    def inner(tile, factor, *, bias=0.0):
        return nl.add(nl.multiply(tile, factor), bias)

    tile = nl.load(x)
    result = inner(tile, bias=1.0)
    return x
