"""A tile wider than a partition."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI313"


@nki.jit
def kernel(x):
    tile = nl.ndarray((128, 1 << 20), x.dtype, buffer=nl.sbuf)
    return x
