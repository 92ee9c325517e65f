"""A result that is no tensor."""

import nki

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI014"


@nki.jit
def kernel(x):
    return object
