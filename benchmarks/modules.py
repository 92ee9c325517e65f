"""Large modules of declared instructions, as a generator of kernels would leave them."""

from __future__ import annotations

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

P = 128


def scaled(dst, src, factor):
    nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=factor)


"""
OPENING = """@nki.jit
def {name}(x: nt.tensor[512, 2048], w: nt.tensor[128, 512]):
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    weights = nl.ndarray((P, 512), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=w)
    for i in nl.affine_range(4):
        for j in nl.affine_range(4):
            tile = nl.ndarray((P, 512), nl.float32, buffer=nl.sbuf)
            acc = nl.ndarray((P, 512), nl.float32, buffer=nl.psum)
            nisa.dma_copy(dst=tile, src=x[i * P:(i + 1) * P, j * 512:(j + 1) * 512])
"""
BODY = """            nisa.nc_matmul(dst=acc, stationary=tile[:, 0:128], moving=weights)
            nisa.tensor_copy(dst=tile, src=acc)
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.add)
            scaled(tile, tile, 0.5)
            if i > 8:
                nisa.memset(dst=tile, value=0.0)
            total = nl.ndarray((P, 1), nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=total, data=tile, op=nl.add, axis=1)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
"""
CLOSING = """            nisa.dma_copy(dst=out[i * P:(i + 1) * P, j * 512:(j + 1) * 512], src=tile)
    return out


"""


def module(kernels: int, lines: int) -> str:
    """A module of `kernels` kernels in about `lines` lines."""
    fixed = OPENING.count("\n") + CLOSING.count("\n")
    body = BODY * max(1, round((lines / kernels - fixed) / BODY.count("\n")))
    return HEAD + "".join(OPENING.format(name=f"kernel_{i}") + body + CLOSING for i in range(kernels))
