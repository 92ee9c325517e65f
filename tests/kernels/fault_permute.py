"""A view that moves the partition dimension."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI312"


@nki.jit
def kernel(x):
    tile = nl.load(x)
    turned = tile.reshape((128, 8, 8)).permute((1, 0, 2))
    return x
