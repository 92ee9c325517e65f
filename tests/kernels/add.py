"""Two arrays, added tile by tile."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((256, 512), "float32"), spec((256, 512), "float32"))


@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[0], nl.tile_size.pmax):
        rows = nl.ds(start, nl.tile_size.pmax)
        left = nl.load(a[rows, :])
        right = nl.load(b[rows, :])
        total = nl.ndarray(left.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
        nl.store(out[rows, :], total)
    return out
