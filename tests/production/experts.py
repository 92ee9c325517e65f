"""Mixture of experts for a few tokens: a router that takes the top two, then a device loop over the chosen experts."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Optional

import nki
import nki.isa as nisa
import nki.language as nl

from tests.production.placing import ceil_div


class Affinity(Enum):
    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"


@dataclass
class Router(nl.NKIObject):
    top: int = 2
    affinity: Affinity = Affinity.SOFTMAX
    normalise: bool = True


@dataclass(frozen=True)
class Geometry(nl.NKIObject):
    tokens: int
    hidden: int
    experts: int
    inner: int

    @property
    def hidden_tiles(self):
        return ceil_div(self.hidden, nl.tile_size.pmax)

    @property
    def inner_tiles(self):
        return ceil_div(self.inner, nl.tile_size.pmax)


def _x_transposed(x, geometry):
    """(128, H/128, T) from (T, H), by the DMA's own transpose."""
    turned = nl.ndarray((128, geometry.hidden_tiles, geometry.tokens), dtype=x.dtype, buffer=nl.sbuf, name="x_turned")
    for h in range(geometry.hidden_tiles):
        nisa.dma_transpose(dst=turned[:, h, :], src=x[:, nl.ds(h * 128, 128)])
    return turned


def _route(turned, router_weights, geometry, router):
    """Indices and affinities of the best experts, (T, 8) each; columns beyond `top` have no meaning."""
    tokens, experts = geometry.tokens, geometry.experts
    w = nl.ndarray((128, geometry.hidden_tiles, experts), dtype=turned.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w, src=router_weights.reshape((geometry.hidden_tiles, 128, experts)).permute([1, 0, 2]))
    logits_psum = nl.ndarray((tokens, experts), dtype=nl.float32, buffer=nl.psum, address=(0, 0))
    for h in range(geometry.hidden_tiles):
        nisa.nc_matmul(dst=logits_psum[...], stationary=turned[0:128, h, 0:tokens], moving=w[0:128, h, 0:experts],
                       accumulate=h > 0)  # fmt: skip
    logits = nl.ndarray((tokens, experts), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(logits, logits_psum, engine=nisa.scalar_engine)
    best = nl.ndarray((tokens, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(dst=best, src=logits)
    index = nl.ndarray((tokens, 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(dst=index, data=logits, vals=best)
    weight = nl.ndarray((tokens, 8), dtype=nl.float32, buffer=nl.sbuf)
    chosen = weight[:, : router.top]
    if router.affinity == Affinity.SIGMOID:
        nisa.activation(dst=chosen, op=nl.sigmoid, data=best[:, 0 : router.top])
    else:
        assert router.affinity == Affinity.SOFTMAX, f"affinity {router.affinity.name}"
        top = nl.ndarray((tokens, 1), dtype=nl.float32)
        total = nl.ndarray((tokens, 1), dtype=nl.float32)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=logits, axis=1, negate=True)
        power = nl.ndarray((tokens, experts), dtype=nl.float32)
        nisa.activation_reduce(dst=power, op=nl.exp, data=logits, bias=top, reduce_op=nl.add, reduce_res=total)
        nisa.activation(dst=chosen, op=nl.exp, data=best[:, 0 : router.top], bias=top)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=chosen, data=chosen, op0=nl.multiply, operand0=total[:, 0:1])
    if router.normalise:
        total = nl.ndarray((tokens, 1), dtype=nl.float32)
        nisa.tensor_reduce(total, nl.add, chosen, axis=(1,))
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_tensor(chosen, chosen, total.ap([[1, tokens], [0, router.top]]), op=nl.multiply)
    return index, weight


def _expert(register, turned_token, gate_up, down, geometry):
    """One token through the expert whose number a register holds: (1, H) in PSUM banks."""
    inner, hidden, dtype = geometry.inner, geometry.hidden, turned_token.dtype
    gu = nl.ndarray((128, geometry.hidden_tiles, 2, inner), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(
        dst=gu,
        src=gate_up.ap(
            pattern=[[2 * inner, 128], [128 * 2 * inner, geometry.hidden_tiles], [inner, 2], [1, inner]],
            offset=0,
            scalar_offset=register,
            indirect_dim=0,
        ),
    )
    dn = nl.ndarray((128, geometry.inner_tiles, hidden), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=dn, src=down.ap([[hidden, 128], [128 * hidden, geometry.inner_tiles], [1, hidden]], 0, register,
                                      None, 0))  # fmt: skip
    act = nl.ndarray((128, geometry.inner_tiles), dtype=dtype, buffer=nl.sbuf)
    for i in range(geometry.inner_tiles):
        both = []
        for side in range(2):
            acc = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.psum)
            for h in range(geometry.hidden_tiles):
                nisa.nc_matmul(
                    dst=acc, stationary=gu[:, h, side, nl.ds(i * 128, 128)], moving=turned_token[:, h : h + 1]
                )
            both.append(acc)
        gate, up = both
        swish = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=swish, op=nl.silu, data=gate)
        nisa.tensor_tensor(dst=act[:, i], data1=swish, data2=up, op=nl.multiply)
    result = nl.ndarray((1, hidden), dtype=nl.float32, buffer=nl.psum)
    for i in range(geometry.inner_tiles):
        nisa.nc_matmul(dst=result, stationary=act[:, i], moving=dn[:, i, :])
    return result


@nki.jit(debug_kernel=False, show_compiler_tb=True)
def experts_decode(x, router_weights, gate_up, down, router: Optional[Router] = None):
    tokens, hidden = x.shape
    experts, _, _, inner = gate_up.shape
    if router is None:
        router = Router()
    geometry = Geometry(tokens=tokens, hidden=hidden, experts=experts, inner=inner)
    assert math.ceil(hidden / 128) == geometry.hidden_tiles and hidden <= 512
    out = nl.ndarray((tokens, hidden), dtype=x.dtype, buffer=nl.shared_hbm)
    turned = _x_transposed(x, geometry)
    index, weight = _route(turned, router_weights, geometry, router)
    # Registers read one element from partition 0 or from HBM: the choice goes through HBM, a row of it comes back.
    choice = nl.ndarray((tokens * router.top, 1), dtype=nl.int32, buffer=nl.private_hbm)
    nisa.dma_copy(dst=choice.reshape((tokens, router.top)), src=index[:, 0 : router.top], dge_mode=nisa.dge_mode.swdge)
    affinities = nl.ndarray((1, tokens * router.top), dtype=nl.float32, buffer=nl.sbuf)
    spill = nl.ndarray((tokens, router.top), dtype=nl.float32, buffer=nl.hbm)
    nisa.dma_copy(dst=spill, src=weight[:, 0 : router.top])
    nisa.dma_copy(dst=affinities, src=spill.reshape((1, tokens * router.top)))
    column = nl.ndarray((128, geometry.hidden_tiles), dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((1, hidden), dtype=nl.float32, buffer=nl.sbuf)
    for t in range(tokens):
        nisa.tensor_copy(dst=column, src=turned[:, :, t])
        nisa.memset(dst=total, value=0.0)
        for k in nl.dynamic_range(t * router.top, (t + 1) * router.top):
            number = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.dma_copy(dst=number, src=choice.ap([[1, 1], [1, 1]], scalar_offset=k, indirect_dim=0))
            expert = nisa.register_alloc(None)
            nisa.register_load(expert, number)
            result = _expert(expert, column, gate_up, down, geometry)
            share = affinities.ap([[tokens * router.top, 1], [1, 1]], scalar_offset=k, indirect_dim=1)
            scale = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=scale, src=share)
            nisa.scalar_tensor_tensor(
                dst=total, data=result, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=total
            )
        row = nl.ndarray((1, hidden), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=row, src=total)
        nisa.dma_copy(dst=out[t : t + 1, :], src=row)
    return out
