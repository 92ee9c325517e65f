"""3 · Softmax of rows: a chain of instructions, dealt out to engines.

Rows stand in partitions, so that maxima and sums run along the free dimension. The Vector Engine reduces and does
arithmetic, the Scalar Engine computes functions; both work at about an element a cycle and partition, whatever the
operation. So the time of a kernel like this is the number of passes over the data of the engine that has most.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn1", "trn2", "trn3")


def inputs(rows=512, columns=2048):
    """A float32 matrix; rows is a multiple of 128."""
    rng = np.random.default_rng(3)
    return (rng.standard_normal((rows, columns)).astype(np.float32) * 3,)


def reference(x):
    x = x.astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@nki.jit
def softmax_as_written(x):
    """Maximum, subtraction, exponential, sum, division: four passes of Vector, one of Scalar."""
    R, C = x.shape
    P = nl.tile_size.pmax
    result = nl.ndarray((R, C), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(R // P):
        rows = nl.ds(r * P, P)
        tile = nl.ndarray((P, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows, :])
        largest = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=1)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=largest)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=result[rows, :], src=tile)
    return result


def weigh(x, r):
    """The exponentials of tile r, and their sums.

    `activation` computes op(scale * data + bias) with a bias for each partition, so the subtraction is free, and it
    sums what it writes, so the sum is free too.
    """
    P, C = nl.tile_size.pmax, x.shape[1]
    tile = nl.ndarray((P, C), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[nl.ds(r * P, P), :])
    minus_largest = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=minus_largest, op=nl.maximum, data=tile, axis=1, negate=True)
    powers = nl.ndarray((P, C), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=powers, op=nl.exp, data=tile, bias=minus_largest, reduce_op=nl.add, reduce_res=total)
    return powers, total


def divide(result, r, powers, total):
    """Tile r of the result: a product with a number for each partition."""
    P = nl.tile_size.pmax
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=powers, data=powers, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=result[nl.ds(r * P, P), :], src=powers)


@nki.jit
def softmax_fused(x):
    """Two passes of Vector, one of Scalar: the subtraction and the sum come with the exponential."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(x.shape[0] // nl.tile_size.pmax):
        powers, total = weigh(x, r)
        divide(result, r, powers, total)
    return result


@nki.jit
def softmax_ahead(x):
    """The same instructions in another order: Vector looks for the next maximum before it divides.

    Engines take their instructions in order. Where the division of a tile comes right after its maximum, Vector waits
    for the exponentials in between, and Scalar waits for the next maximum, which comes after the division.
    """
    tiles = x.shape[0] // nl.tile_size.pmax
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    powers, total = weigh(x, 0)
    for r in range(tiles):
        ahead = weigh(x, r + 1) if r + 1 < tiles else None
        divide(result, r, powers, total)
        if ahead is not None:
            powers, total = ahead
    return result


KERNELS = (softmax_as_written, softmax_fused, softmax_ahead)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
