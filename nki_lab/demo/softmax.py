"""Softmax of the rows of a matrix: 128 rows at a time, one row a partition."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def softmax(x):
    """exp(x - max) / sum(exp(x - max)) of each row of x[R, C]; R is a multiple of 128."""
    R, C = x.shape
    P = nl.tile_size.pmax
    result = nl.ndarray((R, C), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(R // P):
        rows = nl.ds(r * P, P)
        tile = nl.ndarray((P, C), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows, :])
        largest = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=1)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=largest)
        powers = nl.ndarray((P, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=powers, op=nl.exp, data=tile)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=powers, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=powers, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=result[rows, :], src=tile)
    return result
