"""The text report says where the time of any run went."""

from __future__ import annotations

from hypothesis import given, settings

from nki_lab.export import text
from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import drawn, synthetic


def test_an_empty_run_has_a_report() -> None:
    assert text.report(Recording({})).startswith("kernel: 0 ns, 0 instructions\n")


def test_a_report_begins_with_kernel_target_and_time() -> None:
    recording = Recording(synthetic(1000), {"kernel": "flash_fwd", "target": "trn2"})
    first = text.report(recording).splitlines()[0]
    assert first.startswith("flash_fwd on trn2: ")
    assert "1,000 instructions" in first


@settings(max_examples=60)
@given(drawn())
def test_any_run_has_a_report_with_all_its_lanes(recording: Recording) -> None:
    report = text.report(recording)
    assert all(lane.name in report for lane in recording.lanes)
    assert report.endswith("\n")
    assert not [line for line in report.splitlines() if line != line.rstrip()]


def test_columns_are_aligned() -> None:
    assert text.table(("a", "bb"), [("long", "1"), ("x", "100")], left=(0,)) == "a      bb\nlong    1\nx     100"
