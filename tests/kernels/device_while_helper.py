"""A while on a register in a helper, called twice, and in an unrolled loop."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((1, 1), "int32"),)


def drain(register, tile, by):
    while register:
        nisa.register_store(dst=tile, src=register)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=by)
        nisa.register_load(register, tile)
        if by > 1:
            continue


@nki.jit
def kernel(x):
    tile = nl.ndarray((1, 1), dtype=nl.int32)
    first = nisa.register_alloc(4)
    drain(first, tile, 2)
    for by in range(1, 3):
        second = nisa.register_alloc(2)
        drain(second, tile, by)
    nisa.dma_copy(dst=x, src=tile)
    return x
