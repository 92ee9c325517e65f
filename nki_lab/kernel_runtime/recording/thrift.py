"""Thrift's compact protocol, as far as Parquet's headers and directories need it.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_TRUE, _FALSE, _BYTE, _DOUBLE, BINARY, LIST, _SET, _MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
NUMBERS: Final = (4, 5, 6)
_DEEPEST: Final = 8
_LAST_FIELD: Final = (1 << 15) - 1
_MOST_ENTRIES: Final = 1 << 20  # of a list: as many as Parquet's own reader takes


class Reader:
    """Reads fields from bytes, whose caller reads or skips each. ValueError where the bytes are none, or end."""

    def __init__(self, data: bytes, place: int = 0) -> None:
        self._data = data
        self.place = place

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield the number and the kind of each field of a structure, each number once."""
        data, field, seen = self._data, 0, 0
        try:
            while head := data[self.place]:
                self.place += 1
                field = field + (head >> 4) if head >> 4 else self.number()
                if not 0 < field <= _LAST_FIELD or seen >> field & 1:
                    raise ValueError(f"a structure with field {field}, or with two of them")
                seen |= 1 << field
                yield field, head & 0x0F
        except IndexError:
            raise ValueError("a structure is cut off") from None
        self.place += 1

    def number(self) -> int:
        """Read a whole number."""
        try:
            found, self.place = _varint(self._data, self.place)
        except IndexError:
            raise ValueError("a structure is cut off") from None
        return (found >> 1) ^ -(found & 1)

    def binary(self) -> bytes:
        """Read bytes."""
        try:
            size, begin = _varint(self._data, self.place)
        except IndexError:
            raise ValueError("a structure is cut off") from None
        self.place = begin + size
        if self.place > len(self._data):
            raise ValueError("a structure is cut off")
        return self._data[begin : self.place]

    def structures(self) -> int:
        """Return how many structures a list has, which come next."""
        try:
            kind, count, self.place = _list(self._data, self.place)
        except IndexError:
            raise ValueError("a structure is cut off") from None
        if count and kind != STRUCT:
            raise ValueError("a list of something else than structures")
        return count

    def skip(self, kind: int) -> None:
        """Read over a field."""
        try:
            self.place = _behind(self._data, self.place, kind, _DEEPEST)
        except IndexError:
            raise ValueError("a structure is cut off") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the place behind it."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    out = shift = 0
    while byte >= 0x80:
        out |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
        byte = data[at]
    return out | byte << shift, at + 1


def _list(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the kind and the number of a list's entries, and the place of the first."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    return head & 0x0F, _few(count), at


def _few(count: int) -> int:
    if count > _MOST_ENTRIES:
        raise ValueError(f"a list of {count} entries, at most {_MOST_ENTRIES} are read")
    return count


def _behind(data: bytes, at: int, kind: int, depth: int) -> int:
    """Return the place behind a value. IndexError where the data end before, or in the next step."""
    if kind in NUMBERS:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if kind == BINARY:
        size, at = _varint(data, at)
        return at + size
    if kind in (_TRUE, _FALSE):
        return at
    if kind == _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    if not depth:
        raise ValueError("a structure is nested too deeply")
    if kind == STRUCT:
        while head := data[at]:
            at += 1
            if not head >> 4:  # the number of the field follows
                at = _behind(data, at, NUMBERS[0], depth)
            at = _behind(data, at, head & 0x0F, depth - 1)
        return at + 1
    if kind in (LIST, _SET):
        inner, count, at = _list(data, at)
        for _ in range(count):
            at = _entry_end(data, at, inner, depth)
        return at
    if kind == _MAP:
        count, at = _varint(data, at)
        kinds = data[at] if count else 0
        at += bool(count)
        for _ in range(_few(count)):
            at = _entry_end(data, _entry_end(data, at, kinds >> 4, depth), kinds & 0x0F, depth)
        return at
    raise ValueError(f"a field of the unknown kind {kind}")


def _entry_end(data: bytes, at: int, kind: int, depth: int) -> int:
    """Return the place behind an entry of a list, in which truth values take a byte."""
    return at + 1 if kind in (_TRUE, _FALSE) else _behind(data, at, kind, depth - 1)
