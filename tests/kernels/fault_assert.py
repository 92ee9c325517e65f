"""An assert of the kernel itself."""

import nki

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI007"


@nki.jit
def kernel(x):
    _, F = x.shape
    assert F % 128 == 0, f"F is {F}"
    return x
