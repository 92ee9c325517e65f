"""Forged recordings: a few drawn ones, bombs, and the fuzzer's own parts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.recording import Recording, digest, folder, recording, schema
from nki_lab.kernel_runtime.recording.pages import pages
from nki_lab.kernel_runtime.recording.results import MAKESPAN, RESULTS
from tests.fuzz import recorded, recordings
from tests.recordings import synthetic, tables_of

pytestmark = pytest.mark.extended


def forge(where: Path, name: str, **columns: Any) -> None:
    """Replace columns of a saved table, and seal it again."""
    path = tables_of(where)[name]
    table = pq.read_table(path)
    for column, values in columns.items():
        place = table.column_names.index(column)
        table = table.set_column(place, column, pa.array(values, table.schema.field(place).type))
    pq.write_table(table, path)
    recordings._seal(where, name, path)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    Recording(synthetic(60), {"target": "trn2"}).save(tmp_path / "run.nkirec")
    return tmp_path / "run.nkirec"


def refused(where: Path) -> str:
    with pytest.raises(OSError, match="NKI019") as caught:
        nki_lab.open(where)
    assert isinstance(caught.value, NkiError)
    assert str(where) in caught.value.diagnostics[0].message
    return caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        ("rows", {"start": [0] * 60}, "overlaps the row before it"),
        ("rows", {"ready": [0] * 60}, r"rows.ready is before start"),
        ("rows", {"access": [180] * 60}, "the first access is not that of the first row"),
        ("iterations", {"parent": [1, -1, -1]}, "an iteration within a later one"),
        ("patterns", {"rank": [200]}, "patterns.rank: 200; it lies between 0 and 32"),
        ("patterns", {"dim": [1]}, "dim and rank lead beyond dims"),
        ("dims", {"size": [2**40, 2**40]}, "more than 70,368,744,177,664 elements"),
        ("buffers", {"partition_bytes": [2**60] * 19}, "buffers.partition_bytes: 1152921504606846976"),
        ("steps", {"row": [0] * 60}, "steps.row is not that of the rows"),
        ("lane_rows", {"wait": [7] * 60}, "lane_rows.wait is not that of the rows"),
        ("lane_spans", {"first": [0] * 21}, "lane_spans.first is not that of the rows"),
        ("edges", {"row": [0] * 118}, "a row waits for itself"),
        ("lifetimes", {"end": [0] * 16}, "lifetimes.end is before start"),
        ("summary", {"json": ["[]", "9"]}, "'target' is [], expected a text"),
        ("summary", {"json": ['"trn2"', '"9"']}, "'makespan_ps' is '9', expected a time in whole picoseconds"),
        ("summary", {"json": ['"trn2"', "9"]}, "makespan 9 ps is before the last row's end"),
        ("summary", {"json": ['"\\ud800"', "9"]}, "surrogates not allowed"),
        ("summary", {"json": ["[" * 100_000, "9"]}, "is no JSON: nested too deeply"),
        ("sources", {"path": ["x" * (2**20 + 1)]}, "a text of column path has 1048577 bytes, at most 1048576"),
    ],
)  # fmt: skip
def test_what_a_recording_says_is_held_against_the_schema(saved: Path, table: str, columns: Any, said: str) -> None:
    forge(saved, table, **columns)
    assert said in refused(saved)


def test_a_large_run_is_checked_before_it_is_read_as_a_whole(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "CHECKED_AT_ONCE", 10)
    forge(saved, "lane_rows", wait=[7] * 60)
    opened = nki_lab.open(saved)
    opened.recording.row(3)
    for read in (opened.report, opened.recording.hash, lambda: opened.recording.rows):
        with pytest.raises(OSError, match=r"NKI019.*lane_rows\.wait is not that of the rows"):
            read()


def test_the_texts_of_a_large_run_do_not_wait_for_its_check(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = nki_lab.open(saved)._texts()
    monkeypatch.setattr(recording, "CHECKED_AT_ONCE", 10)
    seen: list[str] = []
    monkeypatch.setattr(
        folder, "check_whole", lambda *given, check=folder.check_whole: (seen.append("check"), check(*given))
    )
    monkeypatch.setattr(digest, "_digest", lambda given, make=digest._digest: (seen.append("digest"), make(given))[1])
    opened = nki_lab.open(saved)
    assert opened._texts() == told
    assert seen == ["digest"]
    assert digest.digest(opened.recording).makespan == opened.recording.makespan
    assert opened._texts() == told
    assert seen == ["digest", "check"]


def test_texts_that_cannot_be_made_of_a_forged_run_end_in_what_is_wrong_with_it(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "CHECKED_AT_ONCE", 10)
    forge(saved, "lane_spans", first=[59] * 21)
    opened = nki_lab.open(saved)
    with pytest.raises(OSError, match=r"NKI019.*lane_spans: first and rows lead beyond lane_rows"):
        opened._texts()
    with pytest.raises(OSError, match="NKI019"):
        opened.report()


def test_our_own_fault_in_the_texts_of_a_sound_run_is_told(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "CHECKED_AT_ONCE", 10)

    def fails(_given: Recording) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("nki_lab.result.notebook.brief", fails)
    with pytest.raises(ZeroDivisionError):
        nki_lab.open(saved)._texts()


def test_a_page_shows_the_lanes_of_a_forged_large_run_and_then_what_is_wrong(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(saved)
    Recording(synthetic(1 << 17), {"target": "trn2"}).save(saved)
    monkeypatch.setattr(recording, "CHECKED_AT_ONCE", 10)
    forge(saved, "lane_rows", wait=[7] * (1 << 17))
    view, sent = nki_lab.open(saved).view(), list[dict[str, Any]]()
    monkeypatch.setattr(view, "send", lambda content, buffers=None: sent.append(content))
    assert "text/html" in view._repr_mimebundle_()[0]
    view._answer(view, {"kind": "load"}, [])
    assert sent[0]["kind"] == "part"
    assert {item["message"] for item in sent[:-1]} == {sent[0]["message"]}
    assert sent[-1]["kind"] == "failed"
    assert "lane_rows.wait is not that of the rows" in sent[-1]["text"]


def test_few_bytes_that_stand_for_very_many_rows_are_refused_before_they_are_decoded(saved: Path) -> None:
    path = tables_of(saved)["accesses"]
    count = 100_000_000
    table = pa.table({name: pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([0], kind))
                      for name, kind in (("view", pa.uint32()), ("role", pa.uint8()))})  # fmt: skip
    pq.write_table(table.cast(pa.schema({"view": pa.uint32(), "role": pa.uint8()})), path, compression="zstd")
    del table
    recordings._seal(saved, "accesses", path)
    assert path.stat().st_size < 2**20
    assert "bytes that decode to 500000000" in refused(saved)


def test_a_text_that_is_repeated_a_million_times_is_refused(saved: Path) -> None:
    path = tables_of(saved)["names"]
    table = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**6, np.int32)), ["x" * 10**6])})
    pq.write_table(table, path, compression="zstd")
    recordings._seal(saved, "names", path)
    assert "texts of column text with more than" in refused(saved)


def test_a_page_that_claims_other_values_than_its_row_group_is_refused(saved: Path) -> None:
    path = tables_of(saved)["rows"]
    content = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(0)
    begin = chunk.data_page_offset
    (page,) = pages(bytes(content[begin : begin + chunk.total_compressed_size]))
    assert (page.values, page.is_dictionary) == (60, False)
    content[content.index(b"\x15\x78", begin) + 1] = 0x7E  # a number of Thrift's: 63 in place of 60
    path.write_bytes(content)
    recordings._seal(saved, "rows", path)
    assert "column start has pages of 63 values" in refused(saved)


def test_a_manifest_or_a_table_that_never_ends_is_refused(saved: Path) -> None:
    for file in (tables_of(saved)["ops"], saved / folder.MANIFEST):
        file.unlink()
        file.symlink_to("/dev/zero")
        assert "device" in refused(saved)


def test_pictures_of_tiles_unpack_within_a_bound(saved: Path) -> None:
    import base64
    import zlib

    bomb = base64.b64encode(zlib.compress(bytes(16 * 2**20 - 1))).decode()
    manifest = json.loads((saved / folder.MANIFEST).read_text())
    (saved / folder.MANIFEST).write_text(json.dumps({**manifest, "pins": [bomb] * 100}))
    assert sum(map(len, nki_lab.open(saved).pins)) <= 2**26


@pytest.fixture(scope="module")
def recorded_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return next(path for path in recorded.save_all(tmp_path_factory.mktemp("honest")) if path.name == "kernel")


SAMPLES = {"text": '"x"', "count": "3", "amount": "1.5", "time": "7", "duration": "2.5", "row": "-1",
           "object": '{"a":1}', "amounts": '{"a":1}', "interval": "[1,2]", "list": "[]", "ranks": '{"a":[1]}'}  # fmt: skip
"""A value of each kind of result, as JSON."""
LARGEST = {"text": json.dumps("x" * 70_000), "count": str(2**63 - 1), "amount": "9.2e18", "time": str(2**62 - 1),
           "duration": str(2**62 // 1000), "row": "3", "object": '{"a":9.2e18}', "amounts": '{"a":9.2e18}',
           "interval": "[9.2e18,9.2e18]", "list": "[9.2e18]", "ranks": '{"a":[9.2e18]}'}  # fmt: skip
"""The largest value of each kind, or one that is hard to show."""


def with_result(folder_: Path, into: Path, name: str, text: str) -> Path:
    """A copy of a recording with another result, as JSON."""
    changed = shutil.copytree(folder_, into / "changed.nkirec")
    table = pq.read_table(tables_of(changed)["summary"])
    rows = [row for row in table.to_pylist() if row["name"] != name]
    pq.write_table(
        pa.Table.from_pylist([*rows, {"name": name, "json": text}], table.schema), tables_of(changed)["summary"]
    )
    recordings._seal(changed, "summary", tables_of(changed)["summary"])
    return changed


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_result_may_be_as_large_as_its_kind_allows(recorded_kernel: Path, tmp_path: Path, name: str) -> None:
    changed = with_result(recorded_kernel, tmp_path, name, LARGEST[RESULTS[name]])
    nki_lab.open(changed)
    (tmp_path / "written").mkdir()
    assert recordings.problem_of(changed, nki_lab.open(recorded_kernel), tmp_path / "written") == ""


def test_a_launch_beyond_any_time_is_told(recorded_kernel: Path, tmp_path: Path) -> None:
    said = refused(with_result(recorded_kernel, tmp_path, "launch_ns", "9e18"))
    assert "'launch_ns' is 9e+18, expected nanoseconds" in said


@pytest.mark.parametrize("name", sorted(set(RESULTS) - {MAKESPAN}))
@pytest.mark.parametrize("others", [True, False])
def test_a_summary_may_lack_any_of_its_results(recorded_kernel: Path, tmp_path: Path, name: str, others: bool) -> None:
    """Without `name`, or with nothing but `name`, every reader reads the recording."""
    honest = nki_lab.open(recorded_kernel)
    changed = shutil.copytree(recorded_kernel, tmp_path / "changed.nkirec")
    table = pq.read_table(tables_of(changed)["summary"])
    texts = {result: SAMPLES[kind] for result, kind in RESULTS.items()}
    texts |= {row["name"]: row["json"] for row in table.to_pylist() if row["json"] != "{}"}
    kept = [{"name": result, "json": text} for result, text in texts.items()
            if result == MAKESPAN or (result != name) is others]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(kept, table.schema), tables_of(changed)["summary"])
    recordings._seal(changed, "summary", tables_of(changed)["summary"])
    (tmp_path / "written").mkdir()
    assert recordings.problem_of(changed, honest, tmp_path / "written") == ""


def test_what_is_declared_is_checked_of_every_column() -> None:
    for table in schema.TABLES.values():
        for column in table.columns:
            if not column.is_text:
                low, high = column.range
                assert np.iinfo(column.storage).min <= low <= high <= np.iinfo(column.storage).max


def test_a_hundred_forged_recordings_are_read_or_refused() -> None:
    assert recordings.main(["--mutations", "100", "--seed", "5"]) == 0


def test_the_fuzzer_finds_a_check_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(folder, "check_whole", lambda *_: None)
    bench = recordings.Bench(tmp_path)
    done, problem = bench.attempt(28)
    assert (done, problem.partition(":")[0]) == ("kernel: values of lane_rows.start", "window")
