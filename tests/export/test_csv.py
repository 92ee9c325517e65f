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
from tests.scale import scaled


def tables_of(recording: Recording) -> dict[str, list[dict[str, str]]]:
    """The written tables by name, a dictionary for each line."""
    with tempfile.TemporaryDirectory() as where:
        csv.write(recording, Path(where) / "tables")
        found = {}
        for file in (Path(where) / "tables").iterdir():
            with file.open(encoding="utf-8", newline="") as stream:
                found[file.stem] = list(reader.DictReader(stream))
        return found


@settings(max_examples=scaled(30))
@given(drawn())
def test_every_row_is_a_line_in_order_of_time(recording: Recording) -> None:
    found = tables_of(recording)["instructions"]
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
        assert line["rank"] == str(recording.lanes[int(recording.rows["lane"][row.number])].rank)
        assert (line["file"], line["line"]) == (row.file, str(row.line) if row.line else "")
        assert line["iteration"] == ", ".join(f"{name}={value}" for name, value in row.iteration)
        assert line["critical"] == str(int(row.number in critical))


@settings(max_examples=scaled(30))
@given(drawn())
def test_lanes_and_lines_of_source_add_up_to_the_run(recording: Recording) -> None:
    found = tables_of(recording)
    for lane, line in zip(recording.lanes, found["lanes"], strict=True):
        assert (line["lane"], line["core"], line["rank"]) == (lane.name, str(lane.core), str(lane.rank))
        waits = {name: time for name, time in line.items() if name not in csv.LANES}
        total = sum(Fraction(time) for time in (line["busy_ns"], line["empty_ns"], *waits.values()))
        assert total * 1000 == recording.makespan
    assert sum(int(line["rows"]) for line in found["lanes"]) == len(recording)
    placed = sum(bool(line["file"]) for line in found["instructions"])
    assert sum(int(line["rows"]) for line in found["lines"]) == placed


def test_an_empty_run_has_headers_only(tmp_path: Path) -> None:
    csv.write(Recording({}), tmp_path / "tables")
    found = {file.name: file.read_bytes().decode() for file in (tmp_path / "tables").iterdir()}
    assert found == {
        "instructions.csv": ",".join(csv.INSTRUCTIONS) + "\r\n",
        "lanes.csv": ",".join(csv.LANES) + "\r\n",
        "lines.csv": ",".join(csv.LINES) + "\r\n",
    }
