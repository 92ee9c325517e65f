"""The files of a Neuron Explorer profile, read column by column, and the lanes of its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.export.explorer.tables import ENGINES
from nki_lab.file_system import arrow_path
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.kernel_runtime.recording.directory import Group, footer_of, row_groups, sound_metadata
from nki_lab.kernel_runtime.recording.pages import pages
from nki_lab.kernel_runtime.recording.schema import LONGEST_TEXT
from nki_lab.kernel_runtime.vocabulary import LANE_KINDS
from nki_lab.source_files import require_regular

LaneColumns = dict[str, list[str | int]]

_PLACE: Final = re.compile(r"""([^\[\]"',;]+):(\d{1,9})(?!\d)""")


def lane_name(track: str) -> str:
    """An engine's own name for what a profile calls it."""
    return track.lower() if track.lower() in ENGINES else track or "engine"


def lanes_of(keys: list[tuple[bool, int, str]], start: Array, duration: Array) -> tuple[Array, LaneColumns]:
    """The lane of each row, and the columns of the lanes, for rows of (is DMA, core, name).

    Engines come first. Each engine and queue has as many lanes as it needs for rows that overlap.
    """
    order = sorted(set(keys), key=_drawing_order)
    number = {key: place for place, key in enumerate(order)}
    group = np.array([number[key] for key in keys], np.int64)
    lane = np.zeros(len(keys), np.int64)
    lanes: LaneColumns = {"name": [], "kind": [], "core": []}
    for place, (is_dma, core, name) in enumerate(order):
        mine = np.flatnonzero(group == place)
        mine = mine[np.lexsort((duration[mine], start[mine]))]
        copies = apart(start[mine], duration[mine])
        lane[mine] = len(lanes["name"]) + copies
        for copy in range(int(copies.max()) + 1):
            lanes["name"].append(name if not copy else f"{name} {copy + 1}")
            lanes["kind"].append(LANE_KINDS.index("dma" if is_dma else "engine"))
            lanes["core"].append(max(0, core))
    return lane, lanes


def _drawing_order(key: tuple[bool, int, str]) -> tuple[object, ...]:
    is_dma, core, name = key
    engines = list(ENGINES)
    # Numbers within names count as numbers: q2 is before q10.
    parts = tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", name))
    return is_dma, core, engines.index(name) if name in engines else len(engines), parts


def apart(start: Array, duration: Array) -> Array:
    """The least numbers such that rows of one number do not overlap; rows are in order of start."""
    end = start + duration
    if not bool(np.any(start[1:] < end[:-1])):
        return np.zeros(len(start), np.int64)
    out: list[int] = []
    running: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
        while running and running[0][0] <= begin:
            heappush(free, heappop(running)[1])
        if free:
            number = heappop(free)
        else:
            number, used = used, used + 1
        heappush(running, (stop, number))
        out.append(number)
    return np.array(out, np.int64)


def sites_of(places: list[str]) -> tuple[Array, dict[str, list[int]], dict[str, list[str]]]:
    """The site of each place in the source, of which the first `file:line` counts."""
    numbers: dict[tuple[str, int], int] = {}
    known = {
        place: numbers.setdefault((found[1].strip(), int(found[2])), len(numbers)) if found else -1
        for place, found in ((place, _PLACE.search(place)) for place in dict.fromkeys(places))
    }
    paths = list(dict.fromkeys(path for path, _ in numbers))
    place_of = {path: place for place, path in enumerate(paths)}
    sites = {"source": [place_of[path] for path, _ in numbers], "line": [line for _, line in numbers]}
    return np.array([known[place] for place in places], np.int64), sites, {"path": paths, "text": [""] * len(paths)}


def critical_predecessors(rows: dict[str, Array], edges: dict[str, Array], previous: Array) -> Array:
    """Of the rows that a row depends on and the one before it on its lane, the last to end that has ended by then."""
    end = rows["start"] + rows["duration"]
    row = np.concatenate((edges["row"], np.flatnonzero(previous >= 0)))
    before = np.concatenate((edges["before"], previous[previous >= 0]))
    # Only earlier rows, so that no circle closes among rows of no length.
    some = (before < row) & (end[before] <= rows["start"][row])
    row, before = row[some], before[some]
    order = np.lexsort((before, end[before], row))
    out = np.full(len(end), -1)
    out[row[order]] = before[order]  # the last of each row stays
    return out


T = TypeVar("T")


class Texts(NamedTuple):
    """A text column: the number of each row's text among `values`, -1 where there is none."""

    codes: Array
    values: list[str]

    def of(self, row: int) -> str:
        """The text of a row; empty where there is none."""
        code = int(self.codes[row])
        return self.values[code] if code >= 0 else ""

    def all(self) -> list[str]:
        """Every row's text."""
        known = [*self.values, ""]
        return [known[code] for code in self.codes.tolist()]


ALWAYS_READ: Final = 1 << 16
"""Rows that are read from however small a file; rows of more have times of their own, which take a byte at least."""
MOST_DECODED: Final = 1 << 30
"""Bytes that one field of a table may decode to."""


class ProfileTable:
    """One table of a profile, in one file or several. Texts are read as dictionaries: one that a file repeats a million
    times is made once."""

    def __init__(self, name: str, files: Sequence[Path]) -> None:
        self.name = name
        opened = [_guarded(file, partial(_opened, file)) for file in files]
        self._files, self._groups = [file for file, _ in opened], [groups for _, groups in opened]
        self._paths = files
        for path, file in zip(files, self._files, strict=True):
            size, rows = path.stat().st_size, file.metadata.num_rows
            if rows > max(ALWAYS_READ, size):
                raise unreadable(path, f"damaged: {rows:,} rows in {size:,} bytes")
        self.fields = list(dict.fromkeys(field for file in self._files for field in file.schema_arrow.names))

    def __len__(self) -> int:
        return sum(file.metadata.num_rows for file in self._files)

    def require(self, *fields: str) -> None:
        """NKI019 if a field is missing."""
        missing = [field for field in fields if field not in self.fields]
        if missing:
            raise unreadable(self._paths[0], f"the table {self.name} has no field {', '.join(missing)}")

    def _column(self, field: str) -> Any:
        import pyarrow as pa

        parts = []
        for path, file, groups in zip(self._paths, self._files, self._groups, strict=True):
            if field in file.schema_arrow.names:
                _guarded(path, partial(_require_small, path, file, groups, field))
                parts += _guarded(path, partial(_read_column, file, field))
            else:
                parts.append(pa.nulls(file.metadata.num_rows))
        return parts

    def numbers(self, field: str, missing: int = 0) -> Array:
        """A field of whole numbers; `missing` stands for null and for a field that is not there."""
        return self._array(field, missing, np.int64)

    def fractions(self, field: str) -> Array:
        """A field of numbers; NaN stands for null and for a field that is not there."""
        return self._array(field, np.nan, np.float64)

    def _array(self, field: str, missing: float, dtype: type[np.generic]) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if field not in self.fields:
            return np.full(len(self), missing, dtype)
        kind = pa.from_numpy_dtype(np.dtype(dtype))

        def number(part: Any) -> Any:
            if pa.types.is_dictionary(part.type):
                return pc.take(pc.cast(part.dictionary, kind), part.indices)
            return pc.cast(part, kind)

        def convert() -> list[Array]:
            return [pc.fill_null(number(part), missing).to_numpy() for part in self._column(field)]

        return np.concatenate([np.zeros(0, dtype), *_guarded(self._paths[0], convert)])

    def texts(self, field: str) -> Texts:
        """A field of texts; other values as text."""
        import pyarrow as pa

        if field not in self.fields:
            return Texts(np.full(len(self), -1), [])

        def convert() -> Texts:
            numbers: dict[str, int] = {}
            codes = [np.zeros(0, np.int64)]
            for part in self._column(field):
                coded = part if pa.types.is_dictionary(part.type) else part.cast(pa.string()).dictionary_encode()
                known = [
                    -1 if text is None else numbers.setdefault(text, len(numbers))
                    for text in coded.dictionary.cast(pa.string()).to_pylist()
                ]
                if max(map(len, numbers), default=0) > LONGEST_TEXT:
                    raise ValueError(f"a text of {field} is longer than {LONGEST_TEXT} characters")
                places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
                codes.append(np.array([*known, -1])[places])
            return Texts(np.concatenate(codes), list(numbers))

        return _guarded(self._paths[0], convert)

    def first_row(self) -> dict[str, Any]:
        """All fields of the first row that have a value that JSON knows."""
        if not len(self):
            return {}
        row = _guarded(self._paths[0], self._first)
        return {
            name: value
            for name, value in row.items()
            if isinstance(value, str | bool | int) or (isinstance(value, float) and np.isfinite(value))
        }

    def _first(self) -> dict[str, Any]:
        path, file = self._paths[0], self._files[0]
        names = file.schema_arrow.names
        for name in names:
            _require_small(path, file, self._groups[0], name)
        batch = next(file.iter_batches(batch_size=1), None)
        if batch is None:
            raise ValueError("its first row is missing")
        row: dict[str, Any] = batch.to_pylist()[0]
        return row


def _opened(path: Path) -> tuple[Any, list[Group]]:
    """Return a Parquet file whose texts come as dictionaries, and its row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_regular(path.stat())
    stream = pa.OSFile(arrow_path(path))
    groups = row_groups(footer_of(stream), stream.size())
    layout = pq.read_schema(stream)
    texts = [field.name for field in layout if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    file = pq.ParquetFile(stream, read_dictionary=texts)
    sound_metadata(file.metadata, groups)
    return file, groups


def _read_column(file: Any, field: str) -> list[Any]:
    """Return the chunks of a field; ValueError unless each row has one value, and each text is in the dictionary."""
    column = file.read(columns=[field]).column(0)
    column.validate(full=True)
    if len(column) != file.metadata.num_rows:
        raise ValueError(f"the field {field} has {len(column):,} values in {file.metadata.num_rows:,} rows")
    chunks: list[Any] = column.chunks
    return chunks


def _require_small(path: Path, file: Any, groups: Sequence[Group], field: str) -> None:
    """Raise ValueError where a field decodes to too many bytes, by the headers of its pages."""
    columns = file.metadata.schema
    places = [place for place in range(len(columns)) if columns.column(place).path.partition(".")[0] == field]
    total = 0
    with path.open("rb") as stream:
        for group, place in product(groups, places):
            chunk = group.chunks[place]
            stream.seek(chunk.begin)
            found = list(pages(stream.read(chunk.size)))
            values = sum(page.values for page in found if not page.is_dictionary)
            if values != chunk.values:
                raise ValueError(f"the field {field} has pages of {values} values, expected {chunk.values}")
            total += sum(page.size for page in found)
            if total > MOST_DECODED or values > MOST_DECODED >> 3:
                raise ValueError(f"the field {field} decodes to more than {MOST_DECODED} bytes")


_EVENTS: Final = {"Instruction", "DmaPacketAggregated", "DmaPacket"}
"""Tables of what was executed, one of which every profile has."""


def is_profile(folder: Path) -> bool:
    """Whether a folder holds tables of a profile."""
    return not _files(folder).keys().isdisjoint(_EVENTS)


def open_profile(folder: Path) -> dict[str, ProfileTable]:
    """The tables in a folder, by name: `Name.parquet`, or `Name_0.parquet` and so on. NKI018, NKI019."""
    if not folder.is_dir():
        raise coded_error("NKI018", f"{folder}: no such folder", help="name the folder that holds the tables")
    files = _files(folder)
    if files.keys().isdisjoint(_EVENTS):
        raise unreadable(folder, "no profile of Neuron Explorer: there is no table Instruction and none of DMA")
    return {name: ProfileTable(name, found) for name, found in files.items()}


def _files(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each table in a folder, in their order."""
    numbered: dict[str, list[tuple[int, Path]]] = {}
    for file in sorted(folder.glob("*.parquet")):
        found = re.fullmatch(r"([A-Za-z]+)(?:_(\d{1,9}))?", file.stem)
        if found:
            numbered.setdefault(found[1], []).append((int(found[2] or 0), file))
    return {name: [file for _, file in sorted(files)] for name, files in numbered.items()}


def unreadable(path: Path, what: str) -> NkiError:
    """The error that says why a profile cannot be read."""
    return coded_error(
        "NKI019",
        f"{path}: {what}",
        limit="a profile is a folder of Parquet tables as neuron-explorer writes them",
        help="ingest the profile again: neuron-explorer view --ingest-only",
    )


def _guarded(path: Path, read: Callable[[], T]) -> T:
    import pyarrow as pa

    try:
        return read()
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        if isinstance(error, NkiError):
            raise
        told = next(iter(str(error).splitlines()), type(error).__name__)
        raise unreadable(path, f"damaged: {told}") from error
