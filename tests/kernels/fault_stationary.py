"""A stationary tile with too many columns."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI212"


@nki.jit
def kernel(x):
    a = nl.ndarray((128, 256), dtype=nl.bfloat16, buffer=nl.sbuf)
    acc = nl.ndarray((256, 256), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, stationary=a, moving=a)
    return x
