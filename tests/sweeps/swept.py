"""Kernels that the tests of sweeps send to other processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TILE = 128
UNREAD = 1


def width_of(F):
    """Read the global beside the kernel."""
    return min(TILE, F)


@nki.jit
def scaled(x, factor=2.0):
    R, F = x.shape
    result = nl.ndarray((R, F), dtype=x.dtype, buffer=nl.shared_hbm)
    width = width_of(F)
    for start in range(0, R, 128):
        for column in range(0, F, width):
            tile = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[nl.ds(start, 128), nl.ds(column, width)])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
            nisa.dma_copy(dst=result[nl.ds(start, 128), nl.ds(column, width)], src=tile)
    return result


def deadly(x, factor, marks):
    """End the worker's process, as a reference: each time for a factor of 13, once for one of 7."""
    mark = Path(marks, str(factor))
    first = not mark.exists()
    with mark.open("a") as stream:
        stream.write("x")
    if factor == 13 or (factor == 7 and first):
        os._exit(3)
    return np.asarray(x) * factor


def slow(x, factor=2.0, seconds=0.2):
    """Take its time, as large kernels do."""
    time.sleep(seconds)
    return scaled(x, factor)


def made(width):
    """Return a kernel that reads a variable outside of it."""

    @nki.jit
    def closed(x):
        tile = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        result = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=tile, src=x[:, 0:width])
        nisa.dma_copy(dst=result, src=tile)
        return result

    return closed


@nki.jit
def crowded(x, tiles=2):
    """Keep some tiles of the whole width at the same time."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    kept = []
    for _ in range(tiles):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        kept.append(tile)
    for tile in kept:
        nisa.tensor_tensor(dst=kept[0], data1=kept[0], data2=tile, op=nl.add)
    nisa.dma_copy(dst=result, src=kept[0])
    return result


def doubled(x):
    return np.asarray(x) * 2
