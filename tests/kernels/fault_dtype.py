"""A dtype that the tensor engine does not take."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI202"


@nki.jit
def kernel(x):
    a = nl.ndarray((128, 64), dtype=nl.int32, buffer=nl.sbuf)
    acc = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, a, a)
    return x
