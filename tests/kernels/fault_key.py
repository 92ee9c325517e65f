"""A key that the dictionary does not have."""

import nki

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI007"


@nki.jit
def kernel(x):
    table = {"a": 1}
    table["b"] += 1
    return x
