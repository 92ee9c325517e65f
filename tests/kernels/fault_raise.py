"""An error that the kernel raises."""

import nki

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI007"


@nki.jit
def kernel(x):
    if x.shape[0] != 64:
        raise ValueError(f"rows: {x.shape[0]}")
    return x
