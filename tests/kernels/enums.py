"""Choices by enumeration members, of the kernel and of the instruction set."""

from enum import Enum, auto

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 128), "float32"),)


class Mode(Enum):
    DOUBLE = 2
    SAME = auto()
    HALF = "half"

    def label(self):
        return self.name.lower()


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for mode in (Mode.DOUBLE, Mode("half"), Mode["DOUBLE"]):
        if mode == Mode.HALF:
            factor = 0.5
        elif mode in (Mode.DOUBLE, Mode.SAME):
            factor = float(mode.value)
        else:
            factor = 1.0
        next_tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name=mode.label() + str(factor))
        nisa.tensor_scalar(dst=next_tile, data=tile, op0=nl.multiply, operand0=factor, engine=nisa.engine.vector)
        tile = next_tile
    if nisa.get_nc_version() >= nisa.nc_version.gen3:
        nisa.tensor_copy(dst=tile, src=tile, engine=nisa.engine.scalar)
    nl.store(out, tile)
    return out
