"""Blocks of tokens by expert: count and gather a shard's tokens, work on them, scatter-add them back."""

import nki
import nki.isa as nisa
import nki.language as nl


def _broadcast_row(src, rows):
    """A (1, F) tile on `rows` partitions: partition 0 of each quadrant, shuffled to its 32."""
    columns = src.shape[1]
    wide = nl.ndarray((rows, columns), dtype=src.dtype, buffer=nl.sbuf)
    for quadrant in range(rows // 32):
        nisa.nc_stream_shuffle(dst=wide[quadrant * 32 : (quadrant + 1) * 32], src=src[0:1, :], shuffle_mask=[0] * 32)
    return wide


@nki.jit
def positions(choice, expert: int):
    """choice (1, T) of expert numbers: where `expert` stands, -1 behind the last, and how often, as (1, T + 1)."""
    tokens = choice.shape[1]
    data = nl.ndarray((128, tokens), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=data, value=0.0)
    row = nl.ndarray((1, tokens), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=choice)
    nisa.tensor_scalar(dst=data[0:1, :], data=row, op0=nl.equal, operand0=float(expert))
    found = nl.ndarray((128, tokens + 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.nonzero_with_count(dst=found, src=data, index_offset=0, padding_val=-1)
    out = nl.ndarray((1, tokens + 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=found[0:1, :])
    return out


@nki.jit
def gather_scale_scatter(hidden, index, affinity, accumulated):
    """accumulated[index] += hidden[index] * affinity, rows of -1 left out; index and affinity (B, 1)."""
    block, width = index.shape[0], hidden.shape[1]
    where = nl.ndarray((block, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=where, src=index)
    tile = nl.ndarray((block, width), dtype=hidden.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0)
    view = [[width, block], [1, width]]
    nisa.dma_copy(dst=tile, src=hidden.ap(view, vector_offset=where), oob_mode=nisa.oob_mode.skip)
    share = nl.ndarray((block, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=share, src=affinity)
    nisa.activation(dst=tile, op=nl.copy, data=tile, scale=share)
    target = accumulated.ap(view, vector_offset=where, indirect_dim=0)
    nisa.dma_compute(dst=target, srcs=[target, tile], reduce_op=nl.add, scales=[1.0, 1.0], unique_indices=True,
                     oob_mode=nisa.oob_mode.skip)  # fmt: skip
    return accumulated


@nki.jit
def dropless(x, segment, gates):
    """Rows scaled by the gate of their segment, without branches: rows of no segment (gate 0) keep what they were."""
    rows, width = x.shape
    tile, result = nl.load(x), nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.sbuf)
    table = nl.ndarray((1, gates.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=table, src=gates)
    wide = _broadcast_row(table, rows)
    number = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=number, src=segment)
    ramp = nl.ndarray((rows, gates.shape[1]), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(ramp, [[1, gates.shape[1]]], offset=0, channel_multiplier=0)
    hot = nl.ndarray(ramp.shape, dtype=nl.float32, buffer=nl.sbuf)
    gate = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=hot, data=ramp, op0=nl.equal, operand0=number)
    picked = nl.ndarray(ramp.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(picked, hot, wide, nl.multiply)
    nisa.tensor_reduce(gate, nl.add, picked, axis=1)
    nisa.tensor_scalar(result, tile, op0=nl.multiply, operand0=gate)
    flag = nl.ndarray((rows, 1), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=flag, data=gate, op0=nl.equal, operand0=0.0)
    nisa.tensor_copy_predicated(dst=result, src=tile, predicate=flag.broadcast(1, width))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out
