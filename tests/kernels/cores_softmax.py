"""A softmax on two cores: each has half of the columns, and both need the maxima and sums of both halves."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 256), "float32"),)
GRID = (2,)
TARGETS = ("trn2", "trn3")


def shared(mine, board):
    """The value of each core, side by side on both."""
    both = nl.ndarray((mine.shape[0], 2), nl.float32)
    nisa.dma_copy(dst=board[:, nl.ds(nl.program_id(0), 1)], src=mine)
    nisa.core_barrier(board, (0, 1))
    nisa.dma_copy(dst=both, src=board)
    return both


@nki.jit
def kernel(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tops = nl.ndarray((rows, 2), nl.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray((rows, 2), nl.float32, buffer=nl.shared_hbm)
    half = nl.ds(nl.program_id(0) * (columns // 2), columns // 2)
    tile = nl.load(x[:, half])
    top = nl.ndarray((rows, 1), nl.float32)
    total = nl.ndarray((rows, 1), nl.float32)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=shared(top, tops), axis=1, negate=True)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=top)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.tensor_reduce(dst=total, op=nl.add, data=shared(total, sums), axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out[:, half], src=tile)
    return out
