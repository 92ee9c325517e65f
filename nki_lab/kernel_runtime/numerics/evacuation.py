"""Evacuation of slabs: tiles that only carry sums from PSUM to a result, so that nothing needs to lie in them.

A kernel copies a PSUM tile to SBUF, in the dtype of its result, and stores it. Here the store takes the sums from where
the slab has left them; and where the stores make up a whole result, of float32 or of true width, the slab computes it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

import numpy as np

from nki_lab.isa.dtype import BF16, F32
from nki_lab.kernel_runtime.footprint import Mask
from nki_lab.kernel_runtime.ir import Program, Variant
from nki_lab.kernel_runtime.numerics.buffer_usage import NEVER, BufferUsage
from nki_lab.kernel_runtime.numerics.conform import present
from nki_lab.kernel_runtime.numerics.slab import Slab, Submatrix
from nki_lab.kernel_runtime.tensor import reshape_strides

_MOST_SLABS: Final = 64  # of one result, which are compared with each other


@dataclass(slots=True)
class Evacuation:
    """The evacuation of a program's slabs.

    `carriers` are the tiles that stand for the sums in a PSUM tile, by that tile; one of bfloat16 holds sums that its
    stores have yet to round. `in_place` are the results that slabs compute in their place, by the slab's first op.
    `ops` are the copies and stores that are done with.
    """

    carriers: dict[int, list[int]] = field(default_factory=dict)
    in_place: dict[int, Submatrix] = field(default_factory=dict)
    ops: list[int] = field(default_factory=list)


def copies_as_it_is(variant: Variant) -> bool:
    """Whether a variant is a copy that neither converts nor follows indices."""
    use = variant.use
    return (
        variant.instruction.role == "copy"
        and use.dtypes["dst"] is use.dtypes["src"]
        and not (use.types["src"].indirect or use.types["dst"].indirect)
    )


def evacuate(
    program: Program, usage: BufferUsage, slabs: Iterable[Slab], shadowed: Mask, stored: Collection[int]
) -> Evacuation:
    """Return the evacuation of a program's slabs; `shadowed` are buffers in float32, `stored` those at true width."""
    out = Evacuation()
    cells = np.zeros(len(program.buffers), bool)
    cells[[cell for slab in slabs for cell in slab.cells]] = True
    copies = _copies(program, usage, cells, shadowed)
    if not copies:
        return out
    stores = _stores(program, usage, copies, stored)
    for tile, (cell, op) in copies.items():
        if len(stores[tile]) == usage.reads[tile]:
            out.carriers.setdefault(cell, []).append(tile)
            out.ops.append(op)
    _choose_in_place(program, usage, slabs, shadowed, stored, stores, out)
    return out


def _copies(program: Program, usage: BufferUsage, cells: Mask, shadowed: Mask) -> dict[int, tuple[int, int]]:
    """Return PSUM tile and op of the copies that fill a tile, by that tile."""
    buffers = program.buffers
    tiles = (usage.writes == 1) & ~usage.is_output & ~usage.is_index & shadowed
    found: dict[int, tuple[int, int]] = {}
    for op in np.flatnonzero(program.ops_where(_takes_sums)).tolist():
        at = program.op_access[op]
        dst, src = (program.views[number] for number in program.access_view[at : at + 2])
        tile, cell = dst.buffer.id, src.buffer.id
        if not (cells[cell] and tiles[tile] and dst.full and src.full and usage.first_read[tile] > op):
            continue
        if buffers[tile].on_chip:
            found[tile] = (cell, op)
    return found


def _takes_sums(variant: Variant) -> bool:
    """Whether a variant copies a dense float32 tile into one of the same rows, of float32 or bfloat16."""
    use, instruction = variant.use, variant.instruction
    if instruction.role != "copy" or variant.names != ("dst", "src") or instruction.updates(use):
        return False
    dst, src = use.types["dst"], use.types["src"]
    return (
        src.dtype is F32
        and dst.dtype in (F32, BF16)
        and not (src.indirect or dst.indirect)
        and dst.on_chip
        and src.free_strides in ((), (1,))
        and dst.free_strides in ((), (1,))
        and (dst.partitions, dst.free_size) == (src.partitions, src.free_size)
    )


def _stores(
    program: Program, usage: BufferUsage, copies: Collection[int], stored: Collection[int]
) -> dict[int, list[int]]:
    """Return the ops that store a whole tile, by the tile."""
    found: dict[int, list[int]] = defaultdict(list)
    for op in np.flatnonzero(program.ops_where(_stores_tile)).tolist():
        at = program.op_access[op]
        dst, src = (program.views[number] for number in program.access_view[at : at + 2])
        tile = src.buffer
        if tile.id in copies and src.full and (tile.dtype is F32 or dst.buffer.id in stored):
            found[tile.id].append(op)
    return found


def _stores_tile(variant: Variant) -> bool:
    """Whether a variant copies a dense tile to HBM as it is."""
    if not copies_as_it_is(variant) or variant.names != ("dst", "src") or variant.instruction.updates(variant.use):
        return False
    dst, src = variant.use.types["dst"], variant.use.types["src"]
    if dst.on_chip or not src.on_chip or src.free_strides not in ((), (1,)):
        return False
    return all(item.strides is not None for item in present(variant.instruction, variant.use).values())


# -- results computed in place -----------------------------------------------------------------------------------------


def _choose_in_place(
    program: Program,
    usage: BufferUsage,
    slabs: Iterable[Slab],
    shadowed: Mask,
    stored: Collection[int],
    stores: dict[int, list[int]],
    out: Evacuation,
) -> None:
    places: dict[int, list[tuple[Slab, Submatrix, list[int]]]] = defaultdict(list)
    for slab in slabs:
        found = _place(program, usage, slab, stores, out)
        if found is not None:
            place, ops = found
            places[place.root].append((slab, place, ops))
    for root, parts in places.items():
        buffer = program.buffers[root]
        plain = buffer.dtype is F32 and buffer.kind == "output" and not buffer.on_chip and shadowed[root]
        fits = plain or root in stored
        alone = usage.first_read[root] == NEVER and usage.writes[root] == sum(len(ops) for _, _, ops in parts)
        rectangles = [(slab, place) for slab, place, _ in parts]
        if fits and alone and not usage.is_index[root] and _make_up(rectangles, math.prod(buffer.shape)):
            for slab, place, ops in parts:
                out.in_place[slab.first] = place
                out.ops += ops


def _place(
    program: Program, usage: BufferUsage, slab: Slab, stores: dict[int, list[int]], out: Evacuation
) -> tuple[Submatrix, list[int]] | None:
    """Return the part of a result that a slab's sums are stored to as they lie in the slab, and the stores."""
    place: Submatrix | None = None
    ops: list[int] = []
    for cell, (row, column) in slab.cells.items():
        tiles = out.carriers.get(cell, ())
        if len(tiles) != 1 or usage.reads[cell] != 1 or len(stores[tiles[0]]) != 1:
            return None
        (op,) = stores[tiles[0]]
        dst = program.views[program.access_view[program.op_access[op]]]
        strides = reshape_strides(dst.type.shape, dst.type.strides, (slab.m, slab.n))
        if strides is None or strides[1] != 1:
            return None
        here = Submatrix(dst.buffer.id, dst.offset - row * strides[0] - column, strides[0])
        if here != (place or here):
            return None
        place = here
        ops.append(op)
    return None if place is None else (place, ops)


def _make_up(parts: list[tuple[Slab, Submatrix]], size: int) -> bool:
    """Whether the parts of a result are all of its elements, each once."""
    if len(parts) > _MOST_SLABS or sum(math.prod(slab.shape) for slab, _ in parts) != size:
        return False
    pitch = parts[0][1].pitch
    rectangles = []
    for slab, place in parts:
        if place.pitch != pitch or place.offset < 0 or slab.shape[1] > pitch:
            return False
        row, column = divmod(place.offset, pitch)
        if column + slab.shape[1] > pitch or (row + slab.shape[0]) * pitch > size:
            return False
        rectangles.append((row, row + slab.shape[0], column, column + slab.shape[1]))
    return not any(a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3] for a, b in combinations(rectangles, 2))
