"""A gated MLP in FP8 with a scale a row, on one core or on two that exchange halves: silu(x Wg) * (x Wu) Wd."""

from dataclasses import dataclass
from enum import Enum
from typing import Optional

import nki
import nki.isa as nisa
import nki.language as nl
from nki.isa.constants import dge_mode, matmul_perf_mode

from tests.production.placing import Banks, Stack, ceil_div
from tests.production.windows import TensorView

LARGEST = 240.0
"""Of float8_e4m3."""


class Quantisation(Enum):
    NONE = 0
    ROW = 1
    STATIC = 2


@dataclass
class MlpConfig(nl.NKIObject):
    quantisation: Quantisation = Quantisation.ROW
    activation: object = nl.silu
    clamp: Optional[float] = None
    double_row: bool = True


@dataclass
class Weights(nl.NKIObject):
    gate: nl.ndarray
    up: nl.ndarray
    down: nl.ndarray
    gate_scale: Optional[nl.ndarray] = None
    up_scale: Optional[nl.ndarray] = None
    down_scale: Optional[nl.ndarray] = None


def _shard(total: int):
    """First element and count of this core's part."""
    cores, core = (nl.num_programs(axes=0), nl.program_id(axis=0)) if nl.program_ndim() != 0 else (1, 0)
    assert total % cores == 0, f"{total} on {cores} cores"
    return total // cores * core, total // cores, cores, core


def _quantise_rows(stack, tile, dtype, name):
    """The tile in FP8, and 1 / scale a row."""
    rows = tile.shape[0]
    peak = stack.alloc((rows, 1), nl.float32, name=f"{name}_peak")
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=(1,), negate=False)
    low = stack.alloc((rows, 1), nl.float32, name=f"{name}_low")
    nisa.tensor_reduce(dst=low, op=nl.minimum, data=tile, axis=(1,), negate=True)
    nisa.tensor_tensor(dst=peak, data1=peak, data2=low, op=nl.maximum)
    back = stack.alloc((rows, 1), nl.float32, name=f"{name}_back")
    nisa.tensor_scalar(dst=back, data=peak, op0=nl.maximum, operand0=1e-5, op1=nl.multiply, operand1=1.0 / LARGEST)
    forth = stack.alloc((rows, 1), nl.float32, name=f"{name}_forth")
    nisa.reciprocal(dst=forth, data=back)
    small = stack.alloc(tile.shape, dtype, name=f"{name}_fp8")
    nisa.tensor_scalar(dst=small, data=tile, op0=nl.multiply, operand0=forth)
    return small, back


def _turn(stack, banks, tile, name):
    """(128, n, rows) in FP8 from (rows, n * 128), through BF16: the transpose passes no FP8."""
    rows, columns = tile.shape
    count = ceil_div(columns, 128)
    wide = stack.alloc((rows, columns), nl.bfloat16, name=f"{name}_wide")
    nisa.tensor_copy(dst=wide, src=tile, engine=nisa.gpsimd_engine)
    turned = stack.alloc((128, count, rows), tile.dtype, name=f"{name}_turned", align=4)
    for n in range(count):
        bank = banks.take((128, rows), nl.bfloat16)
        nisa.nc_transpose(bank, wide[:, nl.ds(n * 128, 128)])
        nisa.tensor_copy(turned[:, n, :], bank)
    return turned


def _product(acc, turned, weights, config):
    """acc = turned^T @ weights; both (128, n, ...); pairs of rows at once where the target has it."""
    tiles = turned.shape[1]
    if config.double_row and nisa.get_nc_version() >= nisa.nc_version.gen3 and tiles % 2 == 0:
        for n in range(0, tiles, 2):
            nisa.nc_matmul(dst=acc, stationary=turned[:, n : n + 2, :], moving=weights[:, n : n + 2, :],
                           perf_mode=matmul_perf_mode.double_row)  # fmt: skip
    else:
        for n in range(tiles):
            nisa.nc_matmul(dst=acc, stationary=turned[:, n, :], moving=weights[:, n, :], perf_mode="none")


def _load_columns(stack, matrix, first, count, name):
    rows = matrix.shape[0] // 128
    tile = stack.alloc((128, rows, count), matrix.dtype, name=name, align=4)
    view = TensorView.of(matrix).slice(1, first, first + count).reshape_dim(0, (-1, 128)).permute((1, 0, 2))
    nisa.dma_copy(dst=tile, src=view.get_view(), dge_mode=dge_mode.hwdge if nisa.get_nc_version().name != "gen2" else 0)
    return tile


def _row(stack, vector, first, count, rows, name):
    tile = stack.alloc((rows, count), nl.float32, name=name)
    nisa.dma_copy(dst=tile, src=vector.ap([[0, rows], [1, count]], offset=first))
    return tile


@nki.jit(mode="trace")
def quantised_mlp(x, weights: Weights, config: MlpConfig = MlpConfig()):
    rows, hidden = x.shape
    first, inner, cores, core = _shard(weights.gate.shape[1])
    out = nl.ndarray((rows, hidden), dtype=x.dtype, buffer=nl.shared_hbm)
    fp8 = weights.gate.dtype
    assert fp8 in (nl.float8_e4m3, nl.float8_e4m3fn), f"weights are {fp8}"
    stack, banks = Stack(low=4096), Banks()
    tile = stack.alloc((rows, hidden), x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    stack.open()
    small, back = _quantise_rows(stack, tile, fp8, "x")
    turned = _turn(stack, banks, small, "x")
    sides = {}
    for side, matrix, scale in (("gate", weights.gate, weights.gate_scale), ("up", weights.up, weights.up_scale)):
        acc = banks.take((rows, inner))
        _product(acc, turned, _load_columns(stack, matrix, first, inner, side), config)
        wide = stack.alloc((rows, inner), nl.float32, name=f"{side}_wide")
        nisa.scalar_tensor_tensor(dst=wide, data=acc, op0=nl.multiply, operand0=back, op1=nl.multiply,
                                  operand1=_row(stack, scale, first, inner, rows, f"{side}_scale"))  # fmt: skip
        if config.clamp is not None:
            nisa.tensor_scalar(dst=wide, data=wide, op0=nl.minimum, operand0=config.clamp, op1=nl.maximum,
                               operand1=-config.clamp)  # fmt: skip
        sides[side] = wide
    gated = stack.alloc((rows, inner), nl.float32)
    nisa.activation(dst=gated, op=config.activation, data=sides["gate"])
    nisa.tensor_tensor(dst=gated, data1=gated, data2=sides["up"], op=nl.multiply)
    middle, middle_back = _quantise_rows(stack, gated, fp8, "middle")
    middle_turned = _turn(stack, banks, middle, "middle")
    down = stack.alloc((128, inner // 128, hidden), fp8, name="down", align=4)
    nisa.dma_copy(
        dst=down, src=weights.down[nl.ds(first, inner), :].reshape((inner // 128, 128, hidden)).permute((1, 0, 2))
    )
    acc = banks.take((rows, hidden))
    _product(acc, middle_turned, down, config)
    part = stack.alloc((rows, hidden), nl.float32, name="part")
    nisa.scalar_tensor_tensor(dst=part, data=acc, op0=nl.multiply, operand0=middle_back, op1=nl.multiply,
                              operand1=_row(stack, weights.down_scale, 0, hidden, rows, "down_scale"))  # fmt: skip
    if cores > 1:
        theirs = stack.alloc((rows, hidden), nl.float32, name="theirs")
        nisa.sendrecv(src=part, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0,
                      dma_engine=nisa.dma_engine.gpsimd_dma if hidden <= 256 else nisa.dma_engine.dma)  # fmt: skip
        nisa.tensor_tensor(dst=part, data1=part, data2=theirs, op=nl.add, engine=nisa.gpsimd_engine)
    half, mine = hidden // cores, core * (hidden // cores)
    nisa.tensor_copy(dst=tile[:, nl.ds(mine, half)], src=part[:, nl.ds(mine, half)])
    stack.close()
    nisa.dma_copy(dst=out[:, nl.ds(mine, half)], src=tile[:, mine : mine + half])
    if cores > 1:
        nisa.core_barrier(data=out, cores=[0, 1])
    return out
