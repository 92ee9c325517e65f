"""Attention whose keys and values go around a ring of ranks, while each rank keeps its queries."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl

LOWEST = -3.0e38


def _column(rows, value=None):
    tile = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    if value is not None:
        nisa.memset(dst=tile, value=value)
    return tile


def _attend(q_turned, block, maximum, total, output):
    """One block of keys and values into the running softmax."""
    depth, rows = q_turned.shape
    k_turned = nl.ndarray((depth, rows), dtype=block.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=k_turned, src=block[0])
    v = nl.ndarray((rows, depth), dtype=block.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=v, src=block[1])
    scores = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=q_turned, moving=k_turned)
    top, higher, negative, factor, fresh = (_column(rows), _column(rows), _column(rows), _column(rows), _column(rows))
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=scores, axis=1)
    nisa.tensor_tensor(dst=higher, data1=maximum, data2=top, op=nl.maximum)
    nisa.tensor_scalar(dst=negative, data=higher, op0=nl.multiply, operand0=-1.0)
    nisa.activation(dst=factor, op=nl.exp, data=maximum, bias=negative)
    nisa.tensor_copy(dst=maximum, src=higher)
    power = nl.ndarray((rows, rows), dtype=block.dtype, buffer=nl.sbuf)
    nisa.activation(dst=power, op=nl.exp, data=scores, bias=negative, reduce_op=nl.add, reduce_res=fresh,
                    reduce_cmd=nisa.reduce_cmd.reset_reduce)  # fmt: skip
    nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=fresh)
    turned = nl.ndarray((rows, rows), dtype=block.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=power)
    weights = nl.ndarray((rows, rows), dtype=block.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=weights, src=turned)
    product = nl.ndarray((rows, depth), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=weights, moving=v)
    nisa.scalar_tensor_tensor(dst=output, data=output, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=product)


@nki.jit
def ring_attention(q, kv, ranks: int = 4):
    """q (S, D) and kv (2, S, D) of each rank: (S, D), its queries over the keys of all."""
    rows, depth = q.shape
    group = ncc.ReplicaGroup([tuple(range(ranks))])
    q_turned = nl.ndarray((depth, rows), dtype=q.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=q_turned, src=q)
    maximum, total = _column(rows, LOWEST), _column(rows, 0.0)
    output = nl.ndarray((rows, depth), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=output, value=0.0)
    block = kv
    for step in range(ranks):
        following = None
        if step < ranks - 1:
            following = nl.ndarray(kv.shape, dtype=kv.dtype, buffer=nl.hbm, name=f"block_{step + 1}")
            ncc.collective_permute_implicit(srcs_by_channel=[[block]], dsts_by_channel=[[following]],
                                            replica_group=group, channel_ids=[0])  # fmt: skip
        _attend(q_turned, block, maximum, total, output)
        block = following
    inverse = _column(rows)
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(dst=output, data=output, op0=nl.multiply, operand0=inverse)
    out = nl.ndarray((rows, depth), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=output)
    return out
