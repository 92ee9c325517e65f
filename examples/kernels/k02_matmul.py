"""2 · Matrix product, in five stages.

The Tensor Engine multiplies a stationary tile, up to 128 x 128, by a moving tile, up to 128 x 512, and adds the product
to PSUM. Both have the contraction in their partitions, so the left matrix comes transposed: lhs_t[K, M], rhs[K, N],
result[M, N]. The product is the same in all stages; what changes is when tiles are loaded, how large the loads are,
and in which order the products come.
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn1", "trn2", "trn3")


def inputs(K=1024, M=512, N=1024):
    """bfloat16 matrices; K and M are multiples of 128, N of 1024."""
    rng = np.random.default_rng(2)
    lhs_t = rng.standard_normal((K, M)).astype(ml_dtypes.bfloat16)
    rhs = rng.standard_normal((K, N)).astype(ml_dtypes.bfloat16)
    return lhs_t, rhs


def reference(lhs_t, rhs):
    return lhs_t.astype(np.float64).T @ rhs.astype(np.float64)


@nki.jit
def load_each(lhs_t, rhs):
    """Stage 1: load both tiles before each product. Each tile of lhs_t comes N / 512 times, each of rhs M / 128."""
    (K, M), N = lhs_t.shape, rhs.shape[1]
    result = nl.ndarray((M, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    for m in range(M // 128):
        for n in range(N // 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(K // 128):
                stationary = nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf)
                moving = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=stationary, src=lhs_t[nl.ds(k * 128, 128), nl.ds(m * 128, 128)])
                nisa.dma_copy(dst=moving, src=rhs[nl.ds(k * 128, 128), nl.ds(n * 512, 512)])
                nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
            rounded = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(dst=rounded, src=total)
            nisa.dma_copy(dst=result[nl.ds(m * 128, 128), nl.ds(n * 512, 512)], src=rounded)
    return result


@nki.jit
def load_once(lhs_t, rhs):
    """Stage 2: load every tile once and keep it. SBUF has room: both matrices take a few KiB of each partition."""
    (K, M), N = lhs_t.shape, rhs.shape[1]
    result = nl.ndarray((M, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    left, right = [], []
    for k in range(K // 128):
        rows = nl.ds(k * 128, 128)
        left.append([])
        right.append([])
        for m in range(M // 128):
            left[k].append(nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf))
            nisa.dma_copy(dst=left[k][m], src=lhs_t[rows, nl.ds(m * 128, 128)])
        for n in range(N // 512):
            right[k].append(nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf))
            nisa.dma_copy(dst=right[k][n], src=rhs[rows, nl.ds(n * 512, 512)])
    for m in range(M // 128):
        for n in range(N // 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(K // 128):
                nisa.nc_matmul(dst=total, stationary=left[k][m], moving=right[k][n])
            rounded = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(dst=rounded, src=total)
            nisa.dma_copy(dst=result[nl.ds(m * 128, 128), nl.ds(n * 512, 512)], src=rounded)
    return result


def load_blocks(lhs_t, rhs):
    """Both matrices in SBUF: a block for each 128 rows, with one transfer, in the order in which k needs them."""
    K = lhs_t.shape[0]
    left, right = [], []
    for k in range(K // 128):
        rows = nl.ds(k * 128, 128)
        left.append(nl.ndarray((128, lhs_t.shape[1]), dtype=lhs_t.dtype, buffer=nl.sbuf))
        right.append(nl.ndarray((128, rhs.shape[1]), dtype=rhs.dtype, buffer=nl.sbuf))
        nisa.dma_copy(dst=left[k], src=lhs_t[rows, :])
        nisa.dma_copy(dst=right[k], src=rhs[rows, :])
    return left, right


@nki.jit
def load_wide(lhs_t, rhs):
    """Stage 3: tiles that stand side by side in HBM come with one transfer, in rows of 1 and 2 KiB instead of 256 B."""
    (_, M), N = lhs_t.shape, rhs.shape[1]
    result = nl.ndarray((M, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    left, right = load_blocks(lhs_t, rhs)
    for m in range(M // 128):
        for n in range(N // 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(len(left)):
                nisa.nc_matmul(
                    dst=total,
                    stationary=left[k][:, nl.ds(m * 128, 128)],
                    moving=right[k][:, nl.ds(n * 512, 512)],
                )
            rounded = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(dst=rounded, src=total)
            nisa.dma_copy(dst=result[nl.ds(m * 128, 128), nl.ds(n * 512, 512)], src=rounded)
    return result


def open_sums(tiles):
    """A bank of PSUM for each tile of the result."""
    totals = []
    for _ in tiles:
        totals.append(nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum))
    return totals


@nki.jit
def follow_loads(lhs_t, rhs):
    """Stage 4: the contraction is the outer loop, so that products start with the first block instead of the last.

    A sum then stays open until the last k, and there are eight banks of PSUM to keep open ones in. So the result here
    has eight tiles: M = 512, N = 1024.
    """
    (K, M), N = lhs_t.shape, rhs.shape[1]
    assert (M // 128) * (N // 512) <= 8, "more tiles of the result than banks"
    result = nl.ndarray((M, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tiles = []
    for m in range(M // 128):
        for n in range(N // 512):
            tiles.append((nl.ds(m * 128, 128), nl.ds(n * 512, 512)))
    totals = open_sums(tiles)
    left, right = load_blocks(lhs_t, rhs)
    for k in range(K // 128):
        for i, (rows, columns) in enumerate(tiles):
            nisa.nc_matmul(dst=totals[i], stationary=left[k][:, rows], moving=right[k][:, columns])
    for i, (rows, columns) in enumerate(tiles):
        rounded = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=rounded, src=totals[i])
        nisa.dma_copy(dst=result[rows, columns], src=rounded)
    return result


@nki.jit
def finish_in_turn(lhs_t, rhs):
    """Stage 5: the sums are finished one after the other, so that one leaves PSUM while the next is still computed.

    Loads and products overlap as long as k is the outer loop. Copies and products overlap as long as k is the inner
    one. The first three quarters of the contraction go the first way; by then the rest has been loaded, and goes the
    second way. The copies out of PSUM alternate between Scalar and Vector, which have nothing else to do.
    """
    (K, M), N = lhs_t.shape, rhs.shape[1]
    assert (M // 128) * (N // 512) <= 8, "more tiles of the result than banks"
    result = nl.ndarray((M, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tiles = []
    for m in range(M // 128):
        for n in range(N // 512):
            tiles.append((nl.ds(m * 128, 128), nl.ds(n * 512, 512)))
    totals = open_sums(tiles)
    left, right = load_blocks(lhs_t, rhs)
    turn = K // 128 * 3 // 4
    for k in range(turn):
        for i, (rows, columns) in enumerate(tiles):
            nisa.nc_matmul(dst=totals[i], stationary=left[k][:, rows], moving=right[k][:, columns])
    for i, (rows, columns) in enumerate(tiles):
        for k in range(turn, K // 128):
            nisa.nc_matmul(dst=totals[i], stationary=left[k][:, rows], moving=right[k][:, columns])
        rounded = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        if i % 2:
            nisa.activation(dst=rounded, op=nl.copy, data=totals[i])
        else:
            nisa.tensor_copy(dst=rounded, src=totals[i])
        nisa.dma_copy(dst=result[rows, columns], src=rounded)
    return result


KERNELS = (load_each, load_once, load_wide, follow_loads, finish_in_turn)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
