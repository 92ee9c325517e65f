"""The kernels that the benchmarks run, in the current dialect."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def matmul(lhs_t, rhs):
    """lhs_t.T @ rhs in tiles of 128 x 128 by 128 x 512, the contraction innermost."""
    depth, rows = lhs_t.shape
    _, columns = rhs.shape
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(rows // 128):
        for n in range(columns // 512):
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for k in range(depth // 128):
                left = nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf)
                right = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=lhs_t[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                nisa.dma_copy(dst=right, src=rhs[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                nisa.nc_matmul(dst=acc, stationary=left, moving=right)
            tile = nl.ndarray((128, 512), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=acc)
            nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], src=tile)
    return out


@nki.jit
def chain(x, count):
    """`count` rounds of add, multiply-add, exp and copy on one tile, values staying near 1."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    c = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x)
    nisa.dma_copy(dst=b, src=x)
    for _ in range(count):
        nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
        nisa.tensor_scalar(dst=b, data=c, op0=nl.multiply, operand0=0.25, op1=nl.add, operand1=0.5)
        nisa.activation(dst=c, op=nl.exp, data=b, scale=-1.0)
        nisa.tensor_copy(dst=b, src=c)
    nisa.dma_copy(dst=out, src=b)
    return out


@nki.jit
def varied(x, count):
    """`count` instructions on three tiles of 128 columns of x, in an order that does not repeat."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf) for _ in range(3)]
    for tile in tiles:
        nisa.memset(dst=tile, value=0.5)
    state = 1
    for _ in range(count):
        state = (1103515245 * state + 12345) % 2**31
        kind, a, b = state >> 24 & 7, tiles[(state >> 18) % 3], tiles[(state >> 20) % 3]
        if kind == 0:
            nisa.dma_copy(dst=a, src=x[:, 0:128])
        elif kind == 1:
            nisa.dma_copy(dst=out[:, 0:128], src=a)
        elif kind < 4:
            nisa.activation(dst=a, op=nl.tanh, data=b)
        elif kind < 6:
            nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.maximum)
        else:
            nisa.tensor_copy(dst=a, src=b)
    return out


@nki.jit
def mixed(x, count):
    """`count` rounds of ten instructions on fresh tiles: loads, arithmetic, an exponential, a reduction, a store."""
    rows, free = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(count):
        start = i * 128 % rows
        a = nl.ndarray((128, free), dtype=nl.float32, buffer=nl.sbuf)
        b = nl.ndarray((128, free), dtype=nl.float32, buffer=nl.sbuf)
        narrow = nl.ndarray((128, free), dtype=nl.bfloat16, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=x[start : start + 128, 0:free])
        nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=0.25, op1=nl.add, operand1=0.5)
        nisa.tensor_tensor(dst=b, data1=a, data2=b, op=nl.add)
        nisa.activation(dst=narrow, op=nl.exp, data=b, scale=-1.0)
        nisa.tensor_reduce(dst=total, data=narrow, op=nl.add, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=b, data=narrow, op0=nl.multiply, operand0=total)
        nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.maximum)
        nisa.tensor_copy(dst=b, src=a)
        nisa.dma_copy(dst=out[start : start + 128, 0:free], src=b)
    return out


@nki.jit
def halves(x, rounds, barriers):
    """`rounds` of tiles whose columns two cores share, each ten instructions; every hundredth they swap a tile."""
    me = nl.program_id(0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    board = nl.ndarray((2, 128, 64), x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), x.dtype)
    for i in range(rounds):
        here = (slice(i * 128, i * 128 + 128), slice(64 * me, 64 * me + 64))
        nisa.dma_copy(dst=tile, src=x[here])
        for _ in range(8):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[here], src=tile)
        if i % 100 == 0:
            nisa.dma_copy(dst=board[me], src=tile)
            if barriers:
                nisa.core_barrier(board, (0, 1))
            nisa.dma_copy(dst=tile, src=board[1 - me])
            if barriers:
                nisa.core_barrier(board, (0, 1))
    return out
