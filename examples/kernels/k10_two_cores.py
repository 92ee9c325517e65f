"""10 · Two cores: a feed-forward layer, y = silu(x W1) W2, on a logical core that is two physical ones.

`kernel[2]` runs the kernel on both cores of a pair. Each has its own engines, SBUF and PSUM; HBM is shared, and so is
what is allocated in `nl.shared_hbm`. A core asks `nl.program_id(0)` which one it is, and is compiled for the answer.

The hidden dimension is cut in two: each core takes half of the columns of W1 and the same half of the rows of W2. Up to
the last sum neither needs anything of the other. Then each has a partial result for all outputs, and is to add up half
of them: what the other core is to add up is sent there.

Everything stays transposed, [dimension, token]: the result of the first product has the hidden dimension in partitions,
which is what the second one contracts over.
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn2", "trn3")  # pairs of cores come with NeuronCore-v3
P = 128


def inputs(D=512, hidden=4096, tokens=512):
    """x[D, tokens], w1[D, hidden], w2[hidden, D] in bfloat16; D and hidden are multiples of 256, tokens at most 512."""
    rng = np.random.default_rng(10)
    x = rng.standard_normal((D, tokens)).astype(ml_dtypes.bfloat16)
    w1 = (rng.standard_normal((D, hidden)) / np.sqrt(D)).astype(ml_dtypes.bfloat16)
    return x, w1, (rng.standard_normal((hidden, D)) / np.sqrt(hidden)).astype(ml_dtypes.bfloat16)


def reference(x, w1, w2):
    x, w1, w2 = (tensor.astype(np.float64) for tensor in (x, w1, w2))
    before = w1.T @ x
    return w2.T @ (before / (1 + np.exp(-before)))


def load_blocks(matrix):
    """A matrix of HBM in SBUF, a tile for each 128 rows."""
    rows, columns = matrix.shape
    blocks = []
    for k in range(rows // P):
        block = nl.ndarray((P, columns), dtype=matrix.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=block, src=matrix[nl.ds(k * P, P), :])
        blocks.append(block)
    return blocks


def contract(weights, moving, column):
    """weights' * moving, summed over all blocks, for the 128 columns of the weights from `column` on; in PSUM."""
    total = nl.ndarray((P, moving[0].shape[1]), dtype=nl.float32, buffer=nl.psum)
    for k in range(len(weights)):
        nisa.nc_matmul(dst=total, stationary=weights[k][:, nl.ds(column, P)], moving=moving[k])
    return total


def half_layer(x, w1, w2, me, cores):
    """A core's part of silu(x W1), and the rows of W2 that it meets."""
    hidden = w1.shape[1]
    share = nl.ds(me * (hidden // cores), hidden // cores)
    moving, up = load_blocks(x), load_blocks(w1[:, share])
    down = load_blocks(w2[share, :])
    between = []
    for f in range(hidden // cores // P):
        active = nl.ndarray((P, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=active, op=nl.silu, data=contract(up, moving, f * P))
        between.append(active)
    return between, down


def store(y, row, total):
    """128 rows of the result, rounded."""
    rounded = nl.ndarray(total.shape, dtype=y.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rounded, src=total)
    nisa.dma_copy(dst=y[nl.ds(row, P), :], src=rounded)


@nki.jit
def layer(x, w1, w2):
    """The layer on one core."""
    D, T = x.shape
    y = nl.ndarray((D, T), dtype=x.dtype, buffer=nl.shared_hbm)
    between, down = half_layer(x, w1, w2, 0, 1)
    for row in range(0, D, P):
        store(y, row, contract(down, between, row))
    return y


@nki.jit
def layer_through_hbm(x, w1, w2):
    """On two cores, which write what is for the other one to HBM, and wait for each other before they read.

    `core_barrier` orders the writes before it against the reads after it, on both cores. Everything is exchanged at
    once: each barrier waits for the slower core.
    """
    D, T = x.shape
    me = nl.program_id(0)
    y = nl.ndarray((D, T), dtype=x.dtype, buffer=nl.shared_hbm)
    board = nl.ndarray((D, T), dtype=nl.float32, buffer=nl.shared_hbm)
    between, down = half_layer(x, w1, w2, me, 2)
    for row in range((1 - me) * (D // 2), (2 - me) * (D // 2), P):
        partial = nl.ndarray((P, T), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=partial, src=contract(down, between, row))
        nisa.dma_copy(dst=board[nl.ds(row, P), :], src=partial)
    nisa.core_barrier(data=board, cores=(0, 1))
    for row in range(me * (D // 2), (me + 1) * (D // 2), P):
        partial = nl.ndarray((P, T), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=partial, src=board[nl.ds(row, P), :])
        nisa.tensor_tensor(dst=partial, data1=partial, data2=contract(down, between, row), op=nl.add)
        store(y, row, partial)
    return y


@nki.jit
def layer_by_exchange(x, w1, w2):
    """On two cores, which exchange tiles from SBUF to SBUF.

    Each `sendrecv` sends 128 rows of partial sums and receives the other core's for rows that this one adds up. They go
    out one by one as they are done, and while they are under way the Tensor Engine computes this core's own part.
    """
    D, T = x.shape
    me = nl.program_id(0)
    other = 1 - me
    y = nl.ndarray((D, T), dtype=x.dtype, buffer=nl.shared_hbm)
    between, down = half_layer(x, w1, w2, me, 2)
    received = []
    for row in range(0, D // 2, P):
        sent = nl.ndarray((P, T), dtype=nl.float32, buffer=nl.sbuf)
        received.append(nl.ndarray((P, T), dtype=nl.float32, buffer=nl.sbuf))
        nisa.tensor_copy(dst=sent, src=contract(down, between, other * (D // 2) + row))
        nisa.sendrecv(src=sent, dst=received[-1], send_to_rank=other, recv_from_rank=other, pipe_id=0)
    for i, partial in enumerate(received):
        row = me * (D // 2) + i * P
        nisa.tensor_tensor(dst=partial, data1=partial, data2=contract(down, between, row), op=nl.add)
        store(y, row, partial)
    return y


KERNELS = (layer, layer_through_hbm[2], layer_by_exchange[2])

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
