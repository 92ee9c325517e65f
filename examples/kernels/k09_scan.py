"""9 · Selective scan: the state-space model of Mamba, one layer of it.

For each channel c and each of N states, along time t:

    h[n, t] = exp(delta[t] * A[c, n]) * h[n, t - 1] + delta[t] * u[t] * B[n, t]
    y[t]    = sum over n of C[n, t] * h[n, t]  +  D[c] * u[t]

A recurrence looks serial, and on the Vector Engine it is one instruction: `tensor_tensor_scan` with multiply and add
walks along the free dimension and keeps its state in float32. So channels stand in partitions and time runs along the
free dimension. Rows B[n] and C[n] are shared by all channels: a transfer repeats them in every partition.

All else is dealt out. Scalar computes the exponentials, whose scale is A[c, n], a number for each partition. GpSimd
multiplies the inputs by B. The sum over n is a product with the identity, which PSUM adds up: the Tensor Engine has
nothing else to do.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn1", "trn2", "trn3")
P = 128
STEPS = 512  # of time in a tile: a bank of PSUM


def inputs(channels=256, N=8, time=1024):
    """delta, u [channels, time], A [channels, N], B, C [N, time], D [channels, 1], all float32."""
    rng = np.random.default_rng(9)
    delta = np.log1p(np.exp(rng.standard_normal((channels, time)) - 2)).astype(np.float32)
    u = rng.standard_normal((channels, time)).astype(np.float32)
    A = -np.exp(rng.standard_normal((channels, N)) * 0.5).astype(np.float32)
    B, C = rng.standard_normal((N, time)).astype(np.float32), rng.standard_normal((N, time)).astype(np.float32)
    return delta, u, A, B, C, rng.standard_normal((channels, 1)).astype(np.float32)


def reference(delta, u, A, B, C, D):
    delta, u = delta.astype(np.float64), u.astype(np.float64)
    h = np.zeros(A.shape)
    y = np.empty(u.shape)
    for t in range(u.shape[1]):
        h = np.exp(delta[:, t, None] * A) * h + (delta[:, t] * u[:, t])[:, None] * B[:, t]
        y[:, t] = h @ C[:, t].astype(np.float64)
    return y + D * u


def load(source):
    """A block of HBM in SBUF."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def in_all_partitions(rows, n, t):
    """Row n of a matrix [N, time] in every partition: tile t of its time."""
    tile = nl.ndarray((P, STEPS), dtype=rows.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=rows.ap([[0, P], [1, STEPS]], offset=n * rows.shape[1] + t * STEPS))
    return tile


def identity_matrix():
    """The identity in SBUF."""
    ones = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
    identity = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    nisa.affine_select(
        dst=identity, pattern=[[-1, P]], channel_multiplier=1, on_true_tile=ones, on_false_value=0.0, cmp_op=nl.equal
    )
    return identity


def product(a, b, engine):
    """a * b, a tile of float32."""
    result = nl.ndarray((P, STEPS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=a, data2=b, op=nl.multiply, engine=engine)
    return result


def decay(delta, a):
    """exp(delta * a), where a is a number for each channel."""
    result = nl.ndarray((P, STEPS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.exp, data=delta, scale=a)
    return result


def recur(decayed, added, initial):
    """h[t] = decayed[t] * h[t - 1] + added[t], from an initial state."""
    h = nl.ndarray((P, STEPS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(dst=h, data0=decayed, data1=added, initial=initial, op0=nl.multiply, op1=nl.add)
    return h


@nki.jit
def scan_on_vector(delta, u, A, B, C, D):
    """All arithmetic on Vector: for each state two products, a sum, and the scan."""
    channels, time = u.shape
    N = A.shape[1]
    y = nl.ndarray((channels, time), dtype=u.dtype, buffer=nl.shared_hbm)
    for c in range(channels // P):
        rows = nl.ds(c * P, P)
        a, d = load(A[rows, :]), load(D[rows, :])
        states = [0.0] * N
        for t in range(time // STEPS):
            steps = nl.ds(t * STEPS, STEPS)
            dt, x = load(delta[rows, steps]), load(u[rows, steps])
            driven = product(dt, x, nisa.vector_engine)
            acc = nl.ndarray((P, STEPS), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=acc, data=x, op0=nl.multiply, operand0=d)
            for n in range(N):
                added = product(driven, in_all_partitions(B, n, t), nisa.vector_engine)
                h = recur(decay(dt, a[:, nl.ds(n, 1)]), added, states[n])
                states[n] = h[:, STEPS - 1 : STEPS]
                seen = product(h, in_all_partitions(C, n, t), nisa.vector_engine)
                nisa.tensor_tensor(dst=acc, data1=acc, data2=seen, op=nl.add)
            nisa.dma_copy(dst=y[rows, steps], src=acc)
    return y


def open_block(t, c, delta, u):
    """What the states of 128 channels share over a tile of time: the inputs, delta * u, and the sum of the output."""
    rows, steps = nl.ds(c * P, P), nl.ds(t * STEPS, STEPS)
    dt, x = load(delta[rows, steps]), load(u[rows, steps])
    total = nl.ndarray((P, STEPS), dtype=nl.float32, buffer=nl.psum)
    return dt, x, product(dt, x, nisa.gpsimd_engine), total


@nki.jit
def selective_scan(delta, u, A, B, C, D):
    """Vector scans, and the other engines take the rest.

    GpSimd has a product before each scan and one after it. Issued in that order, the product before the next scan would
    stand behind the one that waits for this scan. So what a scan needs is issued two states ahead. Time is the outer
    loop: B and C come once for all channels, and the states stay in SBUF.
    """
    channels, time = u.shape
    N = A.shape[1]
    y = nl.ndarray((channels, time), dtype=u.dtype, buffer=nl.shared_hbm)
    identity = identity_matrix()
    a, d, states, items = [], [], [], []
    for c in range(channels // P):
        a.append(load(A[nl.ds(c * P, P), :]))
        d.append(load(D[nl.ds(c * P, P), :]))
        states.append([0.0] * N)
    for t in range(time // STEPS):
        for c in range(channels // P):
            for n in range(N):
                items.append((t, c, n))
    b, w, blocks, ready = [], [], [], []
    for i in range(len(items) + 2):
        if i < len(items):
            t, c, n = items[i]
            if n == 0:
                blocks.append(open_block(t, c, delta, u))
            if c == 0:
                b.append(in_all_partitions(B, n, t))
                w.append(in_all_partitions(C, n, t))
            dt, _, driven, _ = blocks[-1]
            ready.append(
                (blocks[-1], decay(dt, a[c][:, nl.ds(n, 1)]), product(driven, b[t * N + n], nisa.gpsimd_engine))
            )
        if i >= 2:
            t, c, n = items[i - 2]
            (_, x, _, total), decayed, added = ready[i - 2]
            h = recur(decayed, added, states[c][n])
            states[c][n] = h[:, STEPS - 1 : STEPS]
            nisa.nc_matmul(dst=total, stationary=identity, moving=product(h, w[t * N + n], nisa.gpsimd_engine))
            if n == N - 1:
                out = nl.ndarray((P, STEPS), dtype=u.dtype, buffer=nl.sbuf)
                nisa.scalar_tensor_tensor(dst=out, data=x, op0=nl.multiply, operand0=d[c], op1=nl.add, operand1=total)
                nisa.dma_copy(dst=y[nl.ds(c * P, P), nl.ds(t * STEPS, STEPS)], src=out)
    return y


KERNELS = (scan_on_vector, selective_scan)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
