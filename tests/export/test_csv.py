"""The spreadsheet has every row with what is known of it."""

from __future__ import annotations

import csv as reader
import tempfile
from fractions import Fraction
from pathlib import Path

from hypothesis import given, settings

from nki_lab.export import csv
from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import drawn


def lines(recording: Recording) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory() as where:
        csv.write(recording, Path(where) / "run.csv")
        with (Path(where) / "run.csv").open(encoding="utf-8", newline="") as stream:
            return list(reader.DictReader(stream))


@settings(max_examples=60)
@given(drawn())
def test_every_row_is_a_line_in_order_of_time(recording: Recording) -> None:
    found = lines(recording)
    assert [int(line["row"]) for line in found] == recording.order[:].tolist()
    critical = set(recording.critical_path[:].tolist())
    for step, line in enumerate(found):
        row = recording.row(int(line["row"]))
        assert int(line["step"]) == step
        for name in ("start", "duration", "ready", "wait", "setup"):
            assert Fraction(line[f"{name}_ns"]) * 1000 == getattr(row, name)
        assert (line["instruction"], line["detail"], line["lane"]) == (row.name, row.detail, row.lane)
        assert (line["waited_for"], line["setup_for"], line["confidence"]) == (
            row.stall,
            row.setup_stall,
            row.confidence,
        )
        assert (int(line["work"]), int(line["bytes"]), int(line["core"])) == (row.work, row.bytes, row.core)
        assert (line["file"], line["line"]) == (row.file, str(row.line) if row.line else "")
        assert line["iteration"] == ", ".join(f"{name}={value}" for name, value in row.iteration)
        assert line["critical"] == str(int(row.number in critical))


def test_an_empty_run_has_a_header_only(tmp_path: Path) -> None:
    csv.write(Recording({}), tmp_path / "run.csv")
    assert (tmp_path / "run.csv").read_bytes().decode() == ",".join(csv.HEADER) + "\r\n"
