"""1 · Addition: a kernel that only moves data, so the moves decide.

An addition does one operation for each 12 bytes that cross HBM. No engine is ever the limit; what counts is how the
bytes move. A DMA transfer into a tile writes a descriptor for each partition, and a descriptor is only efficient from
about 2 KiB on. So the two kernels differ in one thing, the bytes that a partition gets at a time.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn1", "trn2", "trn3")


def inputs(rows=4096, columns=128):
    """Two float32 matrices; rows is a multiple of 128."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal((rows, columns)).astype(np.float32)
    b = rng.standard_normal((rows, columns)).astype(np.float32)
    return a, b


def reference(a, b):
    return a.astype(np.float64) + b.astype(np.float64)


@nki.jit
def add_rows(a, b):
    """a + b, 128 rows at a time: each partition gets one row of 512 bytes."""
    R, C = a.shape
    P = nl.tile_size.pmax
    total = nl.ndarray((R, C), dtype=a.dtype, buffer=nl.shared_hbm)
    for r in range(R // P):
        rows = nl.ds(r * P, P)
        x = nl.ndarray((P, C), dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray((P, C), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[rows, :])
        nisa.dma_copy(dst=y, src=b[rows, :])
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.dma_copy(dst=total[rows, :], src=x)
    return total


@nki.jit
def add_long_rows(a, b):
    """a + b, where each partition gets rows that follow each other in HBM: 4 KiB at a time.

    Addition does not care which element stands where. So the matrices are read as 128 long rows instead, one for each
    partition, and cut into tiles along them.
    """
    R, C = a.shape
    P = nl.tile_size.pmax
    total = nl.ndarray((R, C), dtype=a.dtype, buffer=nl.shared_hbm)
    length = R * C // P
    F = min(length, 1024)
    left, right, out = a.reshape((P, length)), b.reshape((P, length)), total.reshape((P, length))
    for f in range(length // F):
        columns = nl.ds(f * F, F)
        x = nl.ndarray((P, F), dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray((P, F), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=left[:, columns])
        nisa.dma_copy(dst=y, src=right[:, columns])
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.dma_copy(dst=out[:, columns], src=x)
    return total


KERNELS = (add_rows, add_long_rows)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
