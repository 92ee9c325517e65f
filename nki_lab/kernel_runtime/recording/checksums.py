"""Checksums by which a table on disk is known to be as it was written."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksums:
    """The size of a file, and checksums of its directory and of each column of each row group.

    Parquet's own checksums leave out the directory and the pages' headers.
    """

    rows: int
    size: int
    footer: int
    chunks: bytes

    def chunk(self, number: int) -> int:
        """The checksum of a chunk: row group times columns plus column."""
        return int.from_bytes(self.chunks[4 * number : 4 * number + 4], "little")


def checksums_of(path: Path) -> Checksums:
    """Return the checksums of a file as it is. OSError, or an error of Parquet's, where it is none of Parquet's."""
    with pa.OSFile(str(path)) as stream:
        meta = pq.read_metadata(stream)
        sums = [
            chunk_sum(stream, meta, group, column).to_bytes(4, "little")
            for group in range(meta.num_row_groups)
            for column in range(meta.num_columns)
        ]
        return Checksums(rows=meta.num_rows, size=stream.size(), footer=footer_sum(stream), chunks=b"".join(sums))


def footer_sum(stream: pa.NativeFile) -> int:
    """The checksum of a Parquet file's directory."""
    size = stream.size()
    end = stream.read_at(8, max(0, size - 8))
    length = int.from_bytes(end[:4], "little") + 8
    if end[4:] != b"PAR1" or length > size:
        raise OSError("not a Parquet file")
    return zlib.crc32(stream.read_at(length, size - length))


def chunk_sum(stream: pa.NativeFile, meta: pq.FileMetaData, group: int, column: int) -> int:
    """The checksum of a column's bytes in one row group."""
    chunk = meta.row_group(group).column(column)
    begin = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    return zlib.crc32(stream.read_at(chunk.total_compressed_size, begin))
