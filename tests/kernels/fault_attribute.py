"""A name that nki.language does not have."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI006"


@nki.jit
def kernel(x):
    tile = nl.ndarray(x.shape, dtype=nl.flaot32, buffer=nl.sbuf)
    return x
