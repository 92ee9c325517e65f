"""Helpers: nested functions, closures, defaults, keywords, stars, functions as values."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"), 3)


SCALES = (0.5, 2.0)


def apply(tile, *operations, **options):
    result = tile
    for operation in operations:
        result = operation(result)
    if options.get("store") is not None:
        options["store"](result)
    return result


def scaled(tile, factor=SCALES[1]):
    return nl.multiply(tile, factor)


@nki.jit
def kernel(x, times):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    count = 0

    def keep(tile):
        nl.store(out, tile)

    def again(tile, factor=SCALES[0]):
        nonlocal count
        count += 1
        return scaled(tile, factor=factor * count)

    tile = nl.load(x)
    for _ in range(times):
        tile = again(tile)
    assert count == times
    apply(tile, scaled, nl.exp, again, store=keep)
    return out
