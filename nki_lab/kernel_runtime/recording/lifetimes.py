"""Lifetimes of buffers: from the first access to the last, and when all of a buffer is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording.columns import Array, Columns, pieces, whole
from nki_lab.kernel_runtime.vocabulary import ROLES

_READ: Final = ROLES.index("read")
_NEVER: Final = np.iinfo(np.int64).max


def lifetimes(tables: Mapping[str, Columns]) -> dict[str, Array]:
    """Return the columns of the table `lifetimes`, from the accesses."""
    rows, buffer_of = tables["rows"], whole(tables["views"]["buffer"])
    begin, first = _filled(len(tables["buffers"]), _NEVER, _NEVER)
    end, last = _filled(len(tables["buffers"]), -1, -1)
    for row, view, role in _operands(rows, tables["accesses"]):
        buffer, start = buffer_of[view], rows["start"][row]
        np.minimum.at(begin, buffer, start)
        np.maximum.at(end, buffer, np.where(role == _READ, start + rows["duration"][row], rows["ready"][row]))
        np.minimum.at(first, buffer, row)
        np.maximum.at(last, buffer, row)
    used = np.flatnonzero(last >= 0)
    used = used[np.argsort(begin[used], kind="stable")]
    return {"buffer": used, "start": begin[used], "end": end[used], "first": first[used], "last": last[used]}


def in_steps(table: Callable[[str], Columns], step_of: Array) -> dict[str, Array]:
    """Return, for each row of `lifetimes`, the steps of the first and last access, the picosecond from which all of the
    buffer is `written` (-1: nothing writes it), the lane that writes it first, and the iteration of its first use.

    A buffer is written by all writes before its first read, and by those first writes of a part of it that come before
    its elements are complete. Later writes change its contents.
    """
    rows, accesses, order = table("rows"), table("accesses"), whole(table("steps")["row"])
    buffer_of, count = whole(table("views")["buffer"]), len(table("buffers"))
    first, first_read, first_write = _filled(count, _NEVER, _NEVER, _NEVER)
    last, written = _filled(count, -1, -1)
    (of_view,) = _filled(len(buffer_of), _NEVER)
    for row, view, role in _operands(rows, accesses):
        step, buffer, reads = step_of[row].astype(np.int64), buffer_of[view], role == _READ
        np.minimum.at(first, buffer, step)
        np.maximum.at(last, buffer, step)
        np.minimum.at(first_read, buffer[reads], step[reads])
        np.minimum.at(first_write, buffer[~reads], step[~reads])
        np.minimum.at(of_view, view[~reads], step[~reads])
    for row, view, role in _operands(rows, accesses):
        step, buffer = step_of[row], buffer_of[view]
        counts = (role != _READ) & ((step < first_read[buffer]) | (step == first_write[buffer]))
        np.maximum.at(written, buffer[counts], rows["ready"][row[counts]])
    parts = np.flatnonzero(of_view < _NEVER)
    parts = parts[np.lexsort((of_view[parts], buffer_of[parts]))]
    parts = parts[_before_complete(table, parts)]
    np.maximum.at(written, buffer_of[parts], rows["ready"][order[of_view[parts]]])
    used = whole(table("lifetimes")["buffer"])
    first[last < 0] = -1
    has_writer = first_write[used] < _NEVER
    writer = np.full(len(used), -1, np.int64)
    writer[has_writer] = rows["lane"][order[first_write[used][has_writer]]]
    return {
        "first": first[used],
        "last": last[used],
        "written": written[used],
        "writer": writer,
        "iteration": rows["iteration"][order[first[used]]] if len(used) else used,
    }


def _filled(count: int, *values: int) -> list[Array]:
    """Return columns that hold one value each."""
    return [np.full(count, value, np.int64) for value in values]


def _operands(rows: Columns, accesses: Columns) -> Iterator[tuple[Array, Array, Array]]:
    """Yield row, view and role of the accesses, many at a time."""
    bounds = np.append(whole(rows["access"]).astype(np.int64), len(accesses))
    for low, high in pieces(len(rows)):
        span = slice(int(bounds[low]), int(bounds[high]))
        row = np.repeat(np.arange(low, high), np.diff(bounds[low : high + 1]))
        yield row, accesses["view"][span], accesses["role"][span]


def _before_complete(table: Callable[[str], Columns], parts: Array) -> Array:
    """Return which of some views, by buffer and first write, come before as many elements as the buffer has."""
    views, patterns, size = table("views"), table("patterns"), whole(table("dims")["size"])
    dim, rank = (whole(patterns[name]).astype(np.int64) for name in ("dim", "rank"))
    elements = np.ones(len(dim), np.int64)
    for level in range(int(rank.max(initial=0))):
        deep = rank > level
        elements[deep] *= size[dim[deep] + level]
    part, buffer = elements[whole(views["pattern"])[parts]], whole(views["buffer"])[parts]
    before = np.cumsum(part) - part
    begin = np.flatnonzero(np.diff(buffer, prepend=-1))
    before -= np.repeat(before[begin], np.diff(begin, append=len(parts)))
    pattern = whole(table("buffers")["pattern"])[buffer]
    total = np.full(len(parts), _NEVER, np.int64)
    total[pattern >= 0] = elements[pattern[pattern >= 0]]
    found: Array = before < total
    return found
