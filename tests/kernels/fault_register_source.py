"""register_load from a tile of two elements."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((4, 128, 64), "float32"), spec((1, 1), "int32"))
FAULT = "NKI210"


@nki.jit
def kernel(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    n = nisa.register_alloc(3)
    nisa.register_load(n, nl.ndarray((2, 1), dtype=nl.int32))
    return out
