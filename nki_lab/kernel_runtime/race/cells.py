"""The bytes that two cores share, cut so that two accesses meet exactly where they have a cell in common.

A tensor is looked at as a table: rows of so many bytes that all of its accesses are rectangles, which holds for slices
of whatever dimensions. What is no rectangle in any such table is cut by `schedule.regions`. Accesses with an address
from run time are left to `conflicts`.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from nki_lab.kernel_runtime.ir import Accesses, Program, View
from nki_lab.kernel_runtime.race.order import Column
from nki_lab.kernel_runtime.schedule.regions import cells_of
from nki_lab.kernel_runtime.schedule.runs import spread
from nki_lab.kernel_runtime.tensor import Buffer, ViewType

_MOST_PAIRS: Final = 1 << 22  # (access, cell) pairs of a tensor; beyond, accesses are not cut
_MOST_BYTES: Final = 1 << 22  # of a view that are written down one by one


class Pieces(NamedTuple):
    """Accesses cell by cell: row i is access `access[i]` of cell `cell[i]`; cells of two tensors differ."""

    access: Column
    cell: Column
    cells: int


class Rects(NamedTuple):
    """Rectangles of a table with rows of `width` bytes: rows `top` to before `bottom`, bytes `left` to `right`."""

    top: Column
    bottom: Column
    left: Column
    right: Column
    width: int


def pieces_of(program: Program, accesses: Accesses) -> Pieces:
    """The accesses, all with addresses that are known, cell by cell."""
    order = np.argsort(accesses.buffer, kind="stable")
    numbers, first = np.unique(accesses.buffer[order], return_index=True)
    rows: list[Column] = []
    cells: list[Column] = []
    count = 0
    for number, mine in zip(numbers.tolist(), np.split(order, first[1:]), strict=False):
        found = _pieces(program, program.buffers[number], accesses, mine)
        rows.append(found.access)
        cells.append(found.cell + count)
        count += found.cells
    nothing = np.zeros(0, np.int64)
    return Pieces(np.concatenate([nothing, *rows]), np.concatenate([nothing, *cells]), count)


def _pieces(program: Program, buffer: Buffer, accesses: Accesses, mine: Column) -> Pieces:
    view, place = np.unique(accesses.view[mine], return_inverse=True)
    table = table_of(program, buffer, view)
    if table is not None:
        found = _grid(table)
        if found is not None:
            start, cell, cells = found
            length = np.diff(start)[place]
            return Pieces(np.repeat(mine, length), cell[spread(start[place], length)], cells)
    cut = cells_of(program, Accesses._make(column[mine] for column in accesses))
    return Pieces(mine[cut.access], cut.cell, int(cut.cell.max(initial=-1)) + 1)


def _grid(rects: Rects) -> tuple[Column, Column, int] | None:
    """For each rectangle the fields that it covers of the finest grid; None where that is too much to write down."""
    down = np.unique(np.concatenate((rects.top, rects.bottom)))
    across = np.unique(np.concatenate((rects.left, rects.right)))
    top, left = np.searchsorted(down, rects.top), np.searchsorted(across, rects.left)
    high, wide = np.searchsorted(down, rects.bottom) - top, np.searchsorted(across, rects.right) - left
    if int((high * wide).sum()) > _MOST_PAIRS:
        return None
    owner = np.repeat(np.arange(len(top)), high)
    row = spread(top, high)
    field = np.repeat(row * len(across), wide[owner]) + spread(left[owner], wide[owner])
    used, cell = np.unique(field, return_inverse=True)
    return np.concatenate(([0], np.cumsum(high * wide))), cell, len(used)


def table_of(program: Program, buffer: Buffer, views: Column) -> Rects | None:
    """The views as rectangles of one table of the buffer; None where no table makes rectangles of all."""
    if buffer.on_chip:
        widths = [buffer.partition_bytes]
    else:
        sizes = itertools.accumulate(reversed(buffer.shape), operator.mul)
        widths = list(dict.fromkeys(size * buffer.dtype.nbytes for size in sizes))
    kinds: dict[ViewType | None, list[int]] = {}
    offset = np.zeros(len(views), np.int64)
    for row, number in enumerate(views.tolist()):
        item = program.views[number]
        kinds.setdefault(None if item.full else item.type, []).append(row)
        offset[row] = item.offset
    groups = [(kind, np.array(rows, np.int64)) for kind, rows in kinds.items()]
    for width in widths:
        out = np.zeros((4, len(views)), np.int64)
        if all(_fill(out, kind, rows, offset[rows], width, buffer.nbytes) for kind, rows in groups):
            return Rects(out[0], out[1], out[2], out[3], width)
    return None


def _fill(out: Column, kind: ViewType | None, at: Column, offset: Column, width: int, size: int) -> bool:
    """Write the rectangles of views of one type into columns `at`; False where they are none."""
    if kind is None:
        out[:, at] = np.array([[0], [size // width], [0], [width]])
        return True
    byte = kind.dtype.nbytes
    if width % byte:
        return False
    low = offset * byte
    down: list[tuple[int, int]] = []
    across: list[tuple[int, int]] = []
    for count, step in zip(kind.shape, kind.strides, strict=True):
        if count > 1 and step:
            low = low + min(0, (count - 1) * step) * byte
            rows, beside = divmod(abs(step) * byte, width)
            (across if beside else down).append((count, abs(step) * byte if beside else rows))
    wide, high = _run(across, byte), _run(down, 1)
    if wide is None or high is None:
        return False
    top, left = np.divmod(low, width)
    if wide > width:
        # A run of whole rows, and no steps from row to row beside it.
        if wide % width or down or left.any():
            return False
        high, wide = wide // width, width
    if (left + wide > width).any():
        return False
    out[:, at] = np.stack((top, top + high, left, left + wide))
    return True


def _run(dims: list[tuple[int, int]], width: int) -> int | None:
    """How far dims (count, step) reach from a start of `width`, where they leave no gaps; None where they do."""
    for count, step in sorted(dims, key=lambda dim: dim[1]):
        if step > width:
            return None
        width += (count - 1) * step
    return width


class Overlap(NamedTuple):
    """Bytes of a tensor that two views have in common: `rows` of `row_bytes`, and `columns` of each, ends exclusive.

    What is no rectangle counts as part of one row, the whole tensor.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    row_bytes: int


def overlap_of(program: Program, a: View, b: View) -> Overlap | None:
    """The bytes that two views of one buffer share; None where they share none, or that is too much to work out."""
    buffer = a.buffer
    loose = [view for view in (a, b) if view.indirect is not None]
    views = np.array([view.id for view in (a, b) if view.indirect is None] or [a.id], np.int64)
    table = None if len(loose) == 2 else table_of(program, buffer, views)
    if table is not None:
        top, left = int(table.top.max()), int(table.left.max())
        bottom, right = int(table.bottom.min()), int(table.right.min())
        if top >= bottom or left >= right:
            return None
        return Overlap((top, bottom), (left, right), table.width)
    if loose:
        return None
    places = [_bytes(view) for view in (a, b)]
    if places[0] is None or places[1] is None:
        return None
    shared = np.intersect1d(places[0], places[1])
    if not len(shared):
        return None
    return Overlap((0, 1), (int(shared[0]), int(shared[-1]) + 1), buffer.nbytes)


def _bytes(view: View) -> Column | None:
    """All bytes of a view, None where they are many."""
    kind = view.type
    places = elements_of(kind.shape, kind.strides, view.offset)
    if places is None or len(places) * kind.dtype.nbytes > _MOST_BYTES:
        return None
    return np.unique((places[:, None] * kind.dtype.nbytes + np.arange(kind.dtype.nbytes)).ravel())


def elements_of(shape: Sequence[int], strides: Sequence[int], offset: int) -> Column | None:
    """The place of every element of a pattern, None where they are many."""
    if math.prod(shape) > _MOST_BYTES:
        return None
    out = np.full(1, offset, np.int64)
    for size, step in zip(shape, strides, strict=True):
        out = (out[:, None] + np.arange(size, dtype=np.int64) * step).ravel()
    return out
