"""A product on two cores: each sums over its half of K, and they exchange their partial sums."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((256, 128), "float32"), spec((256, 64), "float32"))
GRID = (2,)
TARGETS = ("trn2", "trn3")


@nki.jit
def kernel(a, b):
    depth, rows = a.shape
    columns = b.shape[1]
    me = nl.program_id(0)
    half = nl.ds(me * (depth // 2), depth // 2)
    acc = nl.ndarray((rows, columns), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a[half]), moving=nl.load(b[half]))
    mine = nl.ndarray((rows, columns), nl.float32)
    other = nl.ndarray((rows, columns), nl.float32)
    nisa.tensor_copy(dst=mine, src=acc)
    nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
    nisa.tensor_tensor(dst=mine, data1=mine, data2=other, op=nl.add)
    out = nl.ndarray((rows, columns), nl.float32, buffer=nl.shared_hbm)
    part = nl.ds(me * (rows // 2), rows // 2)
    nisa.dma_copy(dst=out[part], src=mine[part])
    return out
