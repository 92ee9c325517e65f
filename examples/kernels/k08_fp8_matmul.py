"""8 · fp8 matrix product: half the bytes, twice the rows.

float8_e4m3 has three bits of mantissa and a largest value of 240. Numbers are kept in it with scales: here one for each
row of the left matrix and one for each column of the right, the largest magnitude there divided by 240. Products of the
8-bit numbers are exact in float32, sums are float32, and both scales are applied once, to the sums.

The Tensor Engine gains nothing from narrow numbers by themselves. With `perf_mode=double_row`, from NeuronCore-v3 on,
it takes two rows of the contraction in each partition: operands are [128, 2, columns], and a contraction of 256 takes
the time of one of 128. (MFU is a share of this rate, so that single rows reach half of it at most.) Which rows share a
partition is free, as long as both operands agree: rows that follow each other in HBM come in one long descriptor.
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn2", "trn3")
LARGEST = 240.0  # of float8_e4m3
DEPTH = 4  # rows of the contraction that a partition gets with one transfer


def quantized(matrix):
    """The columns of a float matrix in fp8, and their scales [1, columns]."""
    scale = (np.max(np.abs(matrix), axis=0, keepdims=True) / LARGEST).astype(np.float32)
    return (matrix / scale).astype(ml_dtypes.float8_e4m3), scale


def inputs(K=2048, M=512, N=1024):
    """lhs_t[K, M] and rhs[K, N] in fp8 with scales [M, 1] and [1, N]; K is a multiple of 512, M of 128, N of 512."""
    rng = np.random.default_rng(8)
    lhs_t, lhs_scale = quantized(rng.standard_normal((K, M)))
    rhs, rhs_scale = quantized(rng.standard_normal((K, N)))
    return lhs_t, rhs, lhs_scale.T, rhs_scale


def reference(lhs_t, rhs, lhs_scale, rhs_scale):
    return lhs_t.astype(np.float64).T @ rhs.astype(np.float64) * lhs_scale * rhs_scale


def load(matrix, k):
    """Block k of a matrix, [128, DEPTH, columns]: DEPTH rows that follow each other in HBM for each partition."""
    columns = matrix.shape[1]
    block = nl.ndarray((128, DEPTH, columns), dtype=matrix.dtype, buffer=nl.sbuf)
    rows = matrix[nl.ds(k * 128 * DEPTH, 128 * DEPTH), :]
    nisa.dma_copy(dst=block, src=rows.reshape((128, DEPTH, columns)))
    return block


def load_scales(lhs_scale, rhs_scale):
    """Scales of rows, [128, M / 128], and of columns, [128, N], the same in all partitions."""
    M, N = lhs_scale.shape[0], rhs_scale.shape[1]
    of_rows = nl.ndarray((128, M // 128), dtype=nl.float32, buffer=nl.sbuf)
    of_columns = nl.ndarray((128, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=of_rows, src=lhs_scale.ap([[1, 128], [128, M // 128]]))
    nisa.dma_copy(dst=of_columns, src=rhs_scale.ap([[0, 128], [1, N]]))
    return of_rows, of_columns


def store(result, total, m, n, scales):
    """A tile of sums out of PSUM, times its scales, into the result: one instruction and one transfer."""
    of_rows, of_columns = scales
    columns = nl.ds(n * 512, 512)
    scaled = nl.ndarray((128, 512), dtype=result.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=scaled, data=total, op0=nl.multiply, operand0=of_rows[:, nl.ds(m, 1)],
        op1=nl.multiply, operand1=of_columns[:, columns],
    )  # fmt: skip
    nisa.dma_copy(dst=result[nl.ds(m * 128, 128), columns], src=scaled)


def multiply(total, left, right, rows, columns, double):
    """The product of two blocks, added to a tile of sums: DEPTH instructions, or half as many of two rows each."""
    if double:
        for d in range(0, DEPTH, 2):
            pair = nl.ds(d, 2)
            nisa.nc_matmul(
                dst=total,
                stationary=left[:, pair, rows],
                moving=right[:, pair, columns],
                perf_mode=nisa.matmul_perf_mode.double_row,
            )
    else:
        for d in range(DEPTH):
            nisa.nc_matmul(dst=total, stationary=left[:, d, rows], moving=right[:, d, columns])


def product(lhs_t, rhs, lhs_scale, rhs_scale, double):
    """The product in tiles of a bank of PSUM each, all open at once, so that products follow the loads."""
    (K, M), N = lhs_t.shape, rhs.shape[1]
    assert (M // 128) * (N // 512) <= 8, "more tiles of the result than banks"
    result = nl.ndarray((M, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tiles, totals = [], []
    for m in range(M // 128):
        for n in range(N // 512):
            tiles.append((m, n))
            totals.append(nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum))
    for k in range(K // (128 * DEPTH)):
        left, right = load(lhs_t, k), load(rhs, k)
        for (m, n), total in zip(tiles, totals):
            multiply(total, left, right, nl.ds(m * 128, 128), nl.ds(n * 512, 512), double)
    scales = load_scales(lhs_scale, rhs_scale)
    for (m, n), total in zip(tiles, totals):
        store(result, total, m, n, scales)
    return result


@nki.jit
def fp8_single_row(lhs_t, rhs, lhs_scale, rhs_scale):
    """fp8 as any other dtype: a contraction of 128 in each instruction."""
    return product(lhs_t, rhs, lhs_scale, rhs_scale, double=False)


@nki.jit
def fp8_double_row(lhs_t, rhs, lhs_scale, rhs_scale):
    """Two rows in each partition: a contraction of 256 in each instruction, and half as many of them."""
    return product(lhs_t, rhs, lhs_scale, rhs_scale, double=True)


KERNELS = (fp8_single_row, fp8_double_row)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
