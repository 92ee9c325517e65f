"""A buffer given as a string."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI311"


@nki.jit
def kernel(x):
    tile = nl.ndarray((128, 64), x.dtype, "sbuf")
    return x
