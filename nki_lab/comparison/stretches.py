"""Stretches of time of two recordings that belong together: iterations of loops, and lines on the critical path.

Both are read from paired instructions, so that they follow edits as these do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_lab.comparison.instructions import RowPairs
from nki_lab.comparison.places import Place
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole

MOST: Final = 20_000
"""Stretches of a level; a level with more of them would be too fine to be seen, and is left out."""

NO_PLACE: Final = -1
"""The place of rows without a line."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretches:
    """Pairs of stretches, as columns of one length; times are picoseconds.

    `level` is how many loops are around the one of an iteration; it is 0 for lines. `key` is the row of the table
    `iterations` of the earlier recording, or the number of a line in `Compared.lines`.
    """

    level: Array
    key: Array
    before: tuple[Array, Array]
    after: tuple[Array, Array]

    def __len__(self) -> int:
        return len(self.level)


def iterations_of(before: Recording, after: Recording, pairs: RowPairs) -> Stretches:
    """Return the iterations of loops that belong together, those that paired instructions are in.

    An iteration begins where the one before it has ended, or with its first instruction if that is later: so the
    iterations of a level do not overlap where the hardware works on several at a time, and their changes add up.
    """
    sides = before, after
    depths = [_depths(recording) for recording in sides]
    parts: list[tuple[Array, ...]] = []
    for level in range(min(int(depth.max(initial=-1)) for depth in depths) + 1):
        mine = [_at_level(recording, depth, level) for recording, depth in zip(sides, depths, strict=True)]
        keys = _partners(mine[0][pairs.before], mine[1][pairs.after])
        if len(keys[0]) < 2 or len(keys[0]) > MOST:
            continue
        spans = [_spans(recording, key, wanted) for recording, key, wanted in zip(sides, mine, keys, strict=True)]
        parts.append((np.full(len(keys[0]), level), keys[0], *spans[0], *spans[1]))
    return _joined(parts)


def lines_of(before: Recording, after: Recording, pairs: RowPairs, places: tuple[Place | None, ...]) -> Stretches:
    """Return the stretches of the earlier critical path that come from one line, each with the time in which the
    later run executes the same instructions. `places` are those of `Compared.lines`.

    A stretch lies within one iteration of a loop, unless that gives more than `MOST`.
    """
    rows = whole(before.critical_path).astype(np.int64)
    partner = np.full(len(before), -1, np.int64)
    partner[pairs.before] = pairs.after
    number = numbers(before, places, earlier=True)[rows]
    keep = (partner[rows] >= 0) & (number >= 0)
    rows, number = rows[keep], number[keep]
    if not len(rows):
        return _joined([])
    iteration = whole(before.rows["iteration"])[rows]
    is_other = number[1:] != number[:-1]
    first = np.flatnonzero(np.append(True, is_other | (iteration[1:] != iteration[:-1])))
    if len(first) > MOST:
        first = np.flatnonzero(np.append(True, is_other))
    if len(first) > MOST:
        return _joined([])
    ends = [_ends(recording, chosen) for recording, chosen in ((before, rows), (after, partner[rows]))]
    spans = [(np.minimum.reduceat(begin, first), np.maximum.reduceat(end, first)) for begin, end in ends]
    return _joined([(np.zeros(len(first), np.int64), number[first], *spans[0], *spans[1])])


def numbers(recording: Recording, places: tuple[Place | None, ...], *, earlier: bool) -> Array:
    """Return the number of each row's line among `places`, `NO_PLACE` for rows without one."""
    known: dict[tuple[str, int], int] = {}
    for number, place in enumerate(places):
        if place is not None:
            at = (place.file, place.line) if earlier else (place.other_file, place.other_line)
            known.setdefault(at, number)
    sites, paths = recording.table("sites"), recording.texts("sources", "path")
    keys = zip(whole(sites["source"]).tolist(), whole(sites["line"]).tolist(), strict=True)
    found = [*(known.get((paths[source], line), NO_PLACE) for source, line in keys), NO_PLACE]
    return np.array(found, np.int64)[whole(recording.rows["site"])]


def _joined(parts: list[tuple[Array, ...]]) -> Stretches:
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0, np.int64)] * 6
    level, key, begin, end, later_begin, later_end = columns
    return Stretches(level=level, key=key, before=(begin, end), after=(later_begin, later_end))


def _ends(recording: Recording, rows: Array) -> tuple[Array, Array]:
    begin = whole(recording.rows["start"]).astype(np.int64)[rows]
    return begin, begin + whole(recording.rows["duration"]).astype(np.int64)[rows]


def _depths(recording: Recording) -> Array:
    """Return how many loops are around each iteration."""
    parent = whole(recording.table("iterations")["parent"]).astype(np.int64)
    depth = np.zeros(len(parent), np.int64)
    above = parent.copy()
    while (inside := above >= 0).any():
        depth += inside
        above = np.where(inside, parent[above], -1)
    return depth


def _at_level(recording: Recording, depth: Array, level: int) -> Array:
    """Return the iteration of a level that each row is in; -1 for rows outside of its loops."""
    parent = whole(recording.table("iterations")["parent"]).astype(np.int64)
    above = np.arange(len(parent))
    while (deeper := depth[above] > level).any():
        above = np.where(deeper, parent[above], above)
    above[depth < level] = -1
    return np.append(above, -1)[whole(recording.rows["iteration"])]


def _partners(one: Array, other: Array) -> tuple[Array, Array]:
    """Return iterations with the ones in which most of their instructions have partners, each of both sides once."""
    keep = (one >= 0) & (other >= 0)
    joined, counts = np.unique(np.stack((one[keep], other[keep])), axis=1, return_counts=True)
    for side in (0, 1):  # of each the partner with the most instructions, the first of equal ones
        order = np.lexsort((-counts, joined[side]))
        joined, counts = joined[:, order], counts[order]
        first = np.append(True, joined[side][1:] != joined[side][:-1])[: len(counts)]
        joined, counts = joined[:, first], counts[first]
    order = np.argsort(joined[0], kind="stable")
    return joined[0][order], joined[1][order]


def _spans(recording: Recording, key: Array, wanted: Array) -> tuple[Array, Array]:
    """Return when each wanted iteration begins and ends; `key` is that of each row."""
    mine = np.flatnonzero(key >= 0)
    begin, end = _ends(recording, mine)
    size = int(key.max()) + 1
    low, high = np.full(size, np.iinfo(np.int64).max), np.zeros(size, np.int64)
    np.minimum.at(low, key[mine], begin)
    np.maximum.at(high, key[mine], end)
    present = np.unique(key[mine])
    order = present[np.lexsort((present, low[present], high[present]))]
    so_far = np.concatenate((np.zeros(1, np.int64), high[order][:-1]))  # ends are ascending
    low[order] = np.maximum(low[order], so_far)
    return low[wanted], np.maximum(high[wanted], low[wanted])
