"""The first core waits for an exchange and the second in a barrier."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
GRID = (2,)
TARGETS = ("trn2", "trn3")
FAULT = "NKI405"


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    other = nl.ndarray(tile.shape, tile.dtype)
    if nl.program_id(0) == 0:
        nisa.sendrecv(tile, other, send_to_rank=1, recv_from_rank=1, pipe_id=0)
        nisa.dma_copy(dst=out, src=other)
        nisa.core_barrier(out, (0, 1))
    else:
        nisa.core_barrier(out, (0, 1))
        nisa.sendrecv(tile, other, send_to_rank=0, recv_from_rank=0, pipe_id=0)
    return out
