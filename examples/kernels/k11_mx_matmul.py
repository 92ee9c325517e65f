"""11 · Microscaling matrix product, on NeuronCore-v4: 8-bit numbers with a scale for each 32, four rows in a partition.

In an MX format 32 numbers share a scale, a power of two that is stored as one byte. One outlier then costs 31
neighbours their precision, and not a whole row. Nobody has to know scales beforehand: `quantize_mx` takes a bfloat16
tile, finds the scales, and packs four 8-bit numbers into one element. `nc_matmul_mx` multiplies packed tiles: 512 rows
of the contraction in the time of 128.

The four numbers of an element are four rows of the contraction, so they have to stand side by side in a partition for
`quantize_mx`, while in HBM they stand below each other. Partition p gets the rows 4 p to 4 p + 3, in one descriptor; a
view then reads them column by column. The 32 numbers of a scale, 8 partitions by 4, are thereby 32 rows that follow
each other, of one column.
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn3",)
ROWS = 512  # of the contraction in a tile: 128 partitions, four in each element


def inputs(K=2048, M=512, N=1024):
    """bfloat16 matrices lhs_t[K, M] and rhs[K, N]; K is a multiple of 512, M of 128, N of 512."""
    rng = np.random.default_rng(11)
    lhs_t = rng.standard_normal((K, M)).astype(ml_dtypes.bfloat16)
    return lhs_t, rng.standard_normal((K, N)).astype(ml_dtypes.bfloat16)


def quantized(matrix):
    """The matrix as MX keeps it: every 32 rows of a column are 8-bit numbers times a power of two."""
    blocks = matrix.astype(np.float64).reshape(-1, 32, matrix.shape[1])
    _, exponent = np.frexp(np.abs(blocks).max(axis=1, keepdims=True))
    scale = 2.0 ** (exponent - 8)  # below 256 then, and 448 is the largest float8_e4m3fn
    return ((blocks / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale).reshape(matrix.shape)


def reference(lhs_t, rhs):
    """The product of what quantization left."""
    return quantized(lhs_t).T @ quantized(rhs)


def quantize(matrix, k):
    """Block k of a matrix, 512 rows: packed [128, columns], and its scales."""
    columns = matrix.shape[1]
    block = nl.ndarray((128, 4, columns), dtype=matrix.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=block, src=matrix[nl.ds(k * ROWS, ROWS), :].reshape((128, 4, columns)))
    packed = nl.ndarray((128, columns), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    scales = nl.ndarray((128, columns), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=block.permute((0, 2, 1)), dst_scale=scales)
    return packed, scales


@nki.jit
def mx_matmul(lhs_t, rhs):
    """The product of matrices that are quantized on the way."""
    (K, M), N = lhs_t.shape, rhs.shape[1]
    assert (M // 128) * (N // 512) <= 8, "more tiles of the result than banks"
    result = nl.ndarray((M, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tiles, totals = [], []
    for m in range(M // 128):
        for n in range(N // 512):
            tiles.append((nl.ds(m * 128, 128), nl.ds(n * 512, 512)))
            totals.append(nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum))
    for k in range(K // ROWS):
        left, left_scales = quantize(lhs_t, k)
        right, right_scales = quantize(rhs, k)
        for (rows, columns), total in zip(tiles, totals):
            nisa.nc_matmul_mx(
                dst=total,
                stationary=left[:, rows],
                moving=right[:, columns],
                stationary_scale=left_scales[:, rows],
                moving_scale=right_scales[:, columns],
            )
    for (rows, columns), total in zip(tiles, totals):
        rounded = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=rounded, src=total)
        nisa.dma_copy(dst=result[rows, columns], src=rounded)
    return result


KERNELS = (mx_matmul,)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
