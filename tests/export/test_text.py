"""The text report says where the time of any run went."""

from __future__ import annotations

from hypothesis import given, settings

from nki_lab.diagnostic import Span, diagnose
from nki_lab.export import text
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.kernel_runtime.vocabulary import lane_label
from tests.recordings import drawn, synthetic
from tests.scale import scaled


def test_a_report_reads_like_this() -> None:
    recording = Recording(
        {
            "rows": {
                "start": [0, 1_500_000, 2_000_000], "duration": [1_500_000, 400_000, 3_000_000], "lane": [1, 0, 0],
                "op": [0, 1, 1], "stall": [0, 1, 0], "setup": [0, 0, 100_000], "setup_stall": [0, 0, 2],
                "after": [-1, 0, 1], "site": [0, 1, 1],
            },
            "lanes": {"name": ["tensor", "dma q0"], "kind": [0, 1]},
            "stalls": {"name": ["none", "data from dma", "table load"]},
            "ops": {"name": ["dma_copy", "nc_matmul"]},
            "sites": {"source": [0, 0], "line": [2, 3]},
            "sources": {"path": ["kernels/matmul.py"], "text": ["def kernel():\n    load(x)\n    multiply(x)\n"]},
        },
        {
            "kernel": "matmul", "target": "trn2", "confidence": {"documented": 0.25, "measured": 0, "guess": 0.75},
            "sbuf_peak_bytes_per_partition": 1024, "hbm_read_bytes": 2048, "mfu": 0.123, "options": {"precise": False},
            "diagnostics": [diagnose("NKI315", "too much", span=Span("kernels/matmul.py", 3, 5, 3, 13)).as_dict()],
        },
    )  # fmt: skip
    assert (
        text.report(recording)
        == """\
matmul on trn2: about 5.00 µs, 3 instructions
with precise=False
sources of costs: 25 % documented · 75 guess
Tensor is on the critical path 68 % of the time.
Line 3 of matmul.py costs most: 70 %.

SBUF  1 KiB of 224 KiB in the fullest partition
HBM   2 KiB read; MFU 12 %

lane    instructions             busy  of it slowed          waiting    nothing to do  waits most for
Tensor             2  3.40 µs    68 %  0 ns     0 %  1.60 µs    32 %     0 ns     0 %  data from DMA
DMA q0             1  1.50 µs    30 %  0 ns     0 %     0 ns     0 %  3.50 µs    70 %

critical path                            time  share
Tensor works                          3.40 µs   68 %
DMA works                             1.50 µs   30 %
waits for loads of activation tables   100 ns  2.0 %

instruction  times     busy  critical path
nc_matmul        2  3.40 µs           70 %
dma_copy         1  1.50 µs           30 %

line            busy  critical path
matmul.py:3  3.40 µs           70 %  multiply(x)
matmul.py:2  1.50 µs           30 %  load(x)

error: NKI315 too much
 --> kernels/matmul.py:3:5
  |
3 |     multiply(x)
  |     ^^^^^^^^
  = more:  nki-lab explain NKI315
"""
    )


def test_an_empty_run_has_a_report() -> None:
    assert text.report(Recording({})).startswith("kernel: 0 ns, 0 instructions\n")


def test_a_report_begins_with_kernel_target_and_time() -> None:
    recording = Recording(synthetic(1000), {"kernel": "flash_fwd", "target": "trn2"})
    first = text.report(recording).splitlines()[0]
    assert first.startswith("flash_fwd on trn2: ")
    assert "1,000 instructions" in first


@settings(max_examples=scaled(60))
@given(drawn())
def test_any_run_has_a_report_with_all_its_lanes(recording: Recording) -> None:
    report = text.report(recording)
    assert all(lane_label(lane.name) in report for lane in recording.lanes)
    assert report.endswith("\n")
    assert not [line for line in report.splitlines() if line != line.rstrip()]


def test_columns_are_aligned() -> None:
    assert text.table(("a", "bb"), [("long", "1"), ("x", "100")], left=(0,)) == "a      bb\nlong    1\nx     100"


def test_the_beginning_of_a_report_tells_engines_and_waits() -> None:
    recording = Recording(synthetic(100), {"kernel": "k"})
    dma = digest(recording).dma[0] / recording.makespan
    first, *_, busy, waits = text.brief(recording).splitlines()
    assert first.startswith("k: ")
    assert busy.startswith("busy  Tensor ")
    assert busy.endswith(f"DMA {100 * dma:.0f} %")
    assert waits.startswith("waits for ")
