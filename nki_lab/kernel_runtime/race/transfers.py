"""Single transfers whose own parts overlap: the DMA engines of a core move the rows of one transfer at the same time.

Each different transfer counts once, however often it runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from nki_lab.kernel_runtime.footprint import Column, overlap_of, progression
from nki_lab.kernel_runtime.ir import Program, View, access_columns
from nki_lab.kernel_runtime.tensor.pattern import normalise


class Transfer(NamedTuple):
    """A transfer that overlaps itself: its first op, and the views; `source` is -1 where it writes bytes twice."""

    op: int
    target: int
    source: int


def self_overlapping(program: Program) -> Iterator[Transfer]:
    """DMAs that write bytes which they also read for other elements, and those that write bytes more than once."""
    for op in _suspects(program).tolist():
        yield from _of_one(program, op)


def _suspects(program: Program) -> Column:
    """DMAs that read and write one tensor, and the first of each kind that writes bytes twice."""
    twice = np.array(
        [
            item.engine == "dma"
            and any(
                writes_twice(kind.shape, kind.strides)
                for name, is_out in zip(item.names, item.outs, strict=True)
                if is_out and (kind := item.use.types[name]) is not None
            )
            for item in program.variants
        ],
        bool,
    )
    variant = program.variant_column()
    accesses = access_columns(program, indices=False)
    rows = np.flatnonzero(program.ops_where(lambda item: item.engine == "dma")[accesses.op])
    key = accesses.op[rows] * max(len(program.buffers), 1) + accesses.buffer[rows]
    is_out = accesses.is_out[rows]
    both = np.intersect1d(key[is_out], key[~is_out]) // max(len(program.buffers), 1)
    kinds, first = np.unique(variant, return_index=True)
    found: Column = np.union1d(both, first[twice[kinds]])
    return found


def _of_one(program: Program, op: int) -> Iterator[Transfer]:
    variant = program.variant_of(op)
    views = zip(program.views_of(op), variant.outs, strict=True)
    direct = [(view, is_out) for view, is_out in views if view.indirect is None]
    exchanges = op in program.partners
    permutes = "axes" in variant.instruction.operands
    for target in (view for view, is_out in direct if is_out):
        if writes_twice(target.type.shape, target.type.strides):
            yield Transfer(op, target.id, -1)
        for source in (view for view, is_out in direct if not is_out):
            moves = source.buffer is target.buffer and (exchanges or permutes or not _is_in_place(target, source))
            if moves and overlap_of(target, source) is not None:
                yield Transfer(op, target.id, source.id)
                break


def _is_in_place(target: View, source: View) -> bool:
    """Whether each element goes to where it came from."""
    here, there = target.type, source.type
    return (
        target.offset == source.offset
        and here.dtype is there.dtype
        and normalise(here.shape, here.strides) == normalise(there.shape, there.strides)
    )


@lru_cache(maxsize=4096)
def writes_twice(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements of a pattern lie at one place; False where it is too large to tell."""
    dims = [(size, abs(step)) for size, step in zip(shape, strides, strict=True) if size > 1 and step]
    found = progression(0, dims, 1)
    return int((found.stop - found.start).sum()) < math.prod(shape)
