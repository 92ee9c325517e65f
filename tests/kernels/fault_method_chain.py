"""A fault deep in a chain of calls over several lines."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI303"


@nki.jit
def kernel(x):
    helpers = [lambda t: t[0:200]]
    for helper in helpers:
        nl.copy(helper(nl.load(x).reshape((128, 64))))
    return x
