"""Python operators on tiles, and assignment to a view."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"), spec((128, 64), "float32"))


@nki.jit
def kernel(a, b):
    x, y = nl.load(a), nl.load(b)
    total = x + y * 2.0 - 1
    total = total.reshape((128, 8, 8)).permute((0, 2, 1)).reshape_dim(1, (2, 4))
    flat = nl.ndarray((128, 2, 4, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=flat, src=total)
    x[:, 0:32] = y[:, 32:64]
    x[:, 32:] = 0.0
    x += y
    small = -x > y
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.maximum(small, flat.reshape((128, 64))))
    return out
