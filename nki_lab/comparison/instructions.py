"""Executed rows of two recordings that are the same instruction, found by line, iteration, operands and order.

Rows pair in rounds, each of which asks for less than the one before: the same line, instruction, operands and
iteration first, at last the same line and the same place in the order of its rows. A round is a sort of hashed columns;
nothing loops over rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_lab.comparison.places import NO_LINE, Places
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole

ROUNDS: Final = (
    ("line", "core", "name", "detail", "iteration", "operands"),
    ("line", "core", "name", "iteration", "operands"),
    ("line", "core", "name", "iteration"),
    ("line", "name", "iteration"),
    ("line", "core", "name"),
    ("line", "iteration"),
    ("line",),
)
"""The columns that rows of a pair have in common, by round."""

_NAMED: Final = 3
"""The rounds in which rows without a line take part: their instructions are all that is known of them."""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_MIXERS: Final = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST: Final = np.uint64(31)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPairs:
    """Rows that are the same instruction: `before[i]` and `after[i]`, in the order of `before`; and the others."""

    before: Array
    after: Array
    only_before: Array
    only_after: Array


def rows_of(before: Recording, after: Recording, places: Places) -> RowPairs:
    """Pair the rows of two recordings whose lines are `places`."""
    texts: dict[str, int] = {}
    keys = (_columns(before, places.before, texts), _columns(after, places.after, texts))
    rest = [np.flatnonzero(recording.executed) for recording in (before, after)]
    found: list[tuple[Array, Array]] = []
    for number, names in enumerate(ROUNDS):
        if not len(rest[0]) or not len(rest[1]):
            break
        mine = [
            rows if number < _NAMED else rows[columns["line"][rows] != NO_LINE]
            for rows, columns in zip(rest, keys, strict=True)
        ]
        one, other = (_key(columns, names, rows) for columns, rows in zip(keys, mine, strict=True))
        places_of_one, places_of_other = _matched(one, other)
        pair = mine[0][places_of_one], mine[1][places_of_other]
        found.append(pair)
        rest = [_without(rows, taken) for rows, taken in zip(rest, pair, strict=True)]
    pairs = [np.concatenate([pair[side] for pair in found]) if found else np.zeros(0, np.int64) for side in (0, 1)]
    order = np.argsort(pairs[0], kind="stable")
    return RowPairs(before=pairs[0][order], after=pairs[1][order], only_before=rest[0], only_after=rest[1])


def _without(rows: Array, taken: Array) -> Array:
    keep = np.ones(int(rows[-1]) + 1 if len(rows) else 0, bool)
    keep[taken] = False
    return rows[keep[rows]]


def _key(columns: Mapping[str, Array], names: tuple[str, ...], rows: Array) -> Array:
    key = np.zeros(len(rows), np.uint64)
    for name in names:
        key = _mixed(key, columns[name][rows])
    return key


def _mixed(key: Array, values: Array) -> Array:
    """Return the hash of a hash and further whole numbers."""
    key = (key + values.astype(np.int64).view(np.uint64)) * _ODD + _ODD
    for shift, factor in _MIXERS:
        key = (key ^ (key >> shift)) * factor
    mixed: Array = key ^ (key >> _LAST)
    return mixed


def _matched(one: Array, other: Array) -> tuple[Array, Array]:
    """Return places of equal keys, the first of a key in `one` with its first in `other`, and so on."""
    orders, keys, firsts, counts = [], [], [], []
    for values in (one, other):
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))[: len(ordered)]
        orders.append(order)
        keys.append(ordered[first])
        firsts.append(first)
        counts.append(np.diff(np.append(first, len(ordered))))
    places = np.searchsorted(keys[1], keys[0])
    mine = np.flatnonzero(places < len(keys[1]))
    mine = mine[keys[1][places[mine]] == keys[0][mine]]
    others = places[mine]
    count = np.minimum(counts[0][mine], counts[1][others])
    step = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return (
        orders[0][np.repeat(firsts[0][mine], count) + step],
        orders[1][np.repeat(firsts[1][others], count) + step],
    )


def _columns(recording: Recording, line: Array, texts: dict[str, int]) -> dict[str, Array]:
    """Return the columns of `ROUNDS`; `texts` numbers the texts of both recordings."""
    rows, ops = recording.rows, recording.table("ops")
    names = np.array([texts.setdefault(text, len(texts)) for text in recording.names], np.int64)
    op = whole(rows["op"])
    cores = np.array([lane.core for lane in recording.lanes], np.int64)
    return {
        "line": line[whole(rows["site"])],
        "core": cores[whole(rows["lane"])] if len(cores) else np.zeros(len(op), np.int64),
        "name": names[whole(ops["name"])][op],
        "detail": names[whole(ops["detail"])][op],
        "iteration": _iterations(recording),
        "operands": _operands(recording, names),
    }


def _iterations(recording: Recording) -> Array:
    """Return a hash of the iterations around each row: the loops' values, whatever their variables are called."""
    table = recording.table("iterations")
    parent, value = (whole(table[name]).astype(np.int64) for name in ("parent", "value"))
    hashed = np.zeros(len(parent) + 1, np.uint64)  # at the end that of no loop
    depth = np.zeros(len(parent), np.int64)
    above = parent.copy()
    while (inside := above >= 0).any():
        depth += inside
        above = np.where(inside, parent[above], -1)
    for level in range(int(depth.max(initial=-1)) + 1):
        mine = np.flatnonzero(depth == level)
        hashed[mine] = _mixed(hashed[parent[mine]], value[mine])
    return hashed.view(np.int64)[whole(recording.rows["iteration"])]


def _operands(recording: Recording, names: Array) -> Array:
    """Return a hash of the names of each row's operands and of what it does with them, in order."""
    views, buffers, accesses = (recording.table(name) for name in ("views", "buffers", "accesses"))
    view = whole(accesses["view"])
    buffer = names[whole(buffers["name"])][whole(views["buffer"])] if len(views) else np.zeros(0, np.int64)
    first = whole(recording.rows["access"]).astype(np.int64)
    place = np.arange(len(view)) - np.repeat(first, np.diff(np.append(first, len(view)))) if len(first) else view
    key = _mixed(_mixed(_mixed(np.zeros(len(view), np.uint64), buffer[view]), whole(accesses["role"])), place)
    total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(key)))
    ends = np.append(first[1:], len(view)) if len(first) else first
    return (total[ends] - total[first]).view(np.int64)
