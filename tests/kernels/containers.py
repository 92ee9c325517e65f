"""Tiles in lists and dictionaries, unpacked, sliced, sorted."""

import nki
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((512, 64), "float32"),)


@nki.jit
def kernel(x):
    tiles = []
    table = {}
    for i in range(4):
        tile = nl.load(x[i * 128 : (i + 1) * 128])
        tiles.append(tile)
        table[f"tile{i}"] = [tile, i]
    first, *middle, last = tiles
    assert len(middle) == 2 and last is tiles[-1] and table.get("none", 3) == 3
    order = sorted([3, 1, 2, 0], reverse=True)
    order += [max(order), min(order)]
    order[1:3] = [0]
    total = first
    for i in order:
        total = nl.add(total, table["tile" + str(i)][0])
    a, (b, c) = tiles[0], (tiles[1], tiles[2])
    pairs = [(a, b), (b, c)]
    pairs.extend([(c, a)])
    for left, right in pairs:
        total = nl.add(total, nl.maximum(left, right))
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, total)
    return {"total": out}
