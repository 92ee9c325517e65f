"""A barrier in a kernel that is launched on one core."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
TARGETS = ("trn2", "trn3")
FAULT = "NKI016"


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.load(x))
    nisa.core_barrier(out, (0, 1))
    return out
