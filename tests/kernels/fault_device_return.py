"""A device loop that is left by return."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((4, 128, 64), "float32"), spec((1, 1), "int32"))
FAULT = "NKI115"


@nki.jit
def kernel(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    n = nisa.register_alloc(3)
    for i in nl.dynamic_range(n):
        nl.store(out[i], nl.load(x[i]))
        return out
    return x
