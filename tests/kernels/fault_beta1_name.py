"""Beta 1: a name that it never had."""

import neuronxcc.nki.language as nl
from neuronxcc import nki

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI006"


@nki.jit
def kernel(x):
    tile = nl.load(x)
    return nl.lod(tile)
