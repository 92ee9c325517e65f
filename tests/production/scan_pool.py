"""A selective state-space scan, layer norm by statistics, and a convolution that adds in overlapping PSUM windows."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def selective_scan(delta, u, a, b, c, block: int = 256):
    """delta, u (C, L); a (C, S); b, c (S, L): y (C, L) of h = exp(delta a) h + delta b u, y = sum over S of h c."""
    channels, length = delta.shape
    states = a.shape[1]
    out = nl.ndarray((channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    a_tile = nl.load(a)
    carry = nl.ndarray((channels, states), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=carry, value=0.0)
    for start in nl.sequential_range(0, length, block):
        window = nl.ds(start, block)
        d, x = nl.load(delta[:, window]), nl.load(u[:, window])
        du = nl.ndarray((channels, block), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(du, d, x, nl.multiply)
        y = nl.ndarray((channels, block), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(y, 0.0)
        for s in nl.static_range(states):
            decay = nl.ndarray((channels, block), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(decay, nl.exp, d, scale=a_tile[:, s])
            rows = []
            for matrix in (b, c):
                row = nl.ndarray((channels, block), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(row, matrix[s : s + 1, window].broadcast(0, channels))
                rows.append(row)
            nisa.tensor_tensor(rows[0], rows[0], du, nl.multiply)
            h = nl.ndarray((channels, block), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(dst=h, data0=decay, data1=rows[0], initial=carry[:, s : s + 1], op0=nl.multiply,
                                    op1=nl.add)  # fmt: skip
            nisa.tensor_copy(carry[:, s : s + 1], h[:, block - 1 : block])
            nisa.tensor_tensor(h, h, rows[1], nl.multiply)
            nisa.tensor_tensor(y, y, h, nl.add)
        nisa.dma_copy(out[:, window], y)
    return out


@nki.jit
def layer_norm(x, gamma, beta, eps: float = 1e-5):
    rows, width = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    chunk = nl.tile_size.bn_stats_fmax
    chunks = (width + chunk - 1) // chunk
    stats = nl.ndarray((rows, chunks, 6), dtype=nl.float32, buffer=nl.sbuf)
    for n in range(chunks):
        nisa.bn_stats(dst=stats[:, n, :], data=tile[:, n * chunk : min(width, (n + 1) * chunk)])
    moments = nl.ndarray((rows, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_aggr(dst=moments, data=stats)
    inverse = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(inverse, moments[:, 1:2], op0=nl.add, operand0=eps, op1=nl.rsqrt, operand1=None)
    nisa.tensor_scalar(tile, tile, op0=nl.subtract, operand0=moments[:, 0:1], op1=nl.multiply, operand1=inverse)
    for vector, op in ((gamma, nl.multiply), (beta, nl.add)):
        row = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=row, src=vector.ap([[0, rows], [1, width]]))
        nisa.tensor_tensor(tile, tile, row, op)
    nisa.dma_copy(out, tile)
    return out


@nki.jit
def conv1d(x, weights):
    """x (C, L), weights (K, C, O): "full" convolution (O, L + K - 1), each tap added into a window of one bank."""
    channels, length = x.shape
    taps, _, outs = weights.shape
    acc = nl.ndarray((outs, length + taps - 1), dtype=nl.float32, buffer=nl.psum)
    tile = nl.load(x)
    for k in range(taps):
        w = nl.ndarray((channels, outs), dtype=weights.dtype, buffer=nl.sbuf)
        nisa.dma_copy(w, weights[k])
        nisa.nc_matmul(acc[:, k : k + length], w, tile)
    out = nl.ndarray((outs, length + taps - 1), dtype=nl.float32, buffer=nl.shared_hbm)
    copy = nl.ndarray(acc.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(copy, acc)
    nisa.dma_copy(out, copy)
    return out
