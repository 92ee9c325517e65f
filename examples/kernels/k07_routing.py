"""7 · Top-k routing: which experts a token goes to, decided on the chip, and rows fetched by the decision.

A router scores every token against every expert, the K best are kept, and the token's output is the sum of those
experts' rows, weighted by a softmax. Here an expert is one row of a table, as in a memory layer or an embedding bag;
a mixture of networks starts the same way.

Tokens stand in partitions. `max8` finds the eight largest scores of each, `nc_find_index8` where they stand, and a
column of those indices is the `vector_offset` of a transfer: partition p receives the row that its index names. Such
transfers are described while the kernel runs, by GpSimd, which takes about a microsecond for each.
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TARGETS = ("trn2", "trn3")  # a transfer by vector_offset needs NeuronCore-v3
K = 4
P = 128


def inputs(tokens=512, D=512, experts=512):
    """x[tokens, D], router[D, experts], table[experts, D] in bfloat16; tokens and D are multiples of 128."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((tokens, D)).astype(ml_dtypes.bfloat16)
    router = (rng.standard_normal((D, experts)) / np.sqrt(D)).astype(ml_dtypes.bfloat16)
    return x, router, rng.standard_normal((experts, D)).astype(ml_dtypes.bfloat16)


def reference(x, router, table):
    """The mixed rows, and the experts of each token, best first."""
    scores = x.astype(np.float64) @ router.astype(np.float64)
    experts = np.argsort(-scores, axis=1)[:, :K]
    kept = np.take_along_axis(scores, experts, axis=1)
    weights = np.exp(kept - kept[:, :1])
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("tk,tkd->td", weights, table.astype(np.float64)[experts]), experts


def load_operands(x, router):
    """x transposed and the router, in blocks of 128 of the dimension that the scores contract over."""
    (T, D), E = x.shape, router.shape[1]
    turned = nl.ndarray((P, D // P, T), dtype=x.dtype, buffer=nl.sbuf)
    weights = nl.ndarray((P, D // P, E), dtype=router.dtype, buffer=nl.sbuf)
    for d in range(D // P):
        block = nl.ds(d * P, P)
        nisa.dma_transpose(dst=turned[:, d, :], src=x[:, block])
        nisa.dma_copy(dst=weights[:, d, :], src=router[block, :])
    return turned, weights


def score(turned, weights, tokens):
    """The scores of 128 tokens, in PSUM."""
    _, D, E = weights.shape
    scores = nl.ndarray((P, E), dtype=nl.float32, buffer=nl.psum)
    for d in range(D):
        nisa.nc_matmul(dst=scores, stationary=turned[:, d, tokens], moving=weights[:, d, :])
    return scores


def fetch(table, experts, k):
    """The row of each partition's k-th expert."""
    D = table.shape[1]
    row = nl.ndarray((P, D), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=table.ap([[D, P], [1, D]], vector_offset=experts[:, nl.ds(k, 1)]))
    return row


@nki.jit
def route_as_written(x, router, table):
    """Softmax over all experts, then the best K of them, divided by their sum."""
    T, D = x.shape
    E = router.shape[1]
    mixed = nl.ndarray((T, D), dtype=x.dtype, buffer=nl.shared_hbm)
    chosen = nl.ndarray((T, K), dtype=nl.uint32, buffer=nl.shared_hbm)
    turned, weights = load_operands(x, router)
    for t in range(T // P):
        tokens = nl.ds(t * P, P)
        scores = score(turned, weights, tokens)
        lowest = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=scores, axis=1, negate=True)
        powers = nl.ndarray((P, E), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=powers, op=nl.exp, data=scores, bias=lowest, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=powers, data=powers, op0=nl.multiply, operand0=total)

        best = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        experts = nl.ndarray((P, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.max8(dst=best, src=powers)
        nisa.nc_find_index8(dst=experts, data=powers, vals=best)
        nisa.dma_copy(dst=chosen[tokens, :], src=experts[:, 0:K])
        nisa.tensor_reduce(dst=total, op=nl.add, data=best[:, 0:K], axis=1)
        nisa.reciprocal(dst=total, data=total)

        acc = nl.ndarray((P, D), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=acc, value=0.0)
        for k in range(K):
            row = fetch(table, experts, k)
            share = nl.ndarray((P, D), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(
                dst=share, data=row, op0=nl.multiply, operand0=best[:, nl.ds(k, 1)], op1=nl.multiply, operand1=total
            )
            nisa.tensor_tensor(dst=acc, data1=acc, data2=share, op=nl.add)
        nisa.dma_copy(dst=mixed[tokens, :], src=acc)
    return mixed, chosen


@nki.jit
def route(x, router, table):
    """The softmax of the K best scores only, and a sum that takes one instruction for each row.

    Dividing by the sum over all experts and then by the sum over the best cancels: exp(score - best) over the sum of K
    such numbers is the same weight. So no instruction goes over all experts but the two searches, which read PSUM. The
    decisions of all tokens come first, and the rows after them: by then the first transfers have long been described.
    """
    T, D = x.shape
    mixed = nl.ndarray((T, D), dtype=x.dtype, buffer=nl.shared_hbm)
    chosen = nl.ndarray((T, K), dtype=nl.uint32, buffer=nl.shared_hbm)
    turned, weights = load_operands(x, router)
    shares, rows = [], []
    for t in range(T // P):
        tokens = nl.ds(t * P, P)
        scores = score(turned, weights, tokens)
        best = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        experts = nl.ndarray((P, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.max8(dst=best, src=scores)
        nisa.nc_find_index8(dst=experts, data=scores, vals=best)
        rows.append([])
        for k in range(K):
            rows[t].append(fetch(table, experts, k))
        nisa.dma_copy(dst=chosen[tokens, :], src=experts[:, 0:K])

        minus_best = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=minus_best, data=best[:, 0:1], op0=nl.multiply, operand0=-1.0)
        share = nl.ndarray((P, K), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=share, op=nl.exp, data=best[:, 0:K], bias=minus_best, reduce_op=nl.add, reduce_res=total
        )
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=share, data=share, op0=nl.multiply, operand0=total)
        shares.append(share)
    for t in range(T // P):
        acc = nl.ndarray((P, D), dtype=nl.float32, buffer=nl.sbuf)
        rounded = nl.ndarray((P, D), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=acc, op=nl.copy, data=rows[t][0], scale=shares[t][:, 0:1])
        for k in range(1, K):
            nisa.scalar_tensor_tensor(
                dst=acc if k < K - 1 else rounded, data=rows[t][k], op0=nl.multiply,
                operand0=shares[t][:, nl.ds(k, 1)], op1=nl.add, operand1=acc,
            )  # fmt: skip
        nisa.dma_copy(dst=mixed[nl.ds(t * P, P), :], src=rounded)
    return mixed, chosen


KERNELS = (route_as_written, route)

if __name__ == "__main__":
    import nki_lab

    arrays = inputs()
    for kernel in KERNELS:
        print(nki_lab.run(kernel, *arrays).check(reference))
