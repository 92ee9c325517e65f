"""Recordings on disk: what is saved is opened, and a save that breaks off leaves the old one."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from nki_lab.kernel_runtime.recording import Recording, folder, schema
from tests.recordings import drawn, manifest_of, small_chunks, synthetic, tables_of
from tests.scale import scaled

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def recording() -> Recording:
    """A run of two thousand rows."""
    return Recording(synthetic(2000), {"target": "trn2"})


@pytest.fixture
def saved(recording: Recording, tmp_path: Path) -> Path:
    """A folder with it."""
    recording.save(tmp_path / "run.nkirec")
    return tmp_path / "run.nkirec"


# Round trip


@pytest.mark.parametrize("chunks", [small_chunks, contextlib.nullcontext], ids=["small chunks", "one chunk"])
@settings(max_examples=scaled(30))
@given(recording=drawn(25))
def test_what_is_saved_is_opened(chunks: Any, recording: Recording) -> None:
    # Without waiting for the disk: this test saves often.
    with tempfile.TemporaryDirectory() as where, chunks(), mock.patch.object(folder, "sync"):
        recording.save(where)
        check_equal(recording, Recording.open(where))


def check_equal(one: Recording, other: Recording) -> None:
    """The same tables, and the same answers."""
    assert other.hash() == one.hash()
    assert (len(other), other.makespan, other.summary, other.nbytes) == (
        len(one),
        one.makespan,
        one.summary,
        one.nbytes,
    )
    assert (other.lanes, other.stalls, list(other.names)) == (one.lanes, one.stalls, list(one.names))
    assert (other.lane_times == one.lane_times).all()
    for row in range(len(one)):
        assert other.row(row) == one.row(row)
        assert other.step_of(row) == one.step_of(row)
        assert other.accesses(row) == one.accesses(row)
        assert other.predecessors(row) == one.predecessors(row)
        assert other.successors(row) == one.successors(row)
    end = one.makespan
    for begin, size in ((0, end + 1), (end // 3, end // 5 + 1), (end // 2, 1)):
        assert other.at(begin) == one.at(begin)
        for buckets in (9, 1):
            (shift, ours), (other_shift, theirs) = (item.sums(begin, begin + size, buckets) for item in (one, other))
            assert other_shift == shift
            assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


SUMS = ("lane_sums", "lane_sum_levels")


@pytest.mark.parametrize(
    ("minor", "lacks"),
    [
        (0, (*SUMS, "triggers", "changes", "exchanges")),
        (1, (*SUMS, "triggers", "changes", "exchanges")),
        (2, ("triggers", "changes", "exchanges")),
        (3, ("changes", "exchanges")),
    ],
)
def test_folders_of_earlier_formats_open_without_the_tables_that_came_later(
    tmp_path: Path, minor: int, lacks: tuple[str, ...]
) -> None:
    recording = Recording(synthetic(300))
    recording.save(tmp_path / "run")
    manifest = manifest_of(tmp_path / "run")
    manifest["version"] = [1, minor]
    for name in lacks:
        (tmp_path / "run" / manifest["tables"].pop(name)["file"]).unlink()
    (tmp_path / "run" / folder.MANIFEST).write_text(json.dumps(manifest))
    check_equal(recording, Recording.open(tmp_path / "run"))


def test_a_stored_column_is_indexed_like_an_array(recording: Recording, saved: Path) -> None:
    opened, numbers = Recording.open(saved), np.random.default_rng(0)
    for name in ("start", "lane", "op"):
        ours, theirs = recording.rows[name], opened.rows[name]
        assert theirs.dtype == ours.dtype and len(theirs) == len(ours)
        places = numbers.integers(-2000, 2000, 50)
        for key in (3, -1, ours[:] > 5, slice(None), slice(5, 9), slice(-9, None), slice(9, 5),
                    slice(None, None, 7), slice(9, 2, -3), places, np.zeros(0, int)):  # fmt: skip
            assert np.array_equal(theirs[key], ours[key])
        assert np.array_equal(np.asarray(theirs), ours)
        with pytest.raises(IndexError):
            theirs[2000]


def test_tables_are_plain_parquet_with_units_and_meanings(recording: Recording, saved: Path) -> None:
    for name, file in tables_of(saved).items():
        spec = schema.TABLES[name]
        found = pq.read_table(file)
        assert found.column_names == [column.name for column in spec.columns]
        for column in spec.columns:
            field = found.schema.field(column.name)
            assert not field.nullable
            assert field.metadata[b"doc"].decode() == column.doc
            assert field.metadata.get(b"unit", b"").decode() == column.unit
            assert field.metadata.get(b"to", b"").decode() == column.to
            assert column.is_text or field.type == pa.from_numpy_dtype(column.storage)
    rows = pq.read_table(tables_of(saved)["rows"])
    assert np.array_equal(rows["start"].to_numpy(), recording.rows["start"])


def test_an_opened_recording_can_be_saved_elsewhere_and_onto_itself(
    recording: Recording, saved: Path, tmp_path: Path
) -> None:
    opened = Recording.open(saved)
    opened.save(tmp_path / "copy")
    opened.save(saved)
    assert Recording.open(tmp_path / "copy").hash() == Recording.open(saved).hash() == recording.hash()


def test_a_save_removes_what_killed_ones_have_listed_and_nothing_else(recording: Recording, saved: Path) -> None:
    left = ("nki_lab_rows.0123456789abcdef.parquet", "nki_lab_dims.0123456789abcdef.parquet")
    draft = {"format": folder.FORMAT, "writing": [*left, "notes.txt", "../outside", 7]}
    (saved / "nki_lab.json.0123456789abcdef").write_text(json.dumps(draft))
    (saved / "nki_lab.json.0123456789abcdef.new").write_text("{")
    (saved / "nki_lab.json.00112233aabbccdd").write_text("")
    (saved / left[0]).write_bytes(b"left by a save that was killed")
    mine = {
        "notes.txt", "nki_lab.json.bak", "nki_lab.json.old", "nki_lab_rows.mine.parquet",
        "nki_lab_rows.fedcba9876543210.parquet",  # a copy that somebody keeps
    }  # fmt: skip
    for name in mine:
        (saved / name).write_text("mine")
    (saved.parent / "outside").write_text("mine")
    recording.save(saved)
    names = {file.name for file in saved.iterdir()}
    assert names == {*mine, folder.MANIFEST, *(file.name for file in tables_of(saved).values())}
    assert (saved.parent / "outside").exists()


def test_a_save_replaces_no_device_and_follows_links(recording: Recording, saved: Path, tmp_path: Path) -> None:
    manifest, elsewhere = saved / folder.MANIFEST, tmp_path / "manifest.json"
    manifest.rename(elsewhere)
    manifest.symlink_to(elsewhere)
    recording.save(saved)
    assert manifest.is_symlink()
    assert Recording.open(saved).hash() == recording.hash()
    manifest.unlink()
    os.mkfifo(manifest)
    with pytest.raises(OSError, match="NKI021"):
        recording.save(saved)
    assert manifest.is_fifo()
    assert {file.name for file in saved.iterdir() if file.name.startswith("nki_lab.json")} == {folder.MANIFEST}


def test_a_reader_keeps_what_it_opened_while_others_save(recording: Recording, saved: Path) -> None:
    opened = Recording.open(saved)
    Recording(synthetic(500), {}).save(saved)
    assert opened.hash() == recording.hash()
    assert len(Recording.open(saved)) == 500


def test_a_folder_may_be_named_in_any_way(recording: Recording, tmp_path: Path) -> None:
    odd = tmp_path / "a" / "größe 100%\n🜂"
    recording.save(str(odd))
    assert Recording.open(odd).hash() == recording.hash()


# A save that breaks off


def files_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("limit", [0, 1, 1000, 20_000, 60_000])
def test_a_full_disk_leaves_the_old_recording(recording: Recording, saved: Path, limit: int) -> None:
    before = files_of(saved)
    script = f"""
        import resource
        from nki_lab.diagnostic import NkiError
        from nki_lab.kernel_runtime.recording import Recording
        from tests.recordings import synthetic
        new = Recording(synthetic(5000), {{}})
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        try:
            new.save({str(saved)!r})
        except NkiError as error:
            assert isinstance(error, OSError)
            assert error.diagnostics[0].code == "NKI021", error
            assert "make room" in error.diagnostics[0].help
        else:
            raise AssertionError("saved")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd=ROOT)
    assert files_of(saved) == before


@pytest.mark.parametrize("place", range(1, 60, 3))
def test_an_error_at_any_point_of_a_save_leaves_the_old_recording(
    recording: Recording, saved: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Every file is synced once: the n-th sync fails, up to the one after which the new recording counts."""
    before = files_of(saved)
    calls = 0

    def failing(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls > place:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", failing)
    new = Recording(synthetic(500), {})
    if place <= len(schema.TABLES) + 2:
        with pytest.raises(OSError, match="NKI021"):
            new.save(saved)
        assert files_of(saved) == before
        return
    if place == len(schema.TABLES) + 2:  # the new recording counts; whether the disk keeps its name is not known
        with pytest.raises(OSError, match="NKI021"):
            new.save(saved)
    else:
        new.save(saved)
    assert len(Recording.open(saved)) == 500


def test_an_interrupted_save_leaves_the_old_recording(
    recording: Recording, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(saved)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folder, "checksums_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recording.save(saved)
    assert files_of(saved) == before


SAVER = """
import sys
from nki_lab.kernel_runtime.recording import Recording, folder, schema
from tests.recordings import drawn, small_chunks, synthetic, tables_of
runs = [Recording(synthetic(int(size)), {"size": int(size)}) for size in sys.argv[2:]]
runs[0].save(sys.argv[1])
print("ready", flush=True)
while True:
    for run in runs:
        run.save(sys.argv[1])
"""


@contextlib.contextmanager
def saver(where: Path, *sizes: str) -> Iterator[None]:
    """A process that saves one recording after the other into a folder; killed at the end."""
    command = [sys.executable, "-c", SAVER, str(where), *sizes]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()


@pytest.mark.extended
def test_a_killed_save_leaves_a_whole_recording(tmp_path: Path) -> None:
    """Killed at many points of time: what is there always opens whole, as one of those that were saved."""
    where, sizes = tmp_path / "run", ("700", "2100")
    hashes = {int(size): Recording(synthetic(int(size)), {"size": int(size)}).hash() for size in sizes}
    numbers = np.random.default_rng(0)
    left = 0
    for number in range(12):
        with saver(where, *sizes):
            time.sleep(float(numbers.random()) * 0.2)
            for _ in range(3):  # while it saves, too
                check_whole(where, hashes)
        check_whole(where, hashes)
        left += len(list(where.iterdir())) - len(schema.TABLES) - 1
        if left and number >= 3:
            break
    assert left  # some were killed within a save
    Recording(synthetic(700), {}).save(where)
    assert len(list(where.iterdir())) == len(schema.TABLES) + 1


def check_whole(where: Path, hashes: dict[int, str]) -> None:
    opened = Recording.open(where)
    assert opened.hash() == hashes[opened.summary["size"]]


@pytest.mark.parametrize("attempts", [0, 5])
def test_two_savers_of_one_folder_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int) -> None:
    """Who finds it changed again and again, and at last each time, reads it as one of those who take turns."""
    monkeypatch.setattr(folder, "_ATTEMPTS", attempts)
    where, hashes = tmp_path / "run", {size: Recording(synthetic(size), {"size": size}).hash() for size in (700, 2100)}
    with saver(where, "700"), saver(where, "2100"):
        for _ in range(20):
            check_whole(where, hashes)


@pytest.mark.parametrize("at", ["a file", "below a file"])
def test_a_place_that_takes_no_folder_is_refused(recording: Recording, tmp_path: Path, at: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="NKI021"):
        recording.save(tmp_path / "file" / "run" if at == "below a file" else tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
