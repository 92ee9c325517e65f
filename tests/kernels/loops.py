"""Every loop statement: while, break, continue, else, enumerate, zip, reversed, dict views."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)


@nki.jit
def kernel(x):
    tile = nl.load(x)
    widths = {"a": 8, "b": 16, "c": 32}
    at = 0
    for name, width in widths.items():
        if name == "b":
            at += width
            continue
        nisa.memset(dst=tile[:, at : at + width], value=float(width))
        at += width
    while True:
        at -= 8
        if at < 40:
            break
        nisa.memset(dst=tile[:, at : at + 8], value=1.0)
    else:
        raise RuntimeError("never")
    for position, (value, name) in enumerate(zip([1, 2], widths.keys(), strict=False)):
        nisa.memset(dst=tile[:, position : position + value], value=float(len(name)))
    for step in reversed(range(0, 6, 2)):
        nisa.memset(dst=tile[:, step], value=0.0)
    nisa.memset(dst=tile[0:32, 1], value=0.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
