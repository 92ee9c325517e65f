"""A launch on two cores: each writes its half of one result in shared HBM."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((256, 64), "float32"),)
GRID = (2,)


@nki.jit
def kernel(x):
    rows = x.shape[0] // nl.num_programs()
    half = nl.ds(nl.program_id(0) * rows, rows)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x[half])
    if nl.program_id(0) == 1:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nl.store(out[half], tile)
    return out
