"""Tables in Parquet files, of which only the parts that somebody looks at are decoded, and the oldest forgotten."""

from __future__ import annotations

import os
import threading
import zlib
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise, product
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import DTypeLike

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.file_system import arrow_path
from nki_lab.kernel_runtime.number_sets import occurring
from nki_lab.kernel_runtime.recording import schema
from nki_lab.kernel_runtime.recording.columns import Array, Columns, Key, Side, pieces, place_in
from nki_lab.kernel_runtime.recording.directory import Chunk, footer_of, row_groups, sound_metadata
from nki_lab.kernel_runtime.recording.pages import ALWAYS_READ, MOST_GROWTH, Page, pages
from nki_lab.source_files import require_regular


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
    """Return the checksums of a file as it is. OSError or ValueError where it is none of Parquet's."""
    with pa.OSFile(arrow_path(path)) as stream:
        footer, size = footer_of(stream), stream.size()
        groups = row_groups(footer, size)
        sums = [zlib.crc32(stream.read_at(chunk.size, chunk.begin)) for group in groups for chunk in group.chunks]
        return Checksums(
            rows=sum(group.rows for group in groups),
            size=size,
            footer=zlib.crc32(footer),
            chunks=b"".join(item.to_bytes(4, "little") for item in sums),
        )


def _limits_of(chunk: Chunk, column: schema.Column) -> tuple[int, int] | None:
    """Return the least and the greatest value of a chunk as the directory has them; None where it has none."""
    if chunk.least is None or chunk.greatest is None:
        return None
    size = 4 if chunk.type == "INT32" else 8
    if {len(chunk.least), len(chunk.greatest)} != {size}:
        raise ValueError(f"limits of column {column.name} of another size than its numbers")
    signed = column.storage.kind == "i"
    least, greatest = (int.from_bytes(limit, "little", signed=signed) for limit in (chunk.least, chunk.greatest))
    return least, greatest


_T = TypeVar("_T")

CHUNK_ROWS: Final = {"lane_rows": 1 << 14, "steps": 1 << 14, "lane_sums": 1 << 14}
"""Rows of a row group where a query reads a few stretches of it; of other tables DEFAULT_CHUNK."""
DEFAULT_CHUNK: Final = 1 << 15
KEPT_BYTES: Final = 64 * 2**20
"""Decoded values that an open recording keeps."""
READ_WHOLE: Final = 1 << 20
"""Bytes of a table up to which its file is read when it is opened: hundreds of open recordings, of some 25 tables each,
have fewer files open than a process may."""
MOST_DECODED: Final = 8 * 2**30
"""Decoded bytes of all tables together: a run of 50 million instructions."""
_VERSION_KEY: Final = b"nki_lab.version"
_TABLE_KEY: Final = b"nki_lab.table"


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its kind."""
    return next(iter(str(error).splitlines()), type(error).__name__)


_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())


def unreadable(path: Path, what: str, help_text: str = "") -> NkiError:
    """The error that says why a recording cannot be read."""
    return coded_error(
        "NKI019",
        f"{path}: {what}",
        limit="a recording is a folder that nki_lab saved, with all its files unchanged",
        help=help_text or "record the run again, or restore the folder from a copy",
    )


def arrow_schema(spec: schema.Table) -> pa.Schema:
    """The Arrow schema of a table: no nulls, and the units, meanings and references of its columns as metadata."""
    version = ".".join(map(str, schema.VERSION)).encode()
    fields = []
    for column in spec.columns:
        kind = pa.string() if column.is_text else pa.from_numpy_dtype(column.storage)
        notes = {"doc": column.doc, "unit": column.unit, "to": column.to, "choices": ", ".join(column.choices)}
        fields.append(pa.field(column.name, kind, nullable=False, metadata={k: v for k, v in notes.items() if v}))
    return pa.schema(
        fields, metadata={_VERSION_KEY: version, _TABLE_KEY: spec.name.encode(), b"doc": spec.doc.encode()}
    )


def write(table: Columns, path: Path) -> None:
    """Write a table into a new file. Row groups of `lane_rows` never hold rows of two lanes."""
    numeric = [column.name for column in table.spec.columns if not column.is_text]
    layout = arrow_schema(table.spec)
    with (
        pa.OSFile(arrow_path(path), "wb") as stream,
        pq.ParquetWriter(
            stream,
            layout,
            compression="none",  # deltas make the numbers small already, and decode faster than a compressor
            use_dictionary=False,
            column_encoding=dict.fromkeys(numeric, "DELTA_BINARY_PACKED") if numeric else None,
        ) as writer,
    ):
        for low, high in _groups(table):
            arrays = [
                pa.array(table.texts(column.name)[low:high], pa.string())
                if column.is_text
                else pa.array(np.ascontiguousarray(table[column.name][low:high]))
                for column in table.spec.columns
            ]
            writer.write_batch(pa.record_batch(arrays, schema=layout))


def _groups(table: Columns) -> list[tuple[int, int]]:
    size = CHUNK_ROWS.get(table.spec.name, DEFAULT_CHUNK)
    if table.spec.name != "lane_rows" or not len(table):
        return list(pieces(len(table), size))
    # Starts fall where the next lane begins, and nowhere else.
    falls = [0]
    for low, high in pieces(len(table) - 1):
        start = table["start"][low : high + 1]
        falls += (np.flatnonzero(start[1:] < start[:-1]) + low + 1).tolist()
    falls.append(len(table))
    return [(a + low, a + high) for a, b in pairwise(falls) for low, high in pieces(b - a, size)]


def _opened(path: Path) -> pa.NativeFile:
    """Open a file to read parts of it, now or later: a save may remove its name, not what it holds."""
    stream = pa.OSFile(arrow_path(path))
    if stream.size() > READ_WHOLE:
        return stream
    with stream:
        return pa.BufferReader(stream.read())


class ChunkCache:
    """Decoded chunks by table, column and number; the ones used longest ago go first."""

    __slots__ = ("_bytes", "_chunks", "_limit", "_lock")

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._bytes = 0
        self._chunks: OrderedDict[tuple[str, str, int], Array] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str, int]) -> Array | None:
        with self._lock:
            found = self._chunks.get(key)
            if found is not None:
                self._chunks.move_to_end(key)
            return found

    def put(self, key: tuple[str, str, int], chunk: Array) -> None:
        with self._lock:
            if key not in self._chunks:
                self._bytes += chunk.nbytes
            self._chunks[key] = chunk
            while self._bytes > self._limit and len(self._chunks) > 1:
                self._bytes -= self._chunks.popitem(last=False)[1].nbytes


class StoredColumns(Columns):
    """A table in a Parquet file. Raises NKI019 where the file is no such table, now or when a part is read.

    `offsets` are the places of each chunk's first value, and the table's length; `decoded` is the bytes of all numbers.
    A chunk is decoded after its checksum and the sizes of its pages were checked, and its values then: they lie within
    the limits that the directory has of it, in the order that the schema promises.
    """

    __slots__ = (
        "_absent",
        "_cache",
        "_checksums",
        "_file",
        "_groups",
        "_limits",
        "_lock",
        "_names",
        "_path",
        "_stream",
        "_texts",
        "decoded",
        "offsets",
    )

    def __init__(self, spec: schema.Table, path: Path, checksums: Checksums, cache: ChunkCache) -> None:
        self._path = path
        self._checksums = checksums
        self._cache = cache
        self._lock = threading.Lock()
        self._limits: dict[str, tuple[list[int], list[int]]] = {}
        self._texts: dict[str, list[str]] = {}
        self._absent: dict[str, int] = {}  # columns of later versions, with the value of all their rows
        self._guarded(lambda: require_regular(path.stat()))
        self._stream = self._guarded(lambda: _opened(path))
        self._check_file()
        self._groups = self._guarded(lambda: row_groups(footer_of(self._stream), checksums.size))
        known = self._guarded(lambda: pq.read_schema(self._stream)).names
        texts = [column.name for column in spec.columns if column.is_text and column.name in known]
        # As dictionaries, so that a text that a file repeats a million times is made once.
        self._file = self._guarded(lambda: pq.ParquetFile(self._stream, read_dictionary=texts))
        self._names: list[str] = self._file.schema_arrow.names
        self._check(spec)
        meta = self._guarded(lambda: sound_metadata(self._file.metadata, self._groups))
        if meta.num_rows != checksums.rows or len(checksums.chunks) != 4 * meta.num_row_groups * meta.num_columns:
            raise unreadable(path, f"damaged: {meta.num_rows} rows, the manifest says {checksums.rows}")
        groups = [group.rows for group in self._groups]
        if min(groups, default=1) < 1:
            raise unreadable(path, f"damaged: row groups of {groups[:8]} rows, {meta.num_rows} in all")
        self.decoded = meta.num_rows * spec.row_bytes
        if self.decoded > self._budget:
            raise unreadable(
                path, f"damaged: {checksums.size} bytes that decode to {self.decoded}, at most {self._budget} are read"
            )
        self.offsets: list[int] = [0, *accumulate(groups)]
        columns = {column.name: StoredColumn(self, column) for column in spec.columns if not column.is_text}
        super().__init__(spec, columns, meta.num_rows)

    def _check_file(self) -> None:
        size = self._guarded(self._stream.size)
        if size != self._checksums.size:
            raise unreadable(self._path, f"damaged: {size} bytes, the manifest says {self._checksums.size}")
        if self._guarded(lambda: zlib.crc32(footer_of(self._stream))) != self._checksums.footer:
            raise unreadable(self._path, "damaged: the checksum of its directory is another")

    @property
    def _budget(self) -> int:
        """The bytes that the table may decode to."""
        return max(ALWAYS_READ, MOST_GROWTH * self._checksums.size)

    def _check_chunks(self, names: Sequence[str], groups: Iterable[int]) -> None:
        """NKI019 where the bytes of a chunk are not those that were written, or decode to more than they may."""
        columns = self._names
        for number, place in product(groups, map(columns.index, names)):
            rows, entry = self._groups[number].rows, self._groups[number].chunks[place]
            chunk = self._guarded(partial(self._stream.read_at, entry.size, entry.begin))
            if zlib.crc32(chunk) != self._checksums.chunk(number * len(columns) + place):
                raise unreadable(self._path, f"damaged: the checksum of column {columns[place]} is another")
            found: list[Page] = self._guarded(partial(list, pages(chunk)))
            size = sum(page.size for page in found)
            values = sum(page.values for page in found if not page.is_dictionary)
            most = max(ALWAYS_READ, MOST_GROWTH * len(chunk))
            if values != rows or size > most or max((page.values for page in found), default=0) > most:
                raise unreadable(
                    self._path,
                    f"damaged: column {columns[place]} has pages of {values} values in {size} bytes for {rows} rows",
                )

    def _check(self, spec: schema.Table) -> None:
        found = self._file.schema_arrow
        if len(found) != self._file.metadata.num_columns:
            raise unreadable(self._path, "damaged: columns within columns")
        for expected in arrow_schema(spec):
            place = found.get_field_index(expected.name)
            if place >= 0 and spec[expected.name].is_text and found.field(place).type == _DICTIONARY:
                continue
            if place < 0 and spec[expected.name].since:
                self._absent[expected.name] = spec[expected.name].default or 0
            elif place < 0 or found.field(place).type != expected.type:
                got = "missing" if place < 0 else str(found.field(place).type)
                raise unreadable(self._path, f"column {expected.name} is {got}, expected {expected.type}")

    def _guarded(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except FileNotFoundError:
            raise unreadable(self._path, "missing") from None
        except OSError as error:
            if not error.errno:  # Parquet's reader says so what is wrong with a file
                raise unreadable(self._path, f"damaged: {first_line(error)}") from error
            remedy = "the file may be sound: do what the system asks for, and open the recording again"
            raise unreadable(self._path, f"not read: {os.strerror(error.errno)}", remedy) from error
        except (pa.ArrowException, ValueError, TypeError, OverflowError, MemoryError) as error:
            raise unreadable(self._path, f"damaged: {first_line(error)}") from error

    def texts(self, name: str) -> Sequence[str]:
        if name not in self._texts:
            self._check_chunks([name], range(self._file.metadata.num_row_groups))
            with self._lock:
                column = self._guarded(lambda: self._file.read(columns=[name], use_threads=False).column(0))
            if column.null_count:
                raise unreadable(self._path, f"column {name} has empty places")
            self._texts[name] = self._guarded(lambda: self._decoded(name, column))
        return self._texts[name]

    def _decoded(self, name: str, column: pa.ChunkedArray) -> list[str]:
        """The texts of a column; ValueError where they are none, or too long."""
        out: list[str] = []
        left = self._budget
        for part in column.chunks:
            chunk = part if pa.types.is_dictionary(part.type) else part.dictionary_encode()
            sizes = pc.binary_length(chunk.dictionary).to_numpy(zero_copy_only=False)
            codes = chunk.indices.to_numpy(zero_copy_only=False)
            left -= int(sizes[codes].sum())
            if left < 0:
                raise ValueError(f"texts of column {name} with more than {self._budget} bytes")
            if len(sizes) and int(sizes.max()) > self.spec[name].longest:
                raise ValueError(f"a text of column {name} has {sizes.max()} bytes, at most {self.spec[name].longest}")
            values = chunk.dictionary.to_pylist()
            out += [values[code] for code in codes.tolist()]
        return out

    def prefetch(self, names: Sequence[str], low: int, high: int) -> None:
        if low < high:
            for number in self._numbers(low, high):
                self._load(names, number)

    def _numbers(self, low: int, high: int) -> range:
        return range(bisect_right(self.offsets, low) - 1, bisect_left(self.offsets, high))

    def _load(self, names: Sequence[str], number: int) -> dict[str, Array]:
        """Chunk `number` of some columns, read together where they are not at hand."""
        table = self.spec.name
        out = {name: chunk for name in names if (chunk := self._cache.get((table, name, number))) is not None}
        size = self.offsets[number + 1] - self.offsets[number]
        out |= {
            name: np.full(size, value, self.spec[name].storage) for name, value in self._absent.items() if name in names
        }
        wanted = [name for name in names if name not in out]
        if not wanted:
            return out
        self._check_chunks(wanted, [number])
        with self._lock:
            group = self._guarded(lambda: self._file.read_row_group(number, columns=wanted, use_threads=False))
        for name in wanted:
            column = group.column(name)
            if column.null_count or len(column) != size:
                raise unreadable(self._path, f"column {name} has empty places")
            # A copy: the decoder's own buffers come from a pool that keeps what it has.
            out[name] = np.array(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))
            self._check_values(name, number, out[name])
            out[name].flags.writeable = False
            self._cache.put((table, name, number), out[name])
        return out

    def _check_values(self, name: str, number: int, values: Array) -> None:
        """NKI019 where the values of a chunk are not as the file's directory and the schema say."""
        low, high = self.chunk_limits(name)
        column = self.spec[name]
        if int(values.min()) < low[number] or int(values.max()) > high[number]:
            raise unreadable(self._path, f"damaged: values of column {name} beyond the limits in the directory")
        if column.ordered and bool((values[1:] < values[:-1]).any()):
            raise unreadable(self._path, f"damaged: column {name} is not in order")
        for rule in self.spec.rules:
            if set(rule.columns) == {name, schema.NUMBER}:
                place = np.arange(self.offsets[number], self.offsets[number + 1])
                given = (place if one == schema.NUMBER else values for one in rule.columns)
                if bool(rule.broken(*given).any()):
                    raise unreadable(self._path, f"damaged: {rule.fault}")

    def chunk(self, name: str, number: int) -> Array:
        """A decoded chunk of one column."""
        return self._load((name,), number)[name]

    def span(self, name: str, low: int, high: int) -> Array:
        """The values at places `low` to `high` of one column."""
        parts = [
            self.chunk(name, number)[max(low - self.offsets[number], 0) : high - self.offsets[number]]
            for number in (self._numbers(low, high) if low < high else ())
        ]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.zeros(0, self.spec[name].storage)

    def take(self, name: str, places: Array) -> Array:
        """The values at some places of one column."""
        number = np.searchsorted(self.offsets, places, "right") - 1
        out = np.zeros(len(places), self.spec[name].storage)
        for one in occurring(number).tolist():
            mine = number == one
            out[mine] = self.chunk(name, one)[places[mine] - self.offsets[one]]
        return out

    def chunk_limits(self, name: str) -> tuple[list[int], list[int]]:
        """The least and the greatest value of each chunk, as the file's footer has them."""
        if name in self._absent:
            return ([self._absent[name]] * (len(self.offsets) - 1),) * 2
        if name not in self._limits:
            place = self._names.index(name)
            low, high = [], []
            for group in self._groups:
                found = self._guarded(partial(_limits_of, group.chunks[place], self.spec[name]))
                if found is None:
                    raise unreadable(self._path, f"no statistics of column {name}")
                low.append(found[0])
                high.append(found[1])
            self._limits[name] = low, high
        return self._limits[name]

    def limits(self, name: str) -> tuple[int, int]:
        low, high = self.chunk_limits(name)
        return min(low), max(high)


class StoredColumn:
    """A column of a StoredColumns, by place."""

    __slots__ = ("_name", "_table", "dtype")

    def __init__(self, table: StoredColumns, column: schema.Column) -> None:
        self._table = table
        self._name = column.name
        self.dtype: np.dtype[np.integer] = column.storage

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, key: Key) -> Any:
        if isinstance(key, slice):
            low, high, step = key.indices(len(self))
            if step != 1:
                return self._table.take(self._name, np.arange(low, high, step))
            return self._table.span(self._name, low, high)
        if isinstance(key, np.ndarray):
            places = np.flatnonzero(key) if key.dtype == bool else key.astype(np.int64)
            return self._table.take(self._name, np.where(places < 0, places + len(self), places))
        place = range(len(self))[key]
        number = bisect_right(self._table.offsets, place) - 1
        return self._table.chunk(self._name, number)[place - self._table.offsets[number]]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("the column is decoded from a file: there is nothing to share")
        return np.array(self._table.span(self._name, 0, len(self)), dtype=dtype)

    def search(self, value: int, low: int, high: int, side: Side) -> int:
        """Return where `value` would go in the places `low` to `high`, sorted there."""
        if low >= high:
            return low
        table, offsets = self._table, self._table.offsets
        least, _ = table.chunk_limits(self._name)
        first, last = bisect_right(offsets, low) - 1, bisect_left(offsets, high)

        def begin_of(number: int) -> int:
            # Of a chunk that lies in the stretch as a whole, the footer knows the first value: it is the least.
            whole = offsets[number] >= low and offsets[number + 1] <= high
            return least[number] if whole else int(self[max(low, offsets[number])])

        number = first + (bisect_left if side == "left" else bisect_right)(range(first + 1, last), value, key=begin_of)
        begin, end = max(low, offsets[number]), min(high, offsets[number + 1])
        chunk = table.chunk(self._name, number)[begin - offsets[number] : end - offsets[number]]
        return begin + place_in(chunk, value, side)
