"""A shape unpacked into too many names."""

import nki

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI007"


@nki.jit
def kernel(x):
    a, (b, c, d) = 1, x.shape
    return x
