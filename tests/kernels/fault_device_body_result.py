"""A body of nl.fori_loop that returns something."""

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

    def body(i):
        return i

    nl.fori_loop(0, n, body)
    return out
