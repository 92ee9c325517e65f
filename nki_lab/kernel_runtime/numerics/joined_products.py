"""Products that add up in one tile, as one product of more rows: their operands follow each other in memory.

The weights of attention meet the values of 512 keys in four products of 128 rows each. BLAS goes over the sums once for
each, and is called once for each; read where `copy_propagation` finds them, the operands of one product go on where
those of the product before end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.coverage import Added
from nki_lab.kernel_runtime.footprint import Mask
from nki_lab.kernel_runtime.ir import Program, Variant, View
from nki_lab.kernel_runtime.numerics.slab import Elided, plain_operands
from nki_lab.kernel_runtime.numerics.variant_plan import Place


@dataclass(frozen=True, slots=True)
class Joins:
    """Products that others are done with: for each such op the one that `stands_for` it.

    Of the latter, `rows` are the rows of the contraction that it takes, `operands` the places of both operands by their
    position.
    """

    stands_for: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    operands: dict[int, dict[int, Place]] = field(default_factory=dict)


class _Form(NamedTuple):
    """The instruction of a product, the positions of its operands, and the rows of its contraction."""

    instruction: Instruction
    dst: int
    stationary: int
    moving: int
    rows: int


def join_products(
    program: Program,
    add: Mapping[int, Added],
    operands: Mapping[int, Mapping[int, Place]],
    remain: Mask,
    elided: Elided,
    fixed: Mask,
    most: int | None,
) -> Joins:
    """Return which of the products with `operands` that are read elsewhere, by op in order, are one product together.

    Each adds to the tile of the one before, and nothing is executed between them of the ops that `remain`. They take
    `most` rows of the contraction together, if there is a limit. `fixed` are the buffers in a memory that is not their
    own, among them tiles of elided loads.
    """
    found = Joins()
    rank = np.cumsum(remain).tolist()
    forms: dict[int, _Form] = {}
    variants, first, accesses, views = program.op_variant, program.op_access, program.access_view, program.views
    begun, last, kind, left, right, rows = -1, -1, None, None, None, 0
    for op, places in operands.items():
        number, at = variants[op], first[op]
        form = forms.get(number)
        if form is None:
            form = forms[number] = _form(program.variants[number])
        instruction, dst, stationary, moving, depth = form
        one = places.get(stationary) or _place(views[accesses[at + stationary]], elided, fixed)
        two = places.get(moving) or _place(views[accesses[at + moving]], elided, fixed)
        now = instruction, accesses[at + dst]
        if (
            now == kind
            and _goes_on(left, one, rows)
            and _goes_on(right, two, rows)
            and add.get(op) is True
            and rank[op] == rank[last] + 1
            and (most is None or rows + depth <= most)
        ):
            last, rows = op, rows + depth
            found.stands_for[op] = begun
            found.rows[begun] = rows
            if left is not None and right is not None:
                found.operands[begun] = {stationary: left, moving: right}
            continue
        begun, last, kind, left, right, rows = op, op, now, one, two, depth
    return found


def _form(variant: Variant) -> _Form:
    dst, stationary, moving = plain_operands(variant)
    depth = variant.use.types[variant.names[stationary]].partitions
    return _Form(variant.instruction, dst, stationary, moving, depth)


def _place(view: View, elided: Elided, fixed: Mask) -> Place | None:
    """Return the place of a dense operand that is read where it says; None where that is in no memory of its own."""
    tile = view.buffer
    row, column = divmod(view.offset, tile.row_elements)
    if elided.pitch[tile.id] > 0:
        source = elided.of(tile.id)
        return Place(source.root, source.offset + row * source.pitch + column, source.pitch, 1)
    if fixed[tile.id] or view.type.partition_step != 1:
        return None
    return Place(tile.id, view.offset, tile.row_elements, 1)


def _goes_on(former: Place | None, latter: Place | None, rows: int) -> bool:
    """Return whether a matrix begins where some rows of another end."""
    if former is None:
        return False
    buffer, offset, down, across = former
    return latter == (buffer, offset + rows * down, down, across)
