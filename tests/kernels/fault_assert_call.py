"""An assert without a comparison."""

import nki

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI007"


@nki.jit
def kernel(x):
    def aligned(size):
        return size % 96 == 0

    assert aligned(x.shape[1]), "F must be a multiple of 96"
    return x
