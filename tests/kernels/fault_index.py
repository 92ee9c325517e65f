"""A slice outside the tensor."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI303"


@nki.jit
def kernel(x):
    for i in range(3):
        tile = nl.load(x[i * 64 : (i + 1) * 64, 0:64])
        nl.store(x[i * 64 : (i + 1) * 64, 0:64], tile)
    return x
