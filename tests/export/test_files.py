"""Exported files appear whole or not at all."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.export.files import replacing


def test_a_file_takes_its_name_when_it_is_written(tmp_path: Path) -> None:
    target = tmp_path / "run.csv"
    target.write_text("old")
    with replacing(target) as stream:
        stream.write(b"new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["run.csv"]


def test_what_was_there_stays_when_writing_fails(tmp_path: Path) -> None:
    target = tmp_path / "run.csv"
    target.write_text("old")
    with pytest.raises(KeyError), replacing(target) as stream:
        stream.write(b"half")
        raise KeyError
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    target = tmp_path / "run.csv"
    target.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="NKI021") as caught, replacing(target) as stream:
            stream.write(b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(caught.value, NkiError)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("name", ["no/such/folder/run.csv", "folder"])
def test_a_place_that_takes_no_file_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="NKI021"), replacing(tmp_path / name) as stream:
        stream.write(b"x")


def test_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    with replacing(tmp_path / ("n" * 250)) as stream:
        stream.write(b"x")
    assert [file.name for file in tmp_path.iterdir()] == ["n" * 250]
