"""The text report names what took the time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from nki_lab.export import text
from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import drawn


def test_a_report_reads_like_this() -> None:
    recording = Recording(
        {
            "rows": {
                "start": [0, 1_500_000, 2_000_000], "duration": [1_500_000, 400_000, 3_000_000], "lane": [1, 0, 0],
                "op": [0, 1, 1], "stall": [0, 1, 0], "setup": [0, 0, 100_000], "setup_stall": [0, 0, 2],
                "after": [-1, 0, 1], "site": [0, 1, 1], "access": [0, 1, 2],
            },
            "accesses": {"view": [0, 0, 0], "role": [1, 0, 0]},
            "views": {"buffer": [0], "pattern": [0], "offset": [0]},
            "patterns": {"dtype": ["bfloat16"], "dim": [0], "rank": [2]},
            "dims": {"size": [128, 512], "step": [512, 1]},
            "buffers": {"name": ["x"], "space": [0], "partition": [0], "partitions": [128], "partition_bytes": [1024]},
            "lanes": {"name": ["tensor", "dma q0"], "kind": [0, 1]},
            "stalls": {"name": ["none", "data from dma", "table load"]},
            "ops": {"name": ["dma_copy", "nc_matmul"]},
            "sites": {"source": [0, 0], "line": [2, 3]},
            "sources": {"path": ["kernels/matmul.py"], "text": ["def kernel():\n    load(x)\n    multiply(x)\n"]},
        },
        {"kernel": "matmul", "target": "trn2", "confidence": {"documented": 0.25, "measured": 0, "guess": 0.75}},
    )  # fmt: skip
    assert (
        text.report(recording)
        == """\
matmul on trn2: 5.00 µs, 3 instructions
most bytes per partition: 1024 in SBUF and 0 in PSUM
critical path by confidence of its costs: 25 % documented, 75 % guess

lane    rows             busy          waiting    nothing to do  waits most for
tensor     2  3.40 µs    68 %  1.60 µs    32 %     0 ns     0 %  data from dma
dma q0     1  1.50 µs    30 %     0 ns     0 %  3.50 µs    70 %

waiting, all lanes     time  share
data from dma       1.50 µs   94 %
table load           100 ns  6.2 %

instruction  rows     busy  of the critical path
nc_matmul       2  3.40 µs                  70 %
dma_copy        1  1.50 µs                  30 %

line         of the critical path     busy
matmul.py:3                  70 %  3.40 µs  multiply(x)
matmul.py:2                  30 %  1.50 µs  load(x)
"""
    )


def test_an_empty_run_has_a_report() -> None:
    assert text.report(Recording({})).startswith("kernel: 0 ns, 0 instructions\n")


@settings(max_examples=60)
@given(drawn())
def test_any_run_has_a_report_with_all_its_lanes(recording: Recording) -> None:
    report = text.report(recording)
    assert all(lane.name in report for lane in recording.lanes)
    assert report.endswith("\n") and "  \n" not in report


@given(drawn())
def test_shares_of_the_critical_path_add_up_to_the_last_end(recording: Recording) -> None:
    rows = recording.rows
    end = int((rows["start"][:] + rows["duration"][:]).max()) if len(recording) else 0
    critical = text._critical(recording)
    assert int(critical.sum()) == end
    assert (critical >= 0).all()
    assert set(np.flatnonzero(critical).tolist()) <= set(recording.critical_path[:].tolist())


@pytest.mark.parametrize(
    ("picoseconds", "shown"),
    [(0, "0 ns"), (499, "0 ns"), (1_000, "1 ns"), (999_400, "999 ns"), (1_500_000, "1.50 µs"), (37_640_000, "37.64 µs"),
     (2_000_000_000, "2.00 ms"), (3_000_000_000_000, "3.00 s"), (90_000_000_000_000, "90.00 s")],
)  # fmt: skip
def test_times_have_the_unit_that_fits(picoseconds: int, shown: str) -> None:
    assert text.time_text(picoseconds) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(0, 0, "0 %"), (0, 5, "0 %"), (1, 3, "33 %"), (1, 1000, "0.1 %"), (99, 1000, "9.9 %"), (1, 10, "10 %")],
)
def test_percentages_have_a_decimal_below_ten(part: int, whole: int, shown: str) -> None:
    assert text.share_text(part, whole) == shown
