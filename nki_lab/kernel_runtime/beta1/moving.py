"""Indices that a number in SBUF moves at run time: `off[0, i] + nl.arange(n)[None, :]` in a subscript."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nki_lab.kernel_runtime.beta1.index import Index
from nki_lab.kernel_runtime.tensor import Indirect, NkiTensor, sbuf
from nki_lab.kernel_runtime.tensor.buffer import integer_of
from nki_lab.kernel_runtime.tensor.indirect import dynamic_select


@dataclass(slots=True, eq=False, repr=False)
class MovedIndex:
    """The values of `index`, all moved by the one element of `by`."""

    index: Index
    by: NkiTensor
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Index) or integer_of(other) is not None:
            return MovedIndex(self.index + other, self.by)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Index) or integer_of(other) is not None:
            return MovedIndex(self.index - other, self.by)
        return NotImplemented

    def __repr__(self) -> str:
        return f"{self.index!r} + {self.by!r}"


def moved_by_tile(left: Any, right: Any) -> MovedIndex | None:
    """The sum of an index and a whole number in SBUF; None for other sides."""
    for tile, index in ((left, right), (right, left)):
        if isinstance(tile, NkiTensor) and isinstance(index, Index):
            whole = tile._dtype.is_integer and tile._buffer.space is sbuf
            return MovedIndex(index, tile) if tile.size == 1 and whole else None
    return None


def record_of(tensor: NkiTensor, dim: int, moved: MovedIndex) -> Indirect:
    """The run-time part of a subscript whose dimension `dim` is moved; inside the dimension or refused when it runs."""
    low, high = moved.index.span()
    record = dynamic_select(tensor, dim, moved.by)
    return replace(record, lowest=-low, highest=record.extent - 1 - high)
