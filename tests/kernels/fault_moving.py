"""A moving tile with too many columns."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI213"


@nki.jit
def kernel(x):
    a = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
    b = nl.ndarray((128, 9000), dtype=nl.bfloat16, buffer=nl.sbuf)
    acc = nl.ndarray((64, 4000), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(
        dst=acc,
        stationary=a,
        moving=b,
    )
    return x
