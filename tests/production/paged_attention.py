"""Decode with a paged KV cache: one query token a sequence, blocks named by a table, -1 for none."""

import nki
import nki.isa as nisa
import nki.language as nl
from nki.isa import dge_mode, oob_mode

MASKED = -30000.0


def _block_indices(table_row, blocks, block_size, name):
    """Rows of the flattened cache, one a partition: table[i] * block_size + j at partition i * block_size + j."""
    rows = blocks * block_size
    table = nl.ndarray((blocks, 1), dtype=nl.int32, buffer=nl.sbuf, name=f"{name}_table")
    nisa.dma_copy(dst=table, src=table_row)
    spread = nl.ndarray((blocks, rows), dtype=nl.bfloat16, buffer=nl.sbuf)
    ramp = nl.ndarray((blocks, rows), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=ramp, pattern=[[1, rows]], offset=0, channel_multiplier=-block_size)
    low = nl.ndarray((blocks, rows), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=low, data=ramp, op0=nl.greater_equal, operand0=0)
    nisa.scalar_tensor_tensor(dst=spread, data=ramp, op0=nl.less, operand0=block_size, op1=nl.multiply, operand1=low)
    numbers = nl.ndarray((blocks, 1), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=numbers, src=table)
    acc = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=spread, moving=numbers)
    within = nl.ndarray((rows, 1), dtype=nl.int32, buffer=nl.sbuf)
    ones = nl.ndarray((1, rows), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=within, pattern=[[0, 1]], offset=0, channel_multiplier=1)
    nisa.memset(dst=ones, value=1)
    inner = nl.ndarray((rows, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=inner, data=within, op0=nl.bitwise_and, operand0=block_size - 1)
    index = nl.ndarray((rows, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(dst=index, data=acc, op0=nl.multiply, operand0=float(block_size), op1=nl.add,
                              operand1=inner)  # fmt: skip
    return index


@nki.jit
def paged_decode(q, k_cache, v_cache, block_tables, context_lens, scale: float = 1.0):
    sequences, heads, head_dim = q.shape
    total_blocks, block_size, _ = k_cache.shape
    blocks = block_tables.shape[1]
    rows = blocks * block_size
    assert rows <= nl.tile_size.pmax, f"{rows} rows of a sequence in one tile"
    out = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    keys_flat = k_cache.reshape((total_blocks * block_size, head_dim))
    values_flat = v_cache.reshape((total_blocks * block_size, head_dim))
    for s in nl.sequential_range(sequences):
        row = block_tables.ap([[1, blocks], [1, 1]], offset=s * blocks)
        index = _block_indices(row, blocks, block_size, f"s{s}")
        k = nl.ndarray((rows, head_dim), dtype=k_cache.dtype, buffer=nl.sbuf)
        v = nl.ndarray((rows, head_dim), dtype=v_cache.dtype, buffer=nl.sbuf)
        nisa.memset(dst=k, value=0.0)
        nisa.memset(dst=v, value=0.0)
        for tile, cache in ((k, keys_flat), (v, values_flat)):
            nisa.dma_copy(
                dst=tile,
                src=cache.ap([[head_dim, rows], [1, head_dim]], 0, vector_offset=index, indirect_dim=0),
                oob_mode=oob_mode.skip,
                dge_mode=dge_mode.swdge,
            )
        q_tile = nl.ndarray((head_dim, heads), dtype=q.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=q_tile, src=q[s].permute((1, 0)))
        k_turned_psum = nl.ndarray((head_dim, rows), dtype=k.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=k_turned_psum, data=k, engine=nisa.engine.tensor)
        k_turned = nl.ndarray((head_dim, rows), dtype=k.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=k_turned, src=k_turned_psum)
        scores = nl.ndarray((heads, rows), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=scores, stationary=q_tile, moving=k_turned)

        length = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=length, src=context_lens.ap([[0, heads], [1, 1]], offset=s), dge_mode=3)
        zero = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=zero, value=0)
        masked = nl.ndarray((heads, rows), dtype=nl.float32, buffer=nl.sbuf)
        top = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.range_select(dst=masked, on_true_tile=scores, comp_op0=nl.greater_equal, comp_op1=nl.less, bound0=zero,
                          bound1=length, reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=top, reduce_op=nl.maximum,
                          range_start=0.0, on_false_value=-3.4028234663852886e38)  # fmt: skip
        shift = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(shift, top, nl.multiply, -scale)
        weights = nl.ndarray((heads, rows), dtype=q.dtype, buffer=nl.sbuf)
        total = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=weights, op=nl.exp, data=masked, reduce_op=nl.add, reduce_res=total, bias=shift,
                               scale=scale)  # fmt: skip
        inverse = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(inverse, total)
        turned = nl.ndarray((rows, heads), dtype=q.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=weights)
        w = nl.ndarray((rows, heads), dtype=q.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=w, src=turned)
        acc = nl.ndarray((heads, head_dim), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=acc, stationary=w, moving=v)
        result = nl.ndarray((heads, head_dim), dtype=q.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=acc, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[s], src=result)
    return out
