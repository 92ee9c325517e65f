"""The reference of each instruction, by its NKI name.

A reference takes its operands (dst with its old contents), its attributes as names and numbers, and the registers of
the engines; it gives each output's result. Attributes that were not passed are missing. `generation` is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.reference.activation import activation, activation_reduce
from tests.reference.elementwise import reciprocal, scalar_tensor_tensor, tensor_scalar, tensor_tensor
from tests.reference.grid import Result
from tests.reference.matmul import nc_matmul, nc_transpose
from tests.reference.move import dma_compute, dma_copy, dma_transpose, iota, memset, tensor_copy
from tests.reference.mx import nc_matmul_mx, quantize_mx
from tests.reference.random import dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from tests.reference.reduce import tensor_reduce
from tests.reference.register import register_load, register_move, register_store
from tests.reference.scan import (
    activate2,
    bn_aggr,
    bn_stats,
    exponential,
    tensor_partition_reduce,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    tensor_tensor_scan,
)
from tests.reference.select import (
    affine_select,
    local_gather,
    max8,
    nc_find_index8,
    nc_match_replace8,
    nc_n_gather,
    nc_stream_shuffle,
    nonzero_with_count,
    range_select,
    select_reduce,
    sequence_bounds,
    tensor_copy_predicated,
    topk,
)
from tests.reference.sync import core_barrier, sendrecv

Reference = Callable[[Mapping[str, Any], Mapping[str, Any], Any], dict[str, Result]]

REFERENCES: dict[str, Reference] = {
    function.__name__: function
    for function in (
        activate2, activation, activation_reduce, bn_aggr, bn_stats, dma_compute, dma_copy, dma_transpose, exponential, iota, memset, nc_matmul,
        nc_transpose, reciprocal, scalar_tensor_tensor, tensor_copy, tensor_partition_reduce, tensor_reduce,
        nc_matmul_mx, quantize_mx, affine_select, local_gather, max8, nc_find_index8, nc_match_replace8, nc_n_gather, nc_stream_shuffle,
        nonzero_with_count, range_select, select_reduce, sequence_bounds, tensor_copy_predicated, topk,
        dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed, register_load, register_move, register_store,
        tensor_scalar, tensor_scalar_cumulative, tensor_scalar_reduce, tensor_tensor, tensor_tensor_scan,
        core_barrier, sendrecv,
    )
}  # fmt: skip
