"""Tables that follow from the rows: order in time, lanes with their waits, memory in use, critical path."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nki_lab.kernel_runtime.number_sets import distinct, ranked
from nki_lab.kernel_runtime.recording import schema
from nki_lab.kernel_runtime.recording.columns import Array, Columns, Gathered, MemoryColumns, pieces, whole
from nki_lab.kernel_runtime.vocabulary import SPACES


def steps(start: Array) -> Array:
    """The rows in order of start; equal ones in program order."""
    return np.argsort(start, kind="stable").astype(np.uint32)


def lane_rows(lane: Array, start: Array, duration: Array, lanes: int) -> tuple[Array, Array]:
    """The rows by lane and start, and the place of each lane's first."""
    rows = np.argsort(lane, kind="stable").astype(np.uint32)
    counts = np.bincount(lane, minlength=lanes)
    firsts = (np.cumsum(counts) - counts).astype(np.int64)
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        mine = rows[first : first + count]
        begin, length = start[mine], duration[mine]
        # At equal starts all but one are empty; those come first, or the others would seem to overlap them.
        earlier = (begin[1:] < begin[:-1]) | ((begin[1:] == begin[:-1]) & (length[1:] < length[:-1]))
        if earlier.any():
            rows[first : first + count] = mine[np.lexsort((length, begin))]
    return rows, firsts


def spans(rows: Array, firsts: Array) -> dict[str, Array]:
    """The columns of `lane_spans`, from the rows by lane and the place of each lane's first."""
    return {"first": firsts, "rows": np.diff(np.append(firsts, len(rows)))}


def gaps(rows: Array, firsts: Array, start: Array, duration: Array) -> Array:
    """Return how long each lane stands still before each of its rows, in the order of `rows`."""
    out = np.zeros(len(rows), np.int64)
    for low, high in pieces(len(rows)):
        before = rows[max(low - 1, 0) : high - 1]
        out[low:high] = start[rows[low:high]]
        out[max(low, 1) : high] -= start[before] + duration[before]
    first = firsts[firsts < len(rows)]
    out[first] = start[rows[first]]
    return out


def lane_table(rows: Columns, places: Array, gaps: Array) -> Columns:
    """The table `lane_rows`. What `rows` has is shown, not copied."""
    spec = schema.TABLES["lane_rows"]
    shown = {
        column.name: Gathered(whole(rows[column.name]), places)
        for column in spec.columns
        if column.name not in ("row", "wait")
    }
    wait = np.where(shown["stall"][:] > 0, gaps, shown["setup"][:])
    return MemoryColumns(spec, {"row": places, "wait": wait, **shown}, {}, len(places))


def critical(rows: Columns) -> Array:
    """The rows from which `after` leads on from the row that ends last, in the order of time."""
    if not len(rows):
        return np.zeros(0, np.uint32)
    after = np.ascontiguousarray(whole(rows["after"])).data
    row = int(np.argmax(whole(rows["start"]) + whole(rows["duration"])))
    path = []
    while row >= 0:
        path.append(row)
        if len(path) > len(rows):
            raise ValueError(f"rows.after leads in a circle through row {row}")
        row = after[row]
    return np.array(path[::-1], np.uint32)


def usage(lifetimes: Columns, buffers: Columns) -> dict[str, Array]:
    """The columns of `usage`: bytes of the live buffers in the fullest partition, at each time that changes them.

    Buffers that found no room count as if at partition 0.
    """
    return _usage(lifetimes, buffers, np.ones(len(lifetimes), np.bool_))


def _usage(lifetimes: Columns, buffers: Columns, chosen: Array) -> dict[str, Array]:
    """The columns of `usage` of the chosen lifetimes."""
    space_of = whole(buffers["space"])[whole(lifetimes["buffer"])]
    events = {
        space: _events(lifetimes, buffers, chosen & (space_of == SPACES.index(space))) for space in ("sbuf", "psum")
    }
    times = distinct(np.concatenate([times for times, _ in events.values()]))
    columns: dict[str, Array] = {"time": times}
    for space, (own, level) in events.items():
        columns[space] = np.concatenate(([0], level))[np.searchsorted(own, times, "right")]
    changed = np.any([np.diff(columns[space], prepend=-1) != 0 for space in events], axis=0)
    return {name: column[changed] for name, column in columns.items()}


def usage_by_core(lifetimes: Columns, buffers: Columns, whole_usage: Columns) -> dict[str, Array]:
    """The columns of `usage` with the `core` that each row is about, in the order of core and time.

    `whole_usage` is the table `usage`, which is that of the core where only one has buffers.
    """
    cores = _cores(lifetimes, buffers)
    if len(cores) < 2:
        columns = {name: whole(whole_usage[name]) for name in ("time", "sbuf", "psum")}
        return {**columns, "core": np.full(len(whole_usage), cores[0] if cores else 0, np.int64)}
    core_of = whole(buffers["core"])[whole(lifetimes["buffer"])]
    parts = [_usage(lifetimes, buffers, core_of == core) for core in cores]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {**columns, "core": np.repeat(cores, [len(part["time"]) for part in parts])}


def _cores(lifetimes: Columns, buffers: Columns) -> list[int]:
    """The cores whose own memory has buffers in use."""
    buffer = whole(lifetimes["buffer"])
    on_chip = np.isin(whole(buffers["space"])[buffer], [SPACES.index("sbuf"), SPACES.index("psum")])
    found: list[int] = distinct(whole(buffers["core"])[buffer[on_chip]]).tolist()
    return found


def _events(lifetimes: Columns, buffers: Columns, chosen: Array) -> tuple[Array, Array]:
    """Times at which the chosen lifetimes begin or end, and the fill of the fullest partition from each on."""
    buffer = whole(lifetimes["buffer"])[chosen]
    core, first, count, size = (
        whole(buffers[name])[buffer] for name in ("core", "partition", "partitions", "partition_bytes")
    )
    return fill(whole(lifetimes["start"])[chosen], whole(lifetimes["end"])[chosen], core, first, count, size)


def fill(start: Array, end: Array, core: Array, first: Array, count: Array, size: Array) -> tuple[Array, Array]:
    """Times at which buffers of one kind of memory come or go, and the bytes in the fullest partition from each on.

    A buffer takes `size` bytes of `count` partitions from `first` on (-1: it found no room, and counts as if at 0) of
    its core. Buffers that lie over each other count one by one.
    """
    if not start.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    low = np.maximum(first, 0).astype(np.int64)
    high = low + count
    times, place = ranked(np.concatenate((start, end)))
    # Partitions between two neighbouring bounds of the buffers are all alike: one of each stretch is enough.
    level = np.zeros(len(times), np.int64)
    width = int(low.max()) + 1
    for one, partition in (divmod(key, width) for key in distinct(core.astype(np.int64) * width + low).tolist()):
        here = (core == one) & (low <= partition) & (partition < high)
        change = np.zeros(len(times), np.int64)
        np.add.at(change, place[: len(start)][here], size[here])
        np.subtract.at(change, place[len(start) :][here], size[here])
        np.maximum(level, np.cumsum(change), out=level)
    return times, level


def table(name: str, columns: Mapping[str, Array]) -> Columns:
    """The derived table `name` of these columns."""
    spec = schema.TABLES[name]
    cast = {column.name: columns[column.name].astype(column.storage, copy=False) for column in spec.columns}
    return MemoryColumns(spec, cast, {}, len(next(iter(cast.values()))))
