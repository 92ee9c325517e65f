"""Copies that only change the dtype: the instruction before them writes the other dtype at once.

NKI API, instructions of the Vector, Scalar and GpSimd Engines: computation is in float32, and the result is cast to the
dtype of its tile. inferred: where nothing else reads the tile of the first dtype, the compiler leaves the copy out.
Autocomp's sd_attention and the ceilings of AWS's attention kernels, which compute an exponential in float32 and then a
copy in bfloat16 for the next product, are all predicted too slow with these copies.
"""

from __future__ import annotations

import numpy as np

from nki_lab.isa.spec import Use
from nki_lab.kernel_runtime.backend.listing import Listing, is_pure, may_stay
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.kernel_runtime.issue.legality import is_legal
from nki_lab.kernel_runtime.tensor import sbuf

_ENGINES = ("vector", "scalar", "gpsimd")


def merge_casts(listing: Listing) -> None:
    """Let instructions write the tiles to which a copy would bring their results, where nothing else reads these."""
    copies = np.array([_is_copy(variant) for variant in listing.variants], bool)[listing.variant]
    if not copies.any():
        return
    first, row, out = listing.first, listing.access_row, listing.is_out
    buffer = listing.buffer_of_view[listing.view]
    count = len(listing.buffers)
    writes, reads = np.bincount(buffer[out], minlength=count), np.bincount(buffer[~out], minlength=count)
    writer, begin = np.full(count, -1, np.int64), np.full(count, len(listing), np.int64)
    writer[buffer[out]] = row[out]
    np.minimum.at(begin, buffer, row)
    kept = {tensor._buffer.id for tensor in listing.program.outputs}
    gone = np.zeros(len(listing), bool)
    for late in np.flatnonzero(copies).tolist():
        at = int(first[late])
        target, origin = (listing.views[int(listing.view[at + place])] for place in range(2))
        tile = origin.buffer
        early = int(writer[tile.id])
        if writes[tile.id] != 1 or reads[tile.id] != 1 or tile.id in kept or not may_stay(tile) or early < 0:
            continue
        if gone[early] or begin[target.buffer.id] < late or not (origin.full and target.full):
            continue
        wrote = listing.views[int(listing.view[first[early]])]
        if wrote.buffer is not tile or not wrote.full or wrote.type.shape != target.type.shape:
            continue
        number = _casting(listing, int(listing.variant[early]), int(listing.view[at]))
        if number < 0:
            continue
        listing.variant[early], listing.view[first[early]] = number, listing.view[at]
        listing.stand_in[int(listing.source[late])] = int(listing.source[early])
        gone[late] = True
    listing.count("copies to another dtype left out", int(gone.sum()))
    listing.drop(gone)


def _is_copy(variant: Variant) -> bool:
    """Return whether a variant copies a tile of SBUF to another one there, of another dtype, element by element."""
    if variant.instruction.role != "copy" or variant.engine not in _ENGINES or variant.outs != (True, False):
        return False
    target, origin = (variant.use.types[name] for name in variant.names)
    return (
        is_pure(variant)
        and target.space is origin.space is sbuf
        and target.dtype is not origin.dtype
        and target.shape == origin.shape
        and target.indirect is None
        and origin.indirect is None
    )


def _casting(listing: Listing, number: int, view: int) -> int:
    """Return the variant that writes a view as its result; -1 where there is none."""
    old = listing.variants[number]
    if old.engine not in _ENGINES or not old.outs[0]:
        return -1
    if old.instruction.updates(old.use) or old.instruction.role == "copy":
        return -1
    changed = listing.retyped(number, 0, listing.views[view].type)
    use = listing.variants[changed].use
    return changed if is_legal(Use(use.instruction, use.arch, use.types, use.attrs, {})) else -1
