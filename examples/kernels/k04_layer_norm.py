"""4 · Layer norm: statistics of a row, and weights that all rows share.

y = (x - mean) / sqrt(variance + eps) * gamma + beta, for each row. Rows stand in partitions: mean and deviation are one
number for a partition, which instructions take as a scalar operand. gamma and beta are the other way round, one number
for a column and the same in all partitions. Nothing on the chip broadcasts from partition to partition for free, but a
transfer may read one row of HBM 128 times: the access pattern has a step of 0. That happens once for all tiles.
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn1", "trn2", "trn3")
EPSILON = 1e-5


def inputs(rows=512, columns=2048):
    """bfloat16 rows, float32 weights; rows is a multiple of 128."""
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((rows, columns)) * 2 + 1).astype(ml_dtypes.bfloat16)
    gamma = (1 + 0.1 * rng.standard_normal((1, columns))).astype(np.float32)
    beta = (0.1 * rng.standard_normal((1, columns))).astype(np.float32)
    return x, gamma, beta


def reference(x, gamma, beta):
    x = x.astype(np.float64)
    apart = x - x.mean(axis=1, keepdims=True)
    return apart / np.sqrt((apart**2).mean(axis=1, keepdims=True) + EPSILON) * gamma + beta


def in_all_partitions(row):
    """A row of HBM, [1, C], in every partition of a tile."""
    C = row.shape[1]
    tile = nl.ndarray((nl.tile_size.pmax, C), dtype=row.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=row.ap([[0, nl.tile_size.pmax], [1, C]]))
    return tile


@nki.jit
def layer_norm_as_written(x, gamma, beta):
    """Mean, deviations, their squares, variance: seven passes, all of Vector."""
    R, C = x.shape
    P = nl.tile_size.pmax
    y = nl.ndarray((R, C), dtype=x.dtype, buffer=nl.shared_hbm)
    scale, shift = in_all_partitions(gamma), in_all_partitions(beta)
    for r in range(R // P):
        rows = nl.ds(r * P, P)
        tile = nl.ndarray((P, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows, :])
        mean = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=mean, op=nl.add, data=tile, axis=1)
        nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1 / C)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=mean)
        squares = nl.ndarray((P, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=squares, data1=tile, data2=tile, op=nl.multiply)
        variance = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=variance, op=nl.add, data=squares, axis=1)
        nisa.tensor_scalar(dst=variance, data=variance, op0=nl.multiply, operand0=1 / C)
        inverse = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=inverse, data=variance, op0=nl.add, operand0=EPSILON, op1=nl.power, operand1=-0.5)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=inverse)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=scale, op=nl.multiply)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=shift, op=nl.add)
        nisa.dma_copy(dst=y[rows, :], src=tile)
    return y


@nki.jit
def layer_norm(x, gamma, beta):
    """bn_stats gives mean and variance in one pass, and each engine hands on to the next.

    Vector takes the statistics: of up to 512 columns with one `bn_stats`, merged by `bn_aggr`. Scalar normalises: x *
    inverse - mean * inverse is a scale and a bias for each partition. GpSimd multiplies by gamma and adds beta. Engines
    take their instructions in order; because nothing is handed back, Vector is a tile ahead of Scalar and two ahead of
    GpSimd. Tiles stay bfloat16 where they are only read: half the bytes, and engines compute in float32 anyway.
    """
    R, C = x.shape
    P = nl.tile_size.pmax
    F = nl.tile_size.bn_stats_fmax
    y = nl.ndarray((R, C), dtype=x.dtype, buffer=nl.shared_hbm)
    scale, shift = in_all_partitions(gamma), in_all_partitions(beta)
    epsilon = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=epsilon, value=EPSILON)
    for r in range(R // P):
        rows = nl.ds(r * P, P)
        tile = nl.ndarray((P, C), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows, :])
        # Vector
        parts = nl.ndarray((P, 6 * (C // F)), dtype=nl.float32, buffer=nl.sbuf)
        for f in range(C // F):
            nisa.bn_stats(dst=parts[:, nl.ds(6 * f, 6)], data=tile[:, nl.ds(f * F, F)])
        statistics = nl.ndarray((P, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.bn_aggr(dst=statistics, data=parts)
        minus_mean = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=minus_mean, data=statistics[:, 0:1], op0=nl.multiply, operand0=-1.0)
        # Scalar
        inverse = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=inverse, op=nl.rsqrt, data=statistics[:, 1:2], bias=epsilon)
        offset = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=offset, op=nl.copy, data=minus_mean, scale=inverse)
        normal = nl.ndarray((P, C), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=normal, op=nl.copy, data=tile, scale=inverse, bias=offset)
        # GpSimd
        nisa.tensor_tensor(dst=normal, data1=normal, data2=scale, op=nl.multiply, engine=nisa.gpsimd_engine)
        rounded = nl.ndarray((P, C), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=rounded, data1=normal, data2=shift, op=nl.add, engine=nisa.gpsimd_engine)
        nisa.dma_copy(dst=y[rows, :], src=rounded)
    return y


KERNELS = (layer_norm_as_written, layer_norm)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
