"""A register in a condition with `and`."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((4, 128, 64), "float32"), spec((1, 1), "int32"))
FAULT = "NKI017"


@nki.jit
def kernel(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    n = nisa.register_alloc(3)
    while n and x.shape[0]:
        nisa.register_move(n, 0)
    return out
