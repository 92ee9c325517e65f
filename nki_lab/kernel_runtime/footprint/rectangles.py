"""Views as rectangles of a table: rows of so many bytes that all views of a tensor are rectangles.

Slices of whatever dimensions are rectangles of some table.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from nki_lab.kernel_runtime.footprint.runs import (
    Column,
    Runs,
    Table,
    merge,
    progression,
    single,
    spread,
)
from nki_lab.kernel_runtime.ir import View
from nki_lab.kernel_runtime.number_sets import distinct, in_both
from nki_lab.kernel_runtime.tensor import Buffer, ViewType

Box = tuple[int, int, int, int]
"""First partition and end, first byte and end."""


def box_of(buffer: Buffer) -> Box:
    """Return the partitions and bytes of a placed tensor."""
    assert buffer.address is not None
    partition, byte = buffer.address
    return partition, partition + buffer.partitions, byte, byte + buffer.partition_bytes


def boxes_overlap(a: Box, b: Box) -> bool:
    """Whether two boxes have a byte in common."""
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def share_bytes(a: Buffer, b: Buffer) -> bool:
    """Whether two tensors are placed on bytes of one memory."""
    if a.address is None or b.address is None or a.space is not b.space or a.core != b.core:
        return False
    return boxes_overlap(box_of(a), box_of(b))


def overlapping_groups(buffers: list[Buffer]) -> list[list[Buffer]]:
    """Return placed tensors that overlap, directly or through others, in lists of two and more, by their numbers."""
    alike: dict[tuple[object, ...], list[Buffer]] = {}
    for buffer in buffers:
        alike.setdefault((buffer.core, buffer.space, *box_of(buffer)), []).append(buffer)
    places = sorted(
        alike.values(), key=lambda members: (members[0].core, members[0].space, box_of(members[0])[2], members[0].id)
    )
    parent = list(range(len(places)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    near: list[int] = []
    for number, (first, *_) in enumerate(places):
        near = [other for other in near if not _ends_before(places[other][0], first)]
        for other in near:
            if share_bytes(places[other][0], first):
                parent[root(other)] = root(number)
        near.append(number)
    groups: dict[int, list[Buffer]] = {}
    for number, members in enumerate(places):
        groups.setdefault(root(number), []).extend(members)
    return [sorted(group, key=lambda buffer: buffer.id) for group in groups.values() if len(group) > 1]


def _ends_before(a: Buffer, b: Buffer) -> bool:
    """Whether a ends before b begins, and before all that begin after b."""
    return a.core != b.core or a.space is not b.space or box_of(a)[3] <= box_of(b)[2]


MOST_PAIRS: Final = 1 << 22  # (view, cell) pairs of a tensor; beyond, its views are not cut
_MOST_BYTES: Final = 1 << 22  # of a view that are written down one by one

Rect = tuple[int, int, int, int]
"""First row and end, first column and end, in elements of a tensor."""


class Rects(NamedTuple):
    """Rectangles of a table with rows of `width` bytes: rows `top` to before `bottom`, bytes `left` to `right`."""

    top: Column
    bottom: Column
    left: Column
    right: Column
    width: int


class _Reach(NamedTuple):
    """The rectangle of a pattern that begins at byte 0: `low` is its first byte, at most 0."""

    low: int
    high: int
    wide: int


@lru_cache(maxsize=4096)
def _reach(kind: ViewType, width: int) -> _Reach | None:
    """The rows, and bytes of a row, that a pattern covers in a table; None where it leaves gaps."""
    size = kind.dtype.nbytes
    if width % size:
        return None
    low, dims = positive(0, kind)
    down = [(count, step * size // width) for count, step in dims if not step * size % width]
    across = [(count, step * size) for count, step in dims if step * size % width]
    high, wide = _without_gaps(down, 1), _without_gaps(across, size)
    return None if high is None or wide is None else _Reach(low * size, high, wide)


def _without_gaps(dims: Sequence[tuple[int, int]], width: int) -> int | None:
    """Return how far dims (count, step) reach from a start of `width`, where they leave no gaps; None where they do."""
    for count, step in sorted(dims, key=lambda dim: dim[1]):
        if step > width:
            return None
        width += (count - 1) * step
    return width


def rect_of(view: View) -> Rect | None:
    """Return the part of its tensor that a view covers; None where it is no rectangle, or of another dtype.

    Rows are partitions on the chip, and all but the last dimension in HBM.
    """
    buffer, kind = view.buffer, view.type
    if view.indirect is not None or kind.dtype is not buffer.dtype:
        return None
    size = kind.dtype.nbytes
    width = (buffer.row_elements if buffer.on_chip else buffer.shape[-1]) * size
    reach = _reach(kind, width)
    if reach is None:
        return None
    top, left = divmod(view.offset * size + reach.low, width)
    _, high, wide = reach
    if wide > width:  # a run of whole rows, and no steps from row to row beside it
        if wide % width or high != 1 or left:
            return None
        high, wide = wide // width, width
    return None if left + wide > width else (top, top + high, left // size, (left + wide) // size)


def rectangles(buffer: Buffer, offset: Column, kinds: Sequence[ViewType | None]) -> Rects | None:
    """Return patterns as rectangles of one table of the buffer; None where no table makes rectangles of all.

    Offsets count elements; without a type a pattern is the whole buffer.
    """
    if buffer.on_chip:
        widths = [buffer.partition_bytes]
    else:
        sizes = itertools.accumulate(reversed(buffer.shape), operator.mul)
        widths = list(dict.fromkeys(size * buffer.dtype.nbytes for size in sizes))
    rows: dict[ViewType | None, list[int]] = {}
    for row, kind in enumerate(kinds):
        rows.setdefault(kind, []).append(row)
    groups = [(kind, np.array(mine, np.int64)) for kind, mine in rows.items()]
    for width in widths:
        out = np.zeros((4, len(kinds)), np.int64)
        if all(_fill(out, kind, mine, offset[mine], width, buffer.nbytes) for kind, mine in groups):
            return Rects(out[0], out[1], out[2], out[3], width)
    return None


def placed_rectangles(members: Sequence[Buffer], offset: Column, kinds: Sequence[ViewType | None]) -> Rects | None:
    """Return patterns of tensors in one memory as rectangles of its partitions and bytes; None where some are none.

    `members` are the tensors, placed ones, of each pattern; without a type a pattern is all of its tensor.
    """
    alike: dict[tuple[int, int, ViewType | None], list[int]] = {}
    for row, (buffer, kind) in enumerate(zip(members, kinds, strict=True)):
        alike.setdefault((buffer.partition_bytes, buffer.nbytes, kind), []).append(row)
    out = np.zeros((4, len(kinds)), np.int64)
    for (width, size, kind), rows in alike.items():
        at = np.array(rows, np.int64)
        if not _fill(out, kind, at, offset[at], width, size):
            return None
    partition, byte = np.array([buffer.address for buffer in members], np.int64).T
    return Rects(out[0] + partition, out[1] + partition, out[2] + byte, out[3] + byte, 0)


def _fill(out: Column, kind: ViewType | None, at: Column, offset: Column, width: int, size: int) -> bool:
    """Write the rectangles of views of one type into columns `at`; False where they are none."""
    if kind is None:
        out[:, at] = np.array([[0], [size // width], [0], [width]])
        return True
    reach = _reach(kind, width)
    if reach is None:
        return False
    top, left = np.divmod(offset * kind.dtype.nbytes + reach.low, width)
    _, high, wide = reach
    if wide > width:  # as in `rect_of`
        if wide % width or high != 1 or left.any():
            return False
        high, wide = wide // width, width
    if (left + wide > width).any():
        return False
    out[:, at] = np.stack((top, top + high, left, left + wide))
    return True


def cut(rects: Rects) -> Table | None:
    """Return the cells into which rectangles cut their table; None where that is too much to write down."""
    down = distinct(np.concatenate((rects.top, rects.bottom)))
    across = distinct(np.concatenate((rects.left, rects.right)))
    top, left = np.searchsorted(down, rects.top), np.searchsorted(across, rects.left)
    high, wide = np.searchsorted(down, rects.bottom) - top, np.searchsorted(across, rects.right) - left
    if int((high * wide).sum()) > MOST_PAIRS:
        return None
    owner = np.repeat(np.arange(len(top)), high)
    field = np.repeat(spread(top, high) * len(across), wide[owner]) + spread(left[owner], wide[owner])
    if len(field) == len(top):  # tiles: no two fields have the same owners
        used, member = np.unique(field, return_inverse=True)
        return Table(len(used), np.arange(len(top) + 1), member)
    return merge(np.repeat(owner, wide[owner]), field, len(top))


class Overlap(NamedTuple):
    """Bytes of a tensor that two views have in common: `rows` of `row_bytes`, and `columns` of each, ends exclusive.

    What is no rectangle counts as part of one row, the whole tensor.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    row_bytes: int


def overlap_of(a: View, b: View) -> Overlap | None:
    """Return the bytes that two views of one buffer share; None where they share none, or that is too much to work out.

    A view with an address from run time may touch everything.
    """
    buffer = a.buffer
    firm = [view for view in (a, b) if view.indirect is None]
    offset = np.array([view.offset for view in firm], np.int64)
    table = rectangles(buffer, offset, [None if view.full else view.type for view in firm]) if firm else None
    if table is not None:
        top, left = int(table.top.max()), int(table.left.max())
        bottom, right = int(table.bottom.min()), int(table.right.min())
        return None if top >= bottom or left >= right else Overlap((top, bottom), (left, right), table.width)
    if len(firm) < 2:
        return None
    one, other = (_bytes(flat(buffer, view.offset, view.type)) for view in firm)
    shared = in_both(one, other) if one is not None and other is not None else np.zeros(0, np.int64)
    return Overlap((0, 1), (int(shared[0]), int(shared[-1]) + 1), buffer.nbytes) if len(shared) else None


def _bytes(runs: Runs) -> Column | None:
    """All bytes of runs, None where they are many."""
    length = runs.stop - runs.start
    return spread(runs.start, length) if int(length.sum()) <= _MOST_BYTES else None


def flat(buffer: Buffer, offset: int, kind: ViewType | None) -> Runs:
    """Return a pattern as bytes of the whole buffer."""
    if kind is None:
        return single(0, buffer.nbytes)
    size = kind.dtype.nbytes
    low, dims = positive(offset, kind)
    return progression(low * size, [(count, step * size) for count, step in dims], size)


def positive(offset: int, kind: ViewType) -> tuple[int, list[tuple[int, int]]]:
    """Return the lowest element, and the dimensions (count, step > 0) that span the pattern from there."""
    dims = []
    for count, step in zip(kind.shape, kind.strides, strict=True):
        if count > 1 and step:
            dims.append((count, abs(step)))
            offset += min(0, (count - 1) * step)
    return offset, dims
