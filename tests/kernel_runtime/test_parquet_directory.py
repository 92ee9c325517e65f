"""The directory of a Parquet file, read without Parquet's reader, which a damaged one can end the process in."""

from __future__ import annotations

import io
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.recording import Recording, schema, stored
from nki_lab.kernel_runtime.recording.directory import footer_of, row_groups, sound_metadata
from nki_lab.kernel_runtime.recording.pages import pages
from nki_lab.kernel_runtime.recording.thrift import LIST, STRUCT, Reader
from tests.recordings import synthetic, tables_of

KINDS = (pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.bool_(),
         pa.list_(pa.int32()), pa.struct([("a", pa.int64()), ("b", pa.string())]))  # fmt: skip


@st.composite
def tables(draw: Any) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    rows = draw(st.integers(0, 40))
    small = st.integers(0, 100)
    values = {
        pa.string(): st.text(max_size=4),
        pa.bool_(): st.booleans(),
        KINDS[-2]: st.lists(small, max_size=3),
        KINDS[-1]: st.fixed_dictionaries({"a": small, "b": st.text(max_size=2)}),
    }
    columns = [pa.array(draw(st.lists(values.get(kind, small), min_size=rows, max_size=rows)), kind) for kind in kinds]
    return pa.table(columns, names=[f"c{number}" for number in range(len(kinds))])


@given(
    tables(),
    st.sampled_from(("none", "snappy", "zstd")),
    st.booleans(),
    st.sampled_from((1, 7, 1000)),
    st.sampled_from(("1.0", "2.6")),
    st.booleans(),
)
def test_the_directory_says_what_parquet_says(
    table: pa.Table, compression: str, dictionary: bool, group: int, version: str, statistics: bool
) -> None:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=compression, use_dictionary=dictionary, row_group_size=group,
                   version=version, write_statistics=statistics)  # fmt: skip
    content = sink.getvalue()
    footer = footer_of(pa.PythonFile(io.BytesIO(content), "r"))
    found, meta = row_groups(footer, len(content)), pq.read_metadata(io.BytesIO(content))
    assert sound_metadata(meta, found) is meta
    assert [part.rows for part in found] == [meta.row_group(at).num_rows for at in range(meta.num_row_groups)]
    for at, part in enumerate(found):
        assert len(part.chunks) == meta.num_columns
        for place, chunk in enumerate(part.chunks):
            known = meta.row_group(at).column(place)
            first = known.dictionary_page_offset if known.has_dictionary_page else known.data_page_offset
            assert (chunk.type, chunk.values, chunk.begin, chunk.size) == (
                known.physical_type, known.num_values, first, known.total_compressed_size)  # fmt: skip
            values = content[chunk.begin : chunk.begin + chunk.size]
            assert sum(page.values for page in pages(values) if not page.is_dictionary) == chunk.values
            has_limits = known.statistics is not None and known.statistics.has_min_max
            assert (chunk.least is not None) == (chunk.greatest is not None) == has_limits
            if has_limits and chunk.type in ("INT32", "INT64"):
                assert chunk.least is not None
                assert chunk.greatest is not None
                assert int.from_bytes(chunk.least, "little") == known.statistics.min
                assert int.from_bytes(chunk.greatest, "little") == known.statistics.max


@given(st.binary(max_size=60))
@example(b"\x19\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x7f" * 3)
@example(b"\x49\xfc\xff\xff\x3f" + bytes(40))  # a million row groups
@example(b"\x1c" * 60)
@example(b"\x19\x99" * 30)
@example(b"\x1b\x05\xcc" + b"\x1c" * 50)
def test_other_bytes_are_refused_or_read(content: bytes) -> None:
    for read in (lambda: row_groups(content, 10**6), lambda: list(pages(content)), lambda: Reader(content).skip(STRUCT),
                 lambda: Reader(content).skip(LIST)):  # fmt: skip
        try:
            read()
        except ValueError as error:
            assert str(error)


# -- damage that ends the process where Parquet's reader is asked about it ---------------------------------------------

OPENING = """
import sys, zlib
from dataclasses import replace
from pathlib import Path
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.recording import schema, stored

path = Path(sys.argv[1])
content, sums = path.read_bytes(), stored.checksums_of(path)
begin = len(content) - int.from_bytes(content[-8:-4], "little") - 8
for at in range(begin, len(content)):
    for bit in range(at % 2, 8, 2):
        changed = bytearray(content)
        changed[at] ^= 1 << bit
        path.write_bytes(changed)
        again = replace(sums, footer=zlib.crc32(bytes(changed[begin:])))
        try:
            table = stored.StoredColumns(schema.TABLES["steps"], path, again, stored.ChunkCache())
            table.limits("row"), table["row"][:]
        except NkiError as error:
            assert error.diagnostics[0].code == "NKI019", (at, bit, error)
print("all")
"""


def test_each_bit_of_a_directory_may_be_another(tmp_path: Path) -> None:
    Recording(synthetic(60), {"target": "trn2"}).save(tmp_path / "run.nkirec")
    done = subprocess.run([sys.executable, "-c", OPENING, str(tables_of(tmp_path / "run.nkirec")["steps"])],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "all\n"


def forged(footer: bytes) -> Iterator[bytes]:
    """Directories whose first column has a limit that lacks its last byte, or is encrypted."""
    reader = Reader(footer)
    seen: dict[str, int] = {}

    def note(field: int, kind: int, path: str) -> None:
        """Go into the first row group's first column, and note where its limits begin and its description ends."""
        path, begin = f"{path}.{field}", reader.place
        inside = kind == LIST and path in (".4", ".4.1")
        if inside:
            reader.structures()
        if inside or (kind == STRUCT and path in (".4.1.3", ".4.1.3.12")):
            for inner, inner_kind in reader.fields():
                note(inner, inner_kind, path)
            seen.setdefault(f"{path} end", reader.place)
        else:
            reader.skip(kind)
        seen.setdefault(path, begin)

    for field, kind in reader.fields():
        note(field, kind, "")
        if field == 4:
            break
    for path in (".4.1.3.12.5", ".4.1.3.12.6"):
        place, size = seen[path], footer[seen[path]]
        yield footer[:place] + bytes([size - 1]) + footer[place + 1 : place + size] + footer[place + size + 1 :]
    end = seen[".4.1.3 end"]
    yield footer[:end] + b"\x5c\x2c\x19\x08\x00\x00" + footer[end:]  # fields 8: {2: {1: []}}


def test_short_limits_and_encrypted_columns_are_refused(tmp_path: Path) -> None:
    Recording(synthetic(60), {"target": "trn2"}).save(tmp_path / "run.nkirec")
    path = tables_of(tmp_path / "run.nkirec")["steps"]
    content, sums = path.read_bytes(), stored.checksums_of(path)
    length = int.from_bytes(content[-8:-4], "little")
    said = []
    for footer in forged(content[-8 - length : -8]):
        end = footer + len(footer).to_bytes(4, "little") + b"PAR1"
        path.write_bytes(content[: -8 - length] + end)
        again = replace(sums, size=path.stat().st_size, footer=zlib.crc32(end))
        with pytest.raises(NkiError, match="NKI019") as caught:
            stored.StoredColumns(schema.TABLES["steps"], path, again, stored.ChunkCache()).limits("row")
        said.append(caught.value.diagnostics[0].message.rpartition(": ")[2])
    short = "limits of column row of another size than its numbers"
    assert said == [short, short, "an encrypted column"]
