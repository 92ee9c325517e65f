"""Folders that are no recordings, or damaged ones: each is told apart, and nothing wrong is shown."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.recording import Recording, folder, schema, stored
from nki_lab.wire import encode
from tests.recordings import manifest_of, synthetic, tables_of
from tests.scale import scaled


@pytest.fixture(scope="module")
def recording() -> Recording:
    """A run of two thousand rows."""
    return Recording(synthetic(2000), {"target": "trn2"})


@pytest.fixture
def saved(recording: Recording, tmp_path: Path) -> Path:
    """A folder with it."""
    recording.save(tmp_path / "run.nkirec")
    return tmp_path / "run.nkirec"


def refused(path: Path, code: str) -> str:
    """The message with which opening, or reading all of it, is refused."""
    with pytest.raises(OSError) as caught:
        Recording.open(path).hash()
    error = caught.value
    assert isinstance(error, NkiError)
    (found,) = error.diagnostics
    assert found.code == code
    assert str(path) in found.message
    assert found.help
    return found.message


# What is not a recording


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    assert "no such folder" in refused(tmp_path / "nothing", "NKI018")


def test_a_file_is_no_recording(saved: Path) -> None:
    assert "this is a file" in refused(tables_of(saved)["rows"], "NKI018")


def test_an_empty_folder_is_no_recording(tmp_path: Path) -> None:
    assert "there is no nki_lab.json" in refused(tmp_path, "NKI019")


def test_a_device_profile_says_how_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "Instruction.parquet").write_bytes(b"")
    assert "Neuron Explorer" in refused(tmp_path, "NKI019")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged"),
        ("{", "damaged"),
        ("[" * 100_000, "damaged"),
        ("[]", "not the manifest"),
        ('{"format": "other"}', "not the manifest"),
        ('{"format": "nki_lab recording"}', "version is None"),
        ('{"format": "nki_lab recording", "version": ["1", 0]}', "version is"),
        ('{"format": "nki_lab recording", "version": [1, 0], "tables": []}', "list of tables"),
        ('{"format": "nki_lab recording", "version": [1, 0], "tables": {}}', "are not listed"),
        ('{"format": "nki_lab recording", "version": [1, 0], "tables": {"rows": {"file": 3}}}', "list of tables"),
    ],
)  # fmt: skip
def test_a_manifest_that_is_none_is_told(saved: Path, text: str, message: str) -> None:
    (saved / folder.MANIFEST).write_text(text)
    assert message in refused(saved, "NKI019")


def test_a_manifest_does_not_lead_out_of_its_folder(saved: Path, tmp_path: Path) -> None:
    manifest = manifest_of(saved)
    shutil.copy(tables_of(saved)["rows"], tmp_path / "rows.parquet")
    manifest["tables"]["rows"]["file"] = "../rows.parquet"
    (saved / folder.MANIFEST).write_text(json.dumps(manifest))
    assert "list of tables" in refused(saved, "NKI019")


@pytest.mark.parametrize(("version", "remedy"), [([2, 0], "update nki_lab"), ([0, 9], "record the run again")])
def test_another_major_version_is_refused(saved: Path, version: list[int], remedy: str) -> None:
    (saved / folder.MANIFEST).write_text(json.dumps(manifest_of(saved) | {"version": version}))
    assert f"format {version[0]}.{version[1]}" in refused(saved, "NKI020")
    with pytest.raises(OSError, match=remedy):
        Recording.open(saved)


def test_a_higher_minor_version_is_read_with_what_it_adds(recording: Recording, saved: Path) -> None:
    manifest = manifest_of(saved)
    rows = tables_of(saved)["rows"]
    table = pq.read_table(rows)
    pq.write_table(table.append_column("power", [np.zeros(len(table))]), rows)
    manifest["version"] = [1, 7]
    manifest["tables"]["rows"] |= folder._entry(stored.checksums_of(rows))
    manifest["tables"]["heat"] = manifest["tables"]["rows"]
    (saved / folder.MANIFEST).write_text(json.dumps(manifest))
    assert Recording.open(saved).hash() == recording.hash()


def test_a_lower_minor_version_is_read_without_what_came_later(recording: Recording, saved: Path) -> None:
    manifest = manifest_of(saved)
    for table in schema.TABLES.values():
        later = [column.name for column in table.columns if column.since]
        if later:
            path = tables_of(saved)[table.name]
            pq.write_table(pq.read_table(path).drop_columns(later), path)
            manifest["tables"][table.name] |= folder._entry(stored.checksums_of(path))
    manifest["version"] = [1, 0]
    (saved / folder.MANIFEST).write_text(json.dumps(manifest))
    opened = Recording.open(saved)
    assert opened.hash() == recording.hash()
    assert opened.texts("ops", "work_unit") == [""] * len(opened.table("ops"))
    assert encode(opened) == encode(recording)


def test_a_missing_column_of_all_versions_is_refused(saved: Path) -> None:
    manifest = manifest_of(saved)
    ops = tables_of(saved)["ops"]
    pq.write_table(pq.read_table(ops).drop_columns(["detail"]), ops)
    manifest["tables"]["ops"] |= folder._entry(stored.checksums_of(ops))
    (saved / folder.MANIFEST).write_text(json.dumps(manifest))
    assert "column detail is missing" in refused_table(saved, "ops")


@pytest.mark.parametrize("name", schema.TABLES)
def test_a_missing_table_is_told(saved: Path, name: str) -> None:
    tables_of(saved)[name].unlink()
    assert "missing" in refused_table(saved, name)


@pytest.mark.parametrize("name", ["lane_sums", "lane_sum_levels"])
def test_sums_without_their_levels_are_told(saved: Path, name: str) -> None:
    manifest = json.loads((saved / folder.MANIFEST).read_text())
    tables_of(saved)[name].unlink()
    del manifest["tables"][name]
    (saved / folder.MANIFEST).write_text(json.dumps(manifest))
    assert "there together" in refused(saved, "NKI019")


def refused_table(saved: Path, name: str) -> str:
    message = refused(saved, "NKI019")
    assert tables_of(saved)[name].name in message
    return message


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, -1, -8])
def test_a_shortened_table_is_told(saved: Path, keep: int) -> None:
    file = tables_of(saved)["accesses"]
    file.write_bytes(file.read_bytes()[:keep])
    assert "damaged" in refused_table(saved, "accesses")


def accept(saved: Path, name: str) -> None:
    """Make the manifest agree with a table that was changed, as somebody would who forges one."""
    manifest = manifest_of(saved)
    file = tables_of(saved)[name]
    manifest["tables"][name] |= folder._entry(stored.checksums_of(file))
    (saved / folder.MANIFEST).write_text(json.dumps(manifest))


def test_a_table_of_another_kind_is_told(saved: Path) -> None:
    shutil.copy(tables_of(saved)["edges"], tables_of(saved)["accesses"])
    accept(saved, "accesses")
    assert "column view is missing" in refused_table(saved, "accesses")


def test_a_column_of_another_type_is_told(saved: Path) -> None:
    file = tables_of(saved)["rows"]
    table = pq.read_table(file)
    start = table.column("start").cast("double")
    pq.write_table(table.set_column(table.column_names.index("start"), "start", start), file)
    accept(saved, "rows")
    assert "column start is double, expected int64" in refused_table(saved, "rows")


def test_empty_places_are_told(saved: Path) -> None:
    file = tables_of(saved)["ops"]
    table = pq.read_table(file)
    names = [None, *table.column("name").to_pylist()[1:]]
    columns = {"name": names, "detail": table.column("detail").to_pylist()}
    pq.write_table(pa.table({key: pa.array(values, pa.uint32()) for key, values in columns.items()}), file)
    accept(saved, "ops")
    assert "column name has empty places" in refused_table(saved, "ops")


def test_numbers_of_rows_that_are_not_there_are_told(saved: Path) -> None:
    file = tables_of(saved)["lanes"]
    pq.write_table(pq.read_table(file).slice(0, 3), file)
    accept(saved, "lanes")
    assert "rows.lane: 20; it numbers the rows of lanes, of which there are 3" in refused(saved, "NKI019")


@pytest.mark.parametrize("name", ["steps", "lane_rows", "lane_spans"])
def test_an_index_of_another_length_is_told(saved: Path, name: str) -> None:
    file = tables_of(saved)[name]
    pq.write_table(pq.read_table(file).slice(1), file)
    accept(saved, name)
    assert f"{name} has" in refused(saved, "NKI019")


@pytest.fixture(scope="module")
def template(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small recording to damage copies of."""
    where = tmp_path_factory.mktemp("template")
    with mock.patch.object(stored, "DEFAULT_CHUNK", 25):
        Recording(synthetic(60), {"target": "trn2"}).save(where)
    return where


@functools.cache
def intact_results() -> tuple[str, Any]:
    """The hash and the sums of the recording in `template`."""
    intended = Recording(synthetic(60), {"target": "trn2"})
    return intended.hash(), intended.sums(0, intended.makespan, 9)[1]


@settings(max_examples=scaled(200))
@given(data=st.data())
def test_no_changed_byte_goes_unnoticed(template: Path, data: st.DataObject) -> None:
    """A flipped bit anywhere is refused, or the recording is the same all the same."""
    expected, sums = intact_results()
    file = data.draw(st.sampled_from(sorted(template.iterdir())))
    intact = file.read_bytes()
    changed = bytearray(intact)
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(changed)
    try:
        opened = Recording.open(template)
        assert opened.hash() == expected
        _, found = opened.sums(0, opened.makespan, 9)
        assert all(np.array_equal(one, other) for one, other in zip(found, sums, strict=True))
    except NkiError as error:
        assert error.diagnostics[0].code in ("NKI019", "NKI020")
    finally:
        file.write_bytes(intact)
