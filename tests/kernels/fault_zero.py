"""A division by zero."""

import nki

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI007"


@nki.jit
def kernel(x):
    size = x.shape[0] - 128
    n = 4
    n //= size
    return x
