"""Read the sizes of Parquet's pages from their headers, before anything is decoded.

A page's header tells the bytes that a decoder makes room for, and the values that follow. A few bytes may stand for
gigabytes of them: repeated values take no space, nor do compressed ones. The directory of a file tells sizes too, but
nothing holds the pages to it. Headers are Thrift structures in its compact protocol:
https://parquet.apache.org/docs/file-format/data-pages/ and
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

MOST_GROWTH: Final = 256
"""Bytes that a byte of a table may stand for: the encoding that tables are written in packs 128 equal steps into 6."""
ALWAYS_READ: Final = 16 * 2**20
"""Decoded bytes of a table, or of a message, that are read from however small a file."""

_STOP, _TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12
_DEEPEST: Final = 8
_MOST_ENTRIES: Final = 1 << 16

# Fields of PageHeader; 5, 7 and 8 are the headers of the three kinds of pages, with the number of values first.
_UNCOMPRESSED, _COMPRESSED, _DATA, _DICTIONARY, _DATA_2 = 2, 3, 5, 7, 8


class Page(NamedTuple):
    """A page: its values, the bytes that it decompresses to, and whether it is a dictionary."""

    values: int
    size: int
    is_dictionary: bool


def pages(chunk: bytes) -> Iterator[Page]:
    """Yield the pages of a column of one row group. ValueError where the bytes are none."""
    place = 0
    while place < len(chunk):
        reader = _Reader(chunk, place)
        header = reader.struct(_DEEPEST)
        kind = next((kind for kind in (_DATA, _DICTIONARY, _DATA_2) if kind in header), None)
        size, stored = header.get(_UNCOMPRESSED), header.get(_COMPRESSED)
        head = header.get(kind) if kind is not None else {}
        values = head.get(1) if isinstance(head, dict) else None
        if not (isinstance(size, int) and isinstance(stored, int) and size >= 0 and stored >= 0):
            raise ValueError("a page without sizes")
        place = reader.place + stored
        if place > len(chunk):
            raise ValueError("a page is cut off")
        if kind is not None:
            if not isinstance(values, int) or values < 0:
                raise ValueError("a page without a number of values")
            yield Page(values, size, kind == _DICTIONARY)


class _Reader:
    """Reads one structure; texts, lists and numbers that nobody asks for are skipped."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self.place = place

    def _byte(self) -> int:
        if self.place >= len(self._data):
            raise ValueError("a header is cut off")
        self.place += 1
        return self._data[self.place - 1]

    def _number(self) -> int:
        out = shift = 0
        while True:
            byte = self._byte()
            out |= (byte & 0x7F) << shift
            if byte < 0x80:
                return out
            shift += 7
            if shift > 63:
                raise ValueError("a header has a number of more than 64 bits")

    def struct(self, depth: int) -> dict[int, object]:
        """Return the whole numbers and the structures of a structure by their fields' numbers."""
        if not depth:
            raise ValueError("a header is nested too deeply")
        out: dict[int, object] = {}
        field = 0
        while (head := self._byte()) != _STOP:
            field = field + (head >> 4) if head >> 4 else _signed(self._number())
            out[field] = self._value(head & 0x0F, depth)
            if len(out) > _MOST_ENTRIES:
                raise ValueError("a header has too many fields")
        return out

    def _value(self, kind: int, depth: int) -> object:
        if kind in (_TRUE, _FALSE):
            return None
        if kind == _BYTE:
            return self._byte()
        if _BYTE < kind <= _I64:
            return _signed(self._number())
        if kind == _STRUCT:
            return self.struct(depth - 1)
        if kind in (_DOUBLE, _BINARY):
            size = 8 if kind == _DOUBLE else self._number()
            self.place += size
            return None
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._number()
            self._skip(count, (head & 0x0F,), depth)
            return None
        if kind == _MAP:
            count = self._number()
            if count:
                kinds = self._byte()
                self._skip(count, (kinds >> 4, kinds & 0x0F), depth)
            return None
        raise ValueError("a header is damaged")

    def _skip(self, count: int, kinds: tuple[int, ...], depth: int) -> None:
        if count > _MOST_ENTRIES or not depth:
            raise ValueError("a header is damaged")
        for _ in range(count):
            for kind in kinds:
                if kind in (_TRUE, _FALSE):
                    self._byte()  # within lists, truth values take a byte
                else:
                    self._value(kind, depth - 1)


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
