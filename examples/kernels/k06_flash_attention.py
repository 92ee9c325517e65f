"""6 · Flash attention, forward: softmax(q k' * scale) v, without ever holding the matrix of scores.

Queries stand in partitions, 128 at a time; keys pass by in tiles of 512. For each query the kernel keeps the largest
score so far, the sum of the exponentials, and the weighted sum of the values. Where a tile brings a larger score, what
was summed before is scaled down: exp(old - new) is one number for a partition. Statistics and sums are float32,
products take bfloat16 and add up in PSUM.

Layouts follow the Tensor Engine, which contracts along partitions. Scores contract over D: q and k come as [D, S]. The
product with v contracts over keys: v comes as [S, D], and the exponentials, which have queries in their partitions, are
transposed on the way, by the Tensor Engine itself.

A causal mask costs next to nothing. Tiles beyond the diagonal are left out. The tile on the diagonal is cut behind it,
and a product of the identity and a triangle of large negative numbers adds the mask to the scores in PSUM.
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn1", "trn2", "trn3")
P = 128  # queries at a time; the diagonal is cut in blocks of as many keys
KEYS = 512  # at a time: the widest moving tile, and one bank of PSUM
MASKED = -30000.0


def inputs(heads=2, S=1024, D=128):
    """q[heads, D, S], k[heads, D, S], v[heads, S, D] in bfloat16; D is at most 128, S a multiple of 512."""
    rng = np.random.default_rng(6)
    q, k = (rng.standard_normal((heads, D, S)).astype(ml_dtypes.bfloat16) for _ in range(2))
    return q, k, rng.standard_normal((heads, S, D)).astype(ml_dtypes.bfloat16)


def reference(q, k, v, causal=True):
    q, k, v = (tensor.astype(np.float64) for tensor in (q, k, v))
    S = q.shape[2]
    scores = q.transpose(0, 2, 1) @ k / np.sqrt(q.shape[1])
    if causal:
        scores = np.where(np.tri(S, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    return powers / powers.sum(axis=2, keepdims=True) @ v


def constants(dtype):
    """The identity, and what is added to the scores of a diagonal block: row is the query, column the key."""
    zeros = nl.ndarray((P, P), dtype=dtype, buffer=nl.sbuf)
    ones = nl.ndarray((P, P), dtype=dtype, buffer=nl.sbuf)
    identity = nl.ndarray((P, P), dtype=dtype, buffer=nl.sbuf)
    triangle = nl.ndarray((P, P), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    nisa.memset(dst=ones, value=1.0)
    # affine_select compares offset + row * channel_multiplier + column * step with 0.
    nisa.affine_select(
        dst=identity, pattern=[[-1, P]], channel_multiplier=1, on_true_tile=ones, on_false_value=0.0, cmp_op=nl.equal
    )
    nisa.affine_select(
        dst=triangle, pattern=[[-1, P]], channel_multiplier=1, on_true_tile=zeros, on_false_value=MASKED,
        cmp_op=nl.greater_equal,
    )  # fmt: skip
    return identity, triangle


def load_head(q, k, v, h):
    """A head in SBUF: q[D, S], k[D, S], and v[P, S / P, D], of which [:, b] are the keys of block b."""
    _, D, S = q.shape
    queries = nl.ndarray((D, S), dtype=q.dtype, buffer=nl.sbuf)
    keys = nl.ndarray((D, S), dtype=k.dtype, buffer=nl.sbuf)
    values = nl.ndarray((P, S // P, D), dtype=v.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=keys, src=k[h])
    nisa.dma_copy(dst=queries, src=q[h])
    nisa.dma_copy(dst=values, src=v.ap([[D, P], [P * D, S // P], [1, D]], offset=h * S * D))
    return queries, keys, values


def tiles_of(H, S, causal):
    """For each tile of scores: its head, its block of queries, its first key, how many keys, and whether it is last."""
    tiles = []
    for h in range(H):
        for block in range(S // P):
            seen = (block + 1) * P if causal else S
            for first in range(0, seen, KEYS):
                width = min(KEYS, seen - first)
                tiles.append((h, block, first, width, first + width == seen))
    return tiles


def weigh(head, tile, bias, constant, causal):
    """Stage 1: the scores of a tile, and their exponentials.

    `bias` is -scale * (largest score so far). Gives the exponentials, their sums, the new bias, and the factor of all
    that was summed before; there is none for the first keys of a block of queries.
    """
    queries, keys, _ = head
    identity, triangle = constant
    _, block, first, width, last = tile
    scale = queries.shape[0] ** -0.5
    scores = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=queries[:, nl.ds(block * P, P)], moving=keys[:, nl.ds(first, width)])
    if causal and last:
        nisa.nc_matmul(dst=scores[:, nl.ds(width - P, P)], stationary=identity, moving=triangle, accumulate=True)

    lowest = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=scores, axis=1, negate=True)
    fresh = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    factor = None
    if first == 0:
        nisa.tensor_scalar(dst=fresh, data=lowest, op0=nl.multiply, operand0=scale)
    else:
        nisa.tensor_scalar(dst=fresh, data=lowest, op0=nl.multiply, operand0=scale, op1=nl.minimum, operand1=bias)
        factor = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=factor, op=nl.exp, data=bias, scale=-1.0, bias=fresh)

    powers = nl.ndarray((P, width), dtype=queries.dtype, buffer=nl.sbuf)
    sums = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=powers, op=nl.exp, data=scores, scale=scale, bias=fresh, reduce_op=nl.add, reduce_res=sums
    )
    return powers, sums, fresh, factor


def turn(powers):
    """Stage 2: the exponentials with keys in partitions: [:, b * P + query] are those of the keys of block b."""
    turned = nl.ndarray(powers.shape, dtype=powers.dtype, buffer=nl.psum)
    for b in range(powers.shape[1] // P):
        part = nl.ds(b * P, P)
        nisa.nc_transpose(dst=turned[:, part], data=powers[:, part])
    stationary = nl.ndarray(powers.shape, dtype=powers.dtype, buffer=nl.sbuf)
    nisa.activation(dst=stationary, op=nl.copy, data=turned)
    return stationary


def take_up(head, tile, weighed, turned, total, acc):
    """Stage 3: the exponentials times the values; `total` and `acc` are scaled and take them up."""
    values = head[2]
    _, _, first, width, _ = tile
    _, sums, _, factor = weighed
    product = nl.ndarray(acc.shape, dtype=nl.float32, buffer=nl.psum)
    for b in range(width // P):
        nisa.nc_matmul(dst=product, stationary=turned[:, nl.ds(b * P, P)], moving=values[:, first // P + b, :])
    if factor is None:
        nisa.tensor_copy(dst=total, src=sums)
        nisa.tensor_copy(dst=acc, src=product)
    else:
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=sums)
        nisa.scalar_tensor_tensor(dst=acc, data=acc, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=product)


def finish(out, tile, total, acc):
    """Divide by the sums and store a block of queries."""
    h, block, _, _, _ = tile
    nisa.reciprocal(dst=total, data=total)
    rounded = nl.ndarray(acc.shape, dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=rounded, data=acc, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out[h, nl.ds(block * P, P), :], src=rounded)


def attend(q, k, v, causal, turn_lag, take_lag):
    """All tiles through the three stages; a tile is turned and taken up so many tiles after it was weighed."""
    H, D, S = q.shape
    assert D <= P and S % KEYS == 0
    out = nl.ndarray((H, S, D), dtype=v.dtype, buffer=nl.shared_hbm)
    constant = constants(q.dtype)
    tiles = tiles_of(H, S, causal)
    heads, weighed, turned = [], [], []
    bias, total, acc = None, None, None
    for i in range(len(tiles) + take_lag):
        if i < len(tiles):
            h, block, first, _, _ = tiles[i]
            if block == 0 and first == 0:
                heads.append(load_head(q, k, v, h))
            weighed.append(weigh(heads[h], tiles[i], bias, constant, causal))
            bias = weighed[i][2]
        if turn_lag <= i < len(tiles) + turn_lag:
            turned.append(turn(weighed[i - turn_lag][0]))
        if take_lag <= i:
            h, _, first, _, last = tile = tiles[i - take_lag]
            if first == 0:
                total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
                acc = nl.ndarray((P, D), dtype=nl.float32, buffer=nl.sbuf)
            take_up(heads[h], tile, weighed[i - take_lag], turned[i - take_lag], total, acc)
            if last:
                finish(out, tile, total, acc)
    return out


@nki.jit
def attention_in_order(q, k, v, causal=True):
    """Each tile through all stages before the next: whichever engine works, the others wait for it."""
    return attend(q, k, v, causal, 0, 0)


@nki.jit
def flash_attention(q, k, v, causal=True):
    """A stage for each of three tiles, so that every engine finds an instruction that is ready.

    Engines take their instructions in order. The Tensor Engine cannot transpose exponentials that Scalar is still
    computing, and nothing behind them in its queue passes by. What is issued between two stages of a tile, the first
    stage of the next tile and the last of the one before, is what the engine does meanwhile.
    """
    return attend(q, k, v, causal, 1, 2)


KERNELS = (attention_in_order, flash_attention)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
