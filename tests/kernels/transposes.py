"""Transposes of square tiles through PSUM, and a permuted view."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((256, 128), "float32"),)


@nki.jit
def kernel(x):
    rows, columns = x.shape
    out = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.sequential_range(rows // 128):
        tile = nl.load(x[i * 128 : (i + 1) * 128])
        turned = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=tile)
        nl.store(out[:, i * 128 : (i + 1) * 128], nl.copy(turned))
    same = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=same, src=x.permute((1, 0)))
    return out, same
