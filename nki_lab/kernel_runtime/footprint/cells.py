"""Memory cut into cells, so that an access is a set of whole cells.

Two accesses touch the same bytes exactly where they have a cell in common. A store is a buffer, or all tensors that
users placed over each other. Where all accesses of a store cover the same bytes it is one cell; tiles of a tensor are a
cell each; other patterns (strides, windows of convolutions, slices across rows) are cut as finely as they differ and no
finer. An access whose address is computed at run time counts as the whole buffer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from nki_lab.kernel_runtime.footprint.rectangles import (
    MOST_PAIRS,
    cut,
    flat,
    overlapping_groups,
    placed_rectangles,
    positive,
    rectangles,
)
from nki_lab.kernel_runtime.footprint.runs import (
    Column,
    Runs,
    Table,
    classes,
    merge,
    progression,
    single,
    spread,
)
from nki_lab.kernel_runtime.ir import Accesses, Program
from nki_lab.kernel_runtime.number_sets import distinct
from nki_lab.kernel_runtime.tensor import Buffer, ViewType

_WHOLE: Final = 0  # key of the region that is the whole buffer

_Pattern = tuple[Buffer | None, int, ViewType | None]
"""A region of a store: the buffer where there are several, the offset, and the type; None is all of the buffer."""


class Cells(NamedTuple):
    """The accesses cell by cell: row i is access `access[i]` of cell `cell[i]`; `store` is by access."""

    access: Column
    cell: Column
    store: Column
    shared: frozenset[int]  # stores of several placed buffers


def cells_of(program: Program, accesses: Accesses, *, apart: bool = False) -> Cells:
    """Cut the memory that a program writes, and all that it uses on the chip.

    With `apart` each buffer is a store of its own, wherever it is placed.
    """
    store_of, groups = _stores(program, accesses, apart=apart)
    store = store_of[accesses.buffer]
    relevant = np.array([buffer.on_chip for buffer in program.buffers], bool)
    relevant[accesses.buffer[accesses.is_out]] = True
    kept = np.flatnonzero(relevant[accesses.buffer])
    if not len(kept):
        return Cells(kept, kept, store, frozenset(groups))
    keys = _Keys(program, accesses.view[kept], groups, apart=apart)
    width = len(program.views) + 1
    pair, region = np.unique(store[kept] * width + keys.of_view[accesses.view[kept]], return_inverse=True)
    table = _cut(program, keys, pair // width, pair % width, groups)
    length = np.diff(table.start)[region]
    return Cells(np.repeat(kept, length), table.member[spread(table.start[region], length)], store, frozenset(groups))


def _stores(program: Program, accesses: Accesses, *, apart: bool) -> tuple[Column, dict[int, list[Buffer]]]:
    """The store of each buffer, and the members of those that have several."""
    out = np.arange(len(program.buffers), dtype=np.int64)
    if apart:
        return out, {}
    used = set(distinct(accesses.buffer).tolist())
    placed = [buffer for buffer in program.buffers if buffer.address is not None and buffer.id in used]
    shared = {group[0].id: group for group in overlapping_groups(placed)}
    for number, group in shared.items():
        out[[buffer.id for buffer in group]] = number
    return out, shared


class _Keys:
    """A number for each different (buffer where shared, offset, view type); equal numbers are equal sets of bytes.

    With `apart` each view has its own: it takes longer to find out which are equal than to cut them all.
    """

    def __init__(self, program: Program, used: Column, groups: dict[int, list[Buffer]], *, apart: bool) -> None:
        self.found: dict[int, _Pattern] = {_WHOLE: (None, 0, None)}
        used = distinct(used)
        if apart:
            self.of_view = np.arange(1, len(program.views) + 1)
            for number in used.tolist():
                view = program.views[number]
                self.found[number + 1] = (None, view.offset, None if view.full else view.type)
            return
        self.of_view = np.zeros(len(program.views), np.int64)
        shared = {buffer.id for group in groups.values() for buffer in group}
        numbers: dict[tuple[int, int, int], int] = {}
        for number in used.tolist():
            view = program.views[number]
            member = view.buffer if view.buffer.id in shared else None
            whole = view.full or view.indirect is not None
            if whole and member is None:
                continue
            kind = None if whole else view.type
            key = (-1 if member is None else member.id, view.offset, -1 if kind is None else kind.id)
            known = numbers.get(key)
            if known is None:
                known = numbers[key] = len(self.found)
                self.found[known] = (member, view.offset, kind)
            self.of_view[number] = known


def _cut(program: Program, keys: _Keys, store: Column, key: Column, groups: dict[int, list[Buffer]]) -> Table:
    """Cells of all regions (store, key), which are sorted by store."""
    edges = np.flatnonzero(np.diff(store, prepend=-1))
    length = np.ones(len(store), np.int64)
    pieces: list[tuple[int, Table]] = []
    cells = np.ones(len(edges), np.int64)
    memo: dict[tuple[object, ...], Table] = {}
    for row in np.flatnonzero(np.diff(edges, append=len(store)) > 1).tolist():
        low = int(edges[row])
        high = int(edges[row + 1]) if row + 1 < len(edges) else len(store)
        buffer = program.buffers[int(store[low])]
        numbers = tuple(key[low:high].tolist())
        like = (buffer.shape, buffer.dtype.nbytes, buffer.on_chip, numbers)
        table = memo.get(like)
        if table is None or buffer.id in groups:
            table = memo[like] = _cut_one(buffer, keys, numbers, groups.get(buffer.id))
        pieces.append((low, table))
        cells[row] = table.size
        length[low:high] = np.diff(table.start)
    start = np.concatenate(([0], np.cumsum(length)))
    member = np.repeat(np.repeat(np.cumsum(cells) - cells, np.diff(edges, append=len(store))), length)
    for low, table in pieces:
        member[start[low] : start[low] + len(table.member)] += table.member
    return Table(int(cells.sum()), start, member)


def _cut_one(buffer: Buffer, keys: _Keys, numbers: tuple[int, ...], group: list[Buffer] | None) -> Table:
    """Cells of the regions of one store."""
    found = [keys.found[number] for number in numbers]
    offset, kinds = np.array([item[1] for item in found], np.int64), [item[2] for item in found]
    if group is None:
        table = rectangles(buffer, offset, kinds)
    else:
        table = placed_rectangles([member or buffer for member, _, _ in found], offset, kinds)
    cells = None if table is None else cut(table)
    if cells is not None:
        return cells
    products = [_product(member or buffer, offset, kind, group is not None) for member, offset, kind in found]
    whole = [product for product in products if product is not None]
    if len(whole) < len(products):
        row = single(0, 1)
        whole = [(row, flat(buffer, offset, kind)) for _, offset, kind in found]
    rows = _axis([product[0] for product in whole])
    columns = _axis([product[1] for product in whole])
    wide, high = np.diff(columns.start), np.diff(rows.start)
    if int((wide * high).sum()) > MOST_PAIRS:
        return Table(1, np.arange(len(numbers) + 1), np.zeros(len(numbers), np.int64))
    # For region i: every one of its row classes with every one of its column classes.
    owner = np.repeat(np.arange(len(numbers)), high)
    row_class = np.repeat(rows.member, wide[owner])
    column_class = columns.member[spread(columns.start[owner], wide[owner])]
    return merge(np.repeat(owner, wide[owner]), row_class * columns.size + column_class, len(numbers))


def _axis(sets: list[Runs]) -> Table:
    """`classes` of sets of which many are equal."""
    keys = [(runs.start.tobytes(), runs.stop.tobytes()) for runs in sets]
    different = dict(zip(keys, sets, strict=True))
    numbers = {key: number for number, key in enumerate(different)}
    table = classes(list(different.values()))
    chosen = np.array([numbers[key] for key in keys], np.int64)
    length = np.diff(table.start)[chosen]
    return Table(
        table.size, np.concatenate(([0], np.cumsum(length))), table.member[spread(table.start[chosen], length)]
    )


def _product(buffer: Buffer, offset: int, kind: ViewType | None, placed: bool) -> tuple[Runs, Runs] | None:
    """A region as rows × bytes of a row; None where it is no such product, and all of the buffer where `placed`.

    Rows are partitions on the chip, absolute ones where `placed`, and all but the last dimension in HBM.
    """
    row_bytes = buffer.partition_bytes if buffer.on_chip else buffer.shape[-1] * buffer.dtype.nbytes
    first, byte = (buffer.address or (0, 0)) if placed else (0, 0)

    def everything() -> tuple[Runs, Runs]:
        return single(first, first + buffer.nbytes // row_bytes), single(byte, byte + row_bytes)

    if kind is None:
        return everything()
    size = kind.dtype.nbytes
    row, odd = divmod(row_bytes, size)
    if odd:
        return everything() if placed else None
    low, dims = positive(offset, kind)
    start_row, start = divmod(low, row)
    across = [(count, step) for count, step in dims if step % row]
    down = [(count, step // row) for count, step in dims if not step % row]
    if start + sum((count - 1) * step for count, step in across) >= row:
        # A run of whole rows is a product all the same.
        if start or len(across) != 1 or across[0][1] != 1 or across[0][0] % row:
            return everything() if placed else None
        down.append((across[0][0] // row, 1))
        across = [(row, 1)]
    rows_found = progression(first + start_row, down, 1)
    return rows_found, progression(byte + start * size, [(count, step * size) for count, step in across], size)
