"""Order that the user asks for: a block without reordering, an edge between two instructions, and an edge by name."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 256), "float32"),)


def activation(tile, name):
    out = nl.ndarray(tile.shape, tile.dtype)
    return out, nisa.activation(dst=out, op=nl.exp, data=tile, name=name)


@nki.jit
def kernel(x):
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    with nl.no_reorder():
        made = [activation(tile, f"act{i}") for i in range(2)]
        with nl.no_reorder():
            copy = nl.ndarray(x.shape, x.dtype)
            nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.gpsimd)
    last = nisa.tensor_scalar(dst=copy, data=copy, op0=nl.add, operand0=1.0)
    first = nisa.tensor_scalar(dst=made[1][0], data=made[1][0], op0=nl.multiply, operand0=2.0)
    last.depends_on(first, made[0][1]).depends_on(made[1][1])
    for i in range(2):
        nl.store(out[i], made[i][0])
    nl.store(out[0], copy)
    return out
