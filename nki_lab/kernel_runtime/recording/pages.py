"""Read the sizes of Parquet's pages from their headers, before anything is decoded.

A page's header tells the bytes that a decoder makes room for, and the values that follow. A few bytes may stand for
gigabytes of them: repeated values take no space, nor do compressed ones. The directory of a file tells sizes too, but
nothing holds the pages to it. Headers are structures of Thrift's:
https://parquet.apache.org/docs/file-format/data-pages/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from nki_lab.kernel_runtime.recording.thrift import NUMBERS, STRUCT, Reader

MOST_GROWTH: Final = 256
"""Bytes that a byte of a table may stand for: the encoding that tables are written in packs 128 equal steps into 6."""
ALWAYS_READ: Final = 16 * 2**20
"""Decoded bytes of a table, or of a message, that are read from however small a file."""

# Fields of PageHeader; 5, 7 and 8 are the headers of the three kinds of pages, with the number of values first.
_UNCOMPRESSED, _COMPRESSED, _DATA, _DICTIONARY, _DATA_2 = 2, 3, 5, 7, 8
_VALUES: Final = 1


class Page(NamedTuple):
    """A page: its values, the bytes that it decompresses to, and whether it is a dictionary."""

    values: int
    size: int
    is_dictionary: bool


def pages(chunk: bytes) -> Iterator[Page]:
    """Yield the pages of a column of one row group. ValueError where the bytes are none."""
    place = 0
    while place < len(chunk):
        reader = Reader(chunk, place)
        sizes: dict[int, int] = {}
        kinds: list[int] = []
        values = -1
        for field, kind in reader.fields():
            if field in (_UNCOMPRESSED, _COMPRESSED) and kind in NUMBERS:
                sizes[field] = reader.number()
            elif field in (_DATA, _DICTIONARY, _DATA_2) and kind == STRUCT:
                kinds.append(field)
                values = _values(reader)
            else:
                reader.skip(kind)
        size, stored = (sizes.get(field, -1) for field in (_UNCOMPRESSED, _COMPRESSED))
        if size < 0 or stored < 0:
            raise ValueError("a page without sizes")
        place = reader.place + stored
        if place > len(chunk):
            raise ValueError("a page is cut off")
        if kinds:
            if len(kinds) > 1 or values < 0:
                raise ValueError("a page without a number of values")
            yield Page(values, size, kinds[0] == _DICTIONARY)


def _values(reader: Reader) -> int:
    """Return the number of values of a page, -1 where its header has none."""
    found = -1
    for field, kind in reader.fields():
        if field == _VALUES and kind in NUMBERS:
            found = reader.number()
        else:
            reader.skip(kind)
    return found
