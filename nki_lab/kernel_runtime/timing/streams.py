"""Streams: the transfers of one HBM tensor, which go one after the other (`dma`).

Most transfers are of one stream, some of none or of two, and a program has millions. So the event loop has the first
stream of each op in a column, and the others of the few that have several in lists that end with -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Program, buffers_of_views
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.timing.locks import by_op


class Streams(NamedTuple):
    """The streams of ops: of op i `first[i]`, -1 for none, and those from `more[more_at[i]]` up to the next -1.
    `more_at` is -1 where there are no more.

    There are `total` streams, with numbers from 0.
    """

    first: Column
    more_at: Column
    more: Column
    total: int


def streams_of(
    program: Program, schedule: Schedule, options: Options, in_queue: Mask, transfers: Sequence[int]
) -> Streams:
    """Return the streams of ops in queues, each once: those of its HBM tensors, none within SBUF.

    Each core has its own; without sharing each lane. `transfers` are the variants of ops in queues.
    """
    first, view_of = (np.frombuffer(column, np.uint32) for column in (program.op_access, program.access_view))
    buffer_of = buffers_of_views(program)
    place = program.core_column() if options.bandwidth_sharing else schedule.lane.astype(np.int64)
    width = int(place.max(initial=0)) + 1
    variant = program.variant_column()
    parts: list[tuple[Column, Column]] = []
    for number in transfers:
        rows = np.flatnonzero((variant == number) & in_queue)
        item = program.variants[number]
        before: list[Column] = []
        for at, name in enumerate(item.names):
            if item.use.types[name].on_chip:
                continue
            mine = buffer_of[view_of[first[rows] + np.uint32(at)]] * width + place[rows]
            if before:
                new = np.logical_and.reduce([mine != other for other in before])
                parts.append((rows[new], mine[new]))
            else:
                parts.append((rows, mine))
            before.append(mine)
    start, key = by_op(parts, len(program))
    used = np.bincount(key) > 0
    return chained(start, (np.cumsum(used) - 1)[key], int(used.sum()))


def chained(start: Column, stream: Column, total: int) -> Streams:
    """Return `total` streams of ops, from those of op i: `stream[start[i]:start[i + 1]]`."""
    lengths = np.diff(start)
    first = np.full(len(lengths), -1)
    first[lengths > 0] = stream[start[:-1][lengths > 0]]
    several = np.flatnonzero(lengths > 1)
    ends = np.cumsum(lengths[several])  # behind the -1 of each, which takes the place of its first
    more_at = np.full(len(lengths), -1)
    more_at[several] = ends - lengths[several]
    more = np.full(int(ends[-1]) if len(several) else 1, -1)
    for at in range(1, int(lengths.max(initial=0))):
        mine = several[lengths[several] > at]
        more[more_at[mine] + at - 1] = stream[start[mine] + at]
    return Streams(first, more_at, more, total)


def listed(first: Column, more_at: Column, more: Column) -> tuple[Column, Column]:
    """Return the streams of ops, of op i `found[1][found[0][i]:found[0][i + 1]]`."""
    ends = np.flatnonzero(more < 0)
    others = np.where(more_at < 0, 0, ends[np.searchsorted(ends, more_at)] - more_at)
    start = np.concatenate(([0], np.cumsum((first >= 0) + others)))
    found = np.empty(int(start[-1]), np.int64)
    found[start[:-1][first >= 0]] = first[first >= 0]
    for at in range(int(others.max(initial=0))):
        mine = np.flatnonzero(others > at)
        found[start[mine] + at + 1] = more[more_at[mine] + at]
    return start, found
