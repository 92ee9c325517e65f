"""5 · Rotary position embedding: views do the rearranging.

Each head's vector of D numbers is taken as D / 2 pairs (x[i], x[i + D / 2]), and pair i of position s is turned by an
angle s / theta ** (2 i / D):

    y[i]         = x[i] * cos - x[i + D / 2] * sin
    y[i + D / 2] = x[i + D / 2] * cos + x[i] * sin

Positions stand in partitions, heads and their numbers along the free dimension. Halves are slices, and a table that all
heads share is a view with a step of 0: neither costs an instruction.
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn1", "trn2", "trn3")


def inputs(positions=512, heads=16, D=128, theta=10000.0):
    """x[positions, heads, D] and the tables cos, sin[positions, D / 2], all bfloat16, as models keep them."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((positions, heads, D)).astype(ml_dtypes.bfloat16)
    angles = np.arange(positions)[:, None] * theta ** (-np.arange(0, D, 2) / D)
    return x, np.cos(angles).astype(ml_dtypes.bfloat16), np.sin(angles).astype(ml_dtypes.bfloat16)


def reference(x, cos, sin):
    first, second = np.split(x.astype(np.float64), 2, axis=2)
    cos, sin = cos.astype(np.float64)[:, None, :], sin.astype(np.float64)[:, None, :]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=2)


def rotate(y, x, cos, sin):
    """The pairs of a tile x[P, heads, D] turned into y; cos and sin are of the shape of half of it.

    The products are kept in float32, so that rounding happens once. Vector computes the first half of the result and
    GpSimd the second: they read the same tiles, and neither waits for the other.
    """
    P, H, D = x.shape
    first, second = x[:, :, 0 : D // 2], x[:, :, D // 2 : D]
    halves = [
        (y[:, :, 0 : D // 2], first, second, nl.subtract, nisa.vector_engine),
        (y[:, :, D // 2 : D], second, first, nl.add, nisa.gpsimd_engine),
    ]
    for half, straight, crossed, combine, engine in halves:
        a = nl.ndarray((P, H, D // 2), dtype=nl.float32, buffer=nl.sbuf)
        b = nl.ndarray((P, H, D // 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=a, data1=straight, data2=cos, op=nl.multiply, engine=engine)
        nisa.tensor_tensor(dst=b, data1=crossed, data2=sin, op=nl.multiply, engine=engine)
        nisa.tensor_tensor(dst=half, data1=a, data2=b, op=combine, engine=engine)


def load(source):
    """The rows of a matrix of HBM in SBUF, with one transfer."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


@nki.jit
def rope_by_head(x, cos, sin):
    """A head at a time: instructions on 64 columns, whose fixed cost is larger than their work."""
    S, H, D = x.shape
    P = nl.tile_size.pmax
    y = nl.ndarray((S, H, D), dtype=x.dtype, buffer=nl.shared_hbm)
    for s in range(S // P):
        rows = nl.ds(s * P, P)
        tile, c, w = load(x[rows]), load(cos[rows]), load(sin[rows])
        turned = nl.ndarray((P, H, D), dtype=x.dtype, buffer=nl.sbuf)
        for h in range(H):
            one = nl.ds(h, 1)
            rotate(turned[:, one, :], tile[:, one, :], c.reshape((P, 1, D // 2)), w.reshape((P, 1, D // 2)))
        nisa.dma_copy(dst=y[rows], src=turned)
    return y


@nki.jit
def rope(x, cos, sin):
    """All heads at once: the tables are read again for each head, by a view with a step of 0."""
    S, H, D = x.shape
    P = nl.tile_size.pmax
    y = nl.ndarray((S, H, D), dtype=x.dtype, buffer=nl.shared_hbm)
    for s in range(S // P):
        rows = nl.ds(s * P, P)
        tile, c, w = load(x[rows]), load(cos[rows]), load(sin[rows])
        turned = nl.ndarray((P, H, D), dtype=x.dtype, buffer=nl.sbuf)
        every_head = [[D // 2, P], [0, H], [1, D // 2]]
        rotate(turned, tile, c.ap(every_head), w.ap(every_head))
        nisa.dma_copy(dst=y[rows], src=turned)
    return y


KERNELS = (rope_by_head, rope)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
