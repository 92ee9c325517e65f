"""Tiles that are stored to HBM and loaded again: advice asks what a program is without that. The compiler leaves them.

A load counts whose bytes one store wrote, of one tile into one of the same shape, as far as both tiles are complete
before anything reads them. Then the readers of the second tile can read the first, and the transfers can go.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.kernel_runtime.backend.listing import Listing
from nki_lab.kernel_runtime.backend.repeats import Dead, Tiles, replace_tiles
from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import View
from nki_lab.kernel_runtime.tensor import Buffer

_LARGEST: Final = 1 << 26  # elements of a tensor that are looked at one by one


def leave_out_round_trips(listing: Listing) -> Column:
    """Let readers of tiles that come back from HBM read those that were stored; return the rows of such loads."""
    tiles = Tiles(listing)
    found = _returned(listing, tiles)
    if not found:
        return np.zeros(0, np.int64)
    loads = listing.source[np.array([tiles.first_write[later] for later in found], np.int64)]
    dead = Dead(listing, tiles)
    dead.without(list(found))
    replace_tiles(listing, tiles, found, dead)
    _drop_stores(listing)
    return loads


def _copies(listing: Listing) -> list[tuple[int, int]]:
    """Return (view written, view read) of each transfer that copies elements as they are, in program order."""
    able = [
        item.engine == "dma" and item.instruction.role == "copy" and item.outs == (True, False)
        for item in listing.variants
    ]
    at = listing.first[np.array(able, bool)[listing.variant]]
    fixed = np.array([view.indirect is None for view in listing.views], bool)
    at = at[fixed[listing.view[at]] & fixed[listing.view[at + 1]]]
    return list(zip(listing.view[at].tolist(), listing.view[at + 1].tolist(), strict=True))


def _returned(listing: Listing, tiles: Tiles) -> dict[int, int]:
    """Return the tile that was stored for each tile that comes back from HBM."""
    views, results = listing.views, {tensor._buffer.id for tensor in listing.program.outputs}
    writers = np.bincount(tiles.buffer[tiles.out], minlength=len(listing.buffers))
    stored: dict[tuple[int, int, int], int] = {}
    boxes: dict[int, list[View]] = {}
    found: dict[int, int] = {}
    for to, source in _copies(listing):
        target, origin = views[to], views[source]
        if target.type.on_chip == origin.type.on_chip:
            continue
        far, near = (origin, target) if target.type.on_chip else (target, origin)
        tile, key = near.buffer.id, (far.buffer.id, far.offset, far.type.id)
        whole = near.full and tiles.simple[tile] and near.type.dtype is far.type.dtype is far.buffer.dtype
        if not target.type.on_chip:
            boxes.setdefault(far.buffer.id, []).append(far)
            if whole:
                stored[key] = tile
        elif whole and writers[tile] == 1 and key in stored:
            before = stored[key]
            if listing.buffers[before].shape == listing.buffers[tile].shape:
                found[tile] = found.get(before, before)
    steady = {
        number
        for number, written in boxes.items()
        if number not in results and len(written) == writers[number] and _are_apart(listing.buffers[number], written)
    }
    return {later: earlier for later, earlier in found.items() if _source(listing, tiles, later) in steady}


def _are_apart(buffer: Buffer, written: list[View]) -> bool:
    """Return whether a tensor of the kernel's own is written once, wherever it is; false of those above `_LARGEST`."""
    count = buffer.partitions * buffer.row_elements
    if buffer.kind != "temp" or count > _LARGEST:
        return False
    seen = np.zeros(count, bool)
    for view in written:
        place = np.lib.stride_tricks.as_strided(seen[view.offset :], view.type.shape, view.type.strides)
        if place.any():
            return False
        place[...] = True
    return True


def _source(listing: Listing, tiles: Tiles, tile: int) -> int:
    """Return the buffer that a tile is loaded from."""
    row = int(tiles.first_write[tile])
    return listing.views[int(listing.view[listing.first[row] + 1])].buffer.id


def _drop_stores(listing: Listing) -> None:
    """Take out what writes tensors in HBM that nothing reads any more, and that are no results."""
    row, out, buffer = listing.access_row, listing.is_out, listing.buffer_of_view[listing.view]
    useless = np.array([not item.on_chip and item.kind == "temp" for item in listing.buffers], bool)
    useless[buffer[~out]] = False
    useless[[tensor._buffer.id for tensor in listing.program.outputs]] = False
    rows = np.zeros(len(listing), bool)
    rows[row[out & useless[buffer]]] = True
    listing.drop(rows)
