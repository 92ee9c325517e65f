"""A DMA out of PSUM."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI201"


@nki.jit
def kernel(x):
    acc = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    nl.store(x, value=acc)
    return x
