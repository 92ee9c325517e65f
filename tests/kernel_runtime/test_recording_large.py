"""Large recordings: bytes a row, and memory that does not grow with what is on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import synthetic

ROOT = Path(__file__).resolve().parents[2]

# What a viewer does, in a process of its own that has built nothing. VmHWM is the most memory it ever had.
VIEWER = """
    import json, sys, time
    import pyarrow.parquet
    from nki_lab.kernel_runtime.recording import Recording

    def most() -> int:
        with open("/proc/self/status") as stream:
            return next(int(line.split()[1]) * 1024 for line in stream if line.startswith("VmHWM:"))

    before = most()
    opened = Recording.open(sys.argv[1])
    end, count = opened.makespan, len(opened)
    seconds = []
    for part in (1, 2, 10, 100, 1000, 10_000):
        for place in range(6):
            begin = (end - end // part) * place // 5
            started = time.perf_counter()
            opened.sums(begin, begin + end // part, 1024)
            seconds.append(time.perf_counter() - started)
            row = opened.step(opened.at(begin + 1))
            opened.row(row), opened.accesses(row), opened.predecessors(row)
    print(json.dumps({"grown": most() - before, "rows": count, "queries": sorted(seconds)}))
"""
GROWTH = 192 * 2**20
"""Allowed to a viewer of any recording: the chunks that it keeps, directories, and one answer."""


def view(where: Path) -> dict[str, Any]:
    """What a viewer of the recording in `where` says of itself."""
    command = [sys.executable, "-c", textwrap.dedent(VIEWER), str(where)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_a_million_rows_are_kept_saved_and_viewed_within_bounds(tmp_path: Path) -> None:
    tables = synthetic(1_000_000)
    recording = Recording(tables)
    assert recording.nbytes <= 64 * 10**6 + 16 * 3 * 10**6 + 24 * 2 * 10**6
    recording.save(tmp_path / "run")
    assert recording.index_nbytes <= 32 * 10**6
    assert Recording.open(tmp_path / "run").hash() == recording.hash()
    found = view(tmp_path / "run")
    assert found["rows"] == 10**6
    assert found["grown"] <= GROWTH
    _, sums = recording.sums(0, recording.makespan, 1024)
    busy = int(sums.time[sums.reason == 0].sum())
    assert busy == int(recording.rows["duration"][:].sum()) == int(recording.lane_times[:, 0].sum())


@pytest.mark.slow
def test_ten_million_rows_are_viewed_in_the_same_memory(tmp_path: Path) -> None:
    script = """
        import sys
        from nki_lab.kernel_runtime.recording import Recording
        from tests.recordings import synthetic
        Recording(synthetic(10_000_000)).save(sys.argv[1])
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "run")]
    subprocess.run(command, cwd=ROOT, check=True)
    found = view(tmp_path / "run")
    assert found["rows"] == 10**7
    assert found["grown"] <= GROWTH
    assert found["queries"][len(found["queries"]) // 2] < 0.2  # seconds; an order of magnitude above what it takes
