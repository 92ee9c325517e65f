"""Python that the compiler refuses and a run accepts: comprehensions, lambdas, try."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)


@nki.jit
def kernel(x):
    starts = [i * 16 for i in range(4) if i != 2]
    sizes = {f"s{i}": i for i in starts}
    square = lambda v: v * v  # noqa: E731
    pick = sorted(sizes, key=lambda name: -sizes[name])[0]
    assert any(size > 40 for size in sizes.values()) and pick == "s48"
    try:
        last = starts[7]
    except IndexError:
        last = starts[-1]
    if (end := last + 16) > 64:
        raise ValueError(end)
    tile = nl.load(x)
    for start in starts:
        nisa.memset(dst=tile[:, start : start + 16], value=float(square(start)))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
