"""A kernel that writes its argument and calls another kernel."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)


@nki.jit
def double(tile, *, times=1):
    for _ in range(times):
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)


@nki.jit
def kernel(x):
    tile = nl.load(x)
    double(tile, times=2)
    if tile.dtype == nl.float32 and tile.buffer == nl.sbuf:
        double(tile)
    nisa.dma_copy(dst=x, src=tile)
