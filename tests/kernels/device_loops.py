"""Loops on the device as statements: over a register, between constants, nested, and while a register is not 0."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((4, 128, 64), "float32"), spec((1, 1), "int32"))


@nki.jit
def kernel(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    loaded = nl.load(count)
    tiles = nisa.register_alloc()
    nisa.register_load(tiles, loaded)
    start = nisa.register_alloc(1)
    for i in nl.dynamic_range(start, tiles, 2):
        tile = nl.load(x[i])
        for k in range(3):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(k))
        for half in nl.dynamic_range(2):
            part = tile[:, nl.ds(half, 32)]
            nisa.tensor_copy(dst=part, src=part)
        if tile.dtype == nl.float32:
            nl.store(out.select(0, i), tile)
    register = nisa.register_alloc(3)
    while register:
        counter = nl.ndarray((1, 1), dtype=nl.int32)
        nisa.register_store(dst=counter, src=register)
        nisa.tensor_scalar(dst=counter, data=counter, op0=nl.subtract, operand0=1)
        nisa.register_load(register, counter)
    for _, (a, b) in enumerate([(1, 2)]):
        for row in nl.dynamic_range(a, b):
            nisa.dma_copy(dst=out[nl.ds(row, 1), 0:1, :], src=x[nl.ds(row, 1), 0:1, :])
    return out
