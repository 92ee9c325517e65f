"""The directory of a Parquet file: where each column of each row group lies, and between which values.

Parquet's own reader ends the process, by an exception that nobody catches, where a column's entry has another type than
the schema, is encrypted, or has limits of too few bytes. So entries are read here, and held against the schema, before
anything asks that reader about them: https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from nki_lab.kernel_runtime.recording.thrift import BINARY, LIST, NUMBERS, STRUCT, Reader

_TYPES: Final = (
    "BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY",
)  # fmt: skip
_MAGIC: Final = b"PAR1"

# Fields of FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and Statistics.
_ROW_GROUPS: Final = 4
_COLUMNS, _ROWS = 1, 3
_META_DATA, _CRYPTO, _ENCRYPTED = 3, 8, 9
_TYPE, _VALUES, _SIZE, _DATA_PAGE, _DICTIONARY_PAGE, _STATISTICS = 1, 5, 7, 9, 11, 12
_GREATEST, _LEAST = 5, 6


class Chunk(NamedTuple):
    """A column of one row group: `size` bytes from `begin` on, and its limits as they are encoded, None without."""

    type: str
    values: int
    begin: int
    size: int
    least: bytes | None
    greatest: bytes | None


class Group(NamedTuple):
    """A row group: its rows, and its chunks in the order of the schema."""

    rows: int
    chunks: list[Chunk]


def footer_of(stream: pa.NativeFile) -> bytes:
    """Return the end of a Parquet file: its directory, the length of that, and the mark. OSError where it is none."""
    size = stream.size()
    end = stream.read_at(8, max(0, size - 8))
    length = int.from_bytes(end[:4], "little") + 8
    if end[4:] != _MAGIC or length > size:
        raise OSError("not a Parquet file")
    found: bytes = stream.read_at(length, size - length)
    return found


def row_groups(footer: bytes, file_size: int) -> list[Group]:
    """Return the row groups of the directory at the end of a file. ValueError where it is none, or not of that file."""
    reader = Reader(footer)
    groups: list[Group] = []
    for field, kind in reader.fields():
        if field == _ROW_GROUPS and kind == LIST:
            groups = [_group(reader, file_size) for _ in range(reader.structures())]
        else:
            reader.skip(kind)
    return groups


def sound_metadata(metadata: pq.FileMetaData, groups: list[Group]) -> pq.FileMetaData:
    """Return what Parquet's reader knows of a file, whose `groups` agree with it. ValueError where they do not."""
    columns = metadata.schema
    types = [columns.column(place).physical_type for place in range(len(columns))]
    if metadata.num_row_groups != len(groups) or metadata.num_rows != sum(group.rows for group in groups):
        raise ValueError(f"{metadata.num_rows} rows, {sum(group.rows for group in groups)} in {len(groups)} row groups")
    for group in groups:
        found = [chunk.type for chunk in group.chunks]
        if found != types:
            raise ValueError(f"a row group has columns of {', '.join(found)}, the schema of {', '.join(types)}")
    return metadata


def _group(reader: Reader, file_size: int) -> Group:
    chunks: list[Chunk] = []
    rows = -1
    for field, kind in reader.fields():
        if field == _COLUMNS and kind == LIST:
            chunks = [_chunk(reader, file_size) for _ in range(reader.structures())]
        elif field == _ROWS and kind in NUMBERS:
            rows = reader.number()
        else:
            reader.skip(kind)
    if rows < 0 or not chunks:
        raise ValueError("a row group without rows or columns")
    return Group(rows, chunks)


def _chunk(reader: Reader, file_size: int) -> Chunk:
    found: Chunk | None = None
    for field, kind in reader.fields():
        if field in (_CRYPTO, _ENCRYPTED):
            raise ValueError("an encrypted column")
        if field == _META_DATA and kind == STRUCT:
            found = _entry(reader)
        else:
            reader.skip(kind)
    if found is None:
        raise ValueError("a column without a description")
    if not (found.begin >= 0 <= found.size and found.begin + found.size <= file_size and found.values >= 0):
        raise ValueError("a column is said to lie outside of the file")
    return found


def _entry(reader: Reader) -> Chunk:
    """Return what a ColumnMetaData says."""
    numbers: dict[int, int] = {}
    limits: dict[int, bytes] = {}
    for field, kind in reader.fields():
        if field == _STATISTICS and kind == STRUCT:
            limits = _limits(reader)
        elif kind in NUMBERS:
            numbers[field] = reader.number()
        else:
            reader.skip(kind)
    kind = numbers.get(_TYPE, -1)
    if not 0 <= kind < len(_TYPES) or not numbers.keys() >= {_VALUES, _SIZE, _DATA_PAGE}:
        raise ValueError("a column without a type, a size or a place")
    pages = [numbers[field] for field in (_DICTIONARY_PAGE, _DATA_PAGE) if numbers.get(field, 0) > 0]
    begin = min(pages, default=0)
    return Chunk(_TYPES[kind], numbers[_VALUES], begin, numbers[_SIZE], limits.get(_LEAST), limits.get(_GREATEST))


def _limits(reader: Reader) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for field, kind in reader.fields():
        if field in (_LEAST, _GREATEST) and kind == BINARY:
            found[field] = reader.binary()
        else:
            reader.skip(kind)
    return found
