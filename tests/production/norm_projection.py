"""RMS norm, then the fused projection to Q, K and V: x (T, H), weights (H, (nq + 2) * D)."""

from dataclasses import dataclass
from enum import Enum
from typing import Optional

import nki
import nki.isa as nisa
import nki.language as nl

from tests.production.placing import Banks, Stack, ceil_div, spread
from tests.production.windows import TensorView

P_MAX = 128
N_MAX = 512


class Norm(Enum):
    NONE = 0
    RMS = 1
    RMS_SKIP_GAMMA = 2


class Layout(Enum):
    BSD = "bsd"
    NBSD = "nbsd"


@dataclass
class Sizes(nl.NKIObject):
    tokens: int
    hidden: int
    columns: int
    hidden_tiles: int = 0
    token_tiles: int = 0

    def __post_init__(self):
        self.hidden_tiles = ceil_div(self.hidden, P_MAX)
        self.token_tiles = ceil_div(self.tokens, P_MAX)


@dataclass
class Config(nl.NKIObject):
    norm: Norm = Norm.RMS
    layout: Layout = Layout.BSD
    eps: float = 1e-6
    head_dim: Optional[int] = None
    compute: nki.dtype = nl.bfloat16


def _load_hidden(stack, x, first, count, sizes, config):
    tile = stack.alloc((P_MAX, sizes.hidden), config.compute, name="x", align=4)
    if count < P_MAX:
        nisa.memset(dst=tile, value=0.0)
    nisa.dma_copy(dst=tile[0:count, :], src=x[nl.ds(first, count), :])
    return tile


def _normalise(stack, tile, sizes, config, epsilon):
    squares = stack.alloc(tile.shape, nl.float32, name="squares")
    total = stack.alloc((P_MAX, 1), nl.float32, name="total")
    nisa.activation(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total,
                    reduce_cmd=nisa.reduce_cmd.reset_reduce)  # fmt: skip
    inverse = stack.alloc((P_MAX, 1), nl.float32, name="inverse")
    nisa.activation(dst=inverse, op=nl.rsqrt, data=total, scale=1.0 / sizes.hidden, bias=epsilon)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=inverse, engine=nisa.engine.vector)


def _transposed(stack, banks, tile, gamma, sizes, config):
    turned = stack.alloc((P_MAX, sizes.hidden_tiles, P_MAX), config.compute, name="turned")
    for h in nl.affine_range(sizes.hidden_tiles):
        bank = banks.take((P_MAX, P_MAX), config.compute)
        nisa.nc_transpose(dst=bank, data=tile[:, nl.ds(h * P_MAX, P_MAX)])
        if gamma is None:
            spread(turned[:, h, :], bank, h)
        else:
            nisa.activation(dst=turned[:, h, :], op=nl.copy, data=bank, scale=gamma[:, h])
    return turned


@nki.jit
def norm_qkv(x: nl.ndarray, weights: nl.ndarray, gamma: Optional[nl.ndarray] = None, config: Config = None):
    config = config if config is not None else Config()
    tokens, hidden = x.shape
    assert weights.shape[0] == hidden, f"weights have {weights.shape[0]} rows for a hidden size of {hidden}"
    sizes = Sizes(tokens=tokens, hidden=hidden, columns=weights.shape[1])
    heads = sizes.columns // config.head_dim if config.head_dim else 1
    by_head = config.layout == Layout.NBSD
    shape = (heads, tokens, config.head_dim) if by_head else (tokens, sizes.columns)
    out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm, name="qkv")

    stack, banks = Stack(), Banks()
    stack.open(name="constants")
    epsilon = stack.alloc((P_MAX, 1), nl.float32, name="epsilon")
    nisa.memset(dst=epsilon, value=config.eps)
    w = stack.alloc((P_MAX, sizes.hidden_tiles, sizes.columns), config.compute, name="w")
    w_hbm = TensorView.of(weights).reshape_dim(0, (sizes.hidden_tiles, P_MAX)).permute((1, 0, 2))
    nisa.dma_copy(dst=w, src=w_hbm.get_view(), dge_mode=nisa.dge_mode.none)
    g = None
    if gamma is not None and config.norm == Norm.RMS:
        g = stack.alloc((P_MAX, sizes.hidden_tiles), nl.float32, name="gamma")
        nisa.dma_copy(dst=g, src=gamma.reshape((sizes.hidden_tiles, P_MAX)).permute((1, 0)))
    for t in range(sizes.token_tiles):
        stack.open(name=f"tile {t}")
        count = min(P_MAX, tokens - t * P_MAX)
        tile = _load_hidden(stack, x, t * P_MAX, count, sizes, config)
        if config.norm in (Norm.RMS, Norm.RMS_SKIP_GAMMA):
            _normalise(stack, tile, sizes, config, epsilon)
        turned = _transposed(stack, banks, tile, g, sizes, config)
        result = stack.alloc((P_MAX, sizes.columns), x.dtype, name="result")
        for n in range(ceil_div(sizes.columns, N_MAX)):
            width = min(N_MAX, sizes.columns - n * N_MAX)
            acc = banks.take((P_MAX, N_MAX))
            for h in range(sizes.hidden_tiles):
                nisa.nc_matmul(acc[:count, :width], turned[:, h, :count], w[:, h, nl.ds(n * N_MAX, width)])
            spread(result[:count, nl.ds(n * N_MAX, width)], acc[:count, :width], n)
        rows = nl.ds(t * P_MAX, count)
        if by_head:
            for head in range(heads):
                nisa.dma_copy(
                    dst=out[head, rows, :], src=result[:count, nl.ds(head * config.head_dim, config.head_dim)]
                )
        else:
            nisa.dma_copy(dst=out[rows, :], src=result[:count])
        stack.close()
    stack.close()
    return out
