"""An attribute that tensors do not have."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI006"


@nki.jit
def kernel(x):
    tile = nl.load(x)
    rows = tile.shap[0]
    return x
