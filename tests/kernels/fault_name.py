"""A name that nothing defines, inside a helper."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI102"


@nki.jit
def kernel(x):
    def inner(tile):
        return nl.add(tlie, 1.0)  # noqa: F821 - the fault

    inner(nl.load(x))
    return x
