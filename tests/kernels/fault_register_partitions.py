"""A register selects partitions."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((4, 128, 64), "float32"), spec((1, 1), "int32"))
FAULT = "NKI312"


@nki.jit
def kernel(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    n = nisa.register_alloc(3)
    tile = nl.load(x[0])
    nl.store(out[0, 0:1, :], tile[n, :])
    return out
