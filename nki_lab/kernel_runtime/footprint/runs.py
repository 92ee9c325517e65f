"""Sets of bytes as runs, and the classes into which several such sets cut an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.number_sets import distinct

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

_MOST_RUNS: Final = 1 << 20  # of one set; beyond, the set is taken for everything between its ends
_MOST_KEPT: Final = 1 << 12  # of one pattern


class Runs(NamedTuple):
    """A set of integers: from `start[i]` to before `stop[i]`, ascending, with gaps between the runs."""

    start: Column
    stop: Column


class Table(NamedTuple):
    """For each of several sets the numbers that belong to it: those of set i are `member[start[i]:start[i + 1]]`."""

    size: int  # how many different numbers there are; they are 0 to size - 1
    start: Column
    member: Column


def single(start: int, stop: int) -> Runs:
    """One run."""
    return Runs(np.array([start], np.int64), np.array([stop], np.int64))


def progression(low: int, dims: Sequence[tuple[int, int]], width: int) -> Runs:
    """The integers low + sum(i_k * step_k) + 0..width-1, for dims (count, step > 0): exact up to a million runs."""
    coarse: list[tuple[int, int]] = []
    for count, step in sorted(dims, key=lambda dim: dim[1]):
        if step <= width and not coarse:
            width += (count - 1) * step
        else:
            coarse.append((count, step))
    if not coarse:
        return single(low, low + width)
    size = math.prod([count for count, _ in coarse])
    if size > _MOST_RUNS:
        return single(low, low + width + sum((count - 1) * step for count, step in coarse))
    runs_of = _runs_from_0 if size <= _MOST_KEPT else _runs_from_0.__wrapped__
    found = runs_of(tuple(coarse), width)
    return Runs(found.start + low, found.stop + low)


@lru_cache(512)
def _runs_from_0(dims: tuple[tuple[int, int], ...], width: int) -> Runs:
    """Return the runs of a progression from 0 on."""
    starts = np.zeros(1, np.int64)
    for count, step in dims:
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * step).ravel()
    starts = distinct(starts)
    # Where a coarse step is shorter than what finer ones reach, runs touch or overlap.
    new = np.ones(len(starts), bool)
    new[1:] = starts[1:] > starts[:-1] + width
    return Runs(starts[new], starts[np.append(np.flatnonzero(new)[1:] - 1, len(starts) - 1)] + width)


def classes(sets: Sequence[Runs]) -> Table:
    """Cut the axis so finely that each set is a union of classes, and no finer.

    Integers are in one class if they belong to the same sets; those of no set belong to no class.
    """
    bounds = distinct(np.concatenate([part for runs in sets for part in runs]))
    starts = np.concatenate([runs.start for runs in sets])
    stops = np.concatenate([runs.stop for runs in sets])
    owner = np.repeat(np.arange(len(sets)), [len(runs.start) for runs in sets])
    first = np.searchsorted(bounds, starts)
    length = np.searchsorted(bounds, stops) - first
    return merge(np.repeat(owner, length), spread(first, length), len(sets))


def spread(first: Column, length: Column) -> Column:
    """first[0], first[0] + 1, ... (length[0] numbers), first[1], ..."""
    ends = np.cumsum(length)
    out: Column = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - length), length)
    return out


def merge(owner: Column, piece: Column, owners: int) -> Table:
    """The table of (owner, piece) pairs with pieces that belong to the same owners made one."""
    order = np.argsort(piece, kind="stable")
    owner, piece = owner[order], piece[order]
    edge = np.diff(piece, prepend=-1) != 0
    first = np.flatnonzero(edge)
    group = np.cumsum(edge) - 1
    # Pieces with the same owners have the same sum of the owners' random words; two words make an accident of 2**-128.
    words = [np.add.reduceat(_scattered(owner, seed), first) for seed in (1, 2)]
    _, left = np.unique(words[0], return_inverse=True)
    _, right = np.unique(words[1], return_inverse=True)
    _, label = np.unique(left * (right.max() + 1) + right, return_inverse=True)
    count = int(label.max()) + 1
    pairs = distinct(owner * count + label[group])
    return Table(count, np.searchsorted(pairs // count, np.arange(owners + 1)), pairs % count)


def _scattered(number: Column, seed: int) -> NDArray[np.uint64]:
    """A fixed random 64-bit word for each number (splitmix64)."""
    word = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
