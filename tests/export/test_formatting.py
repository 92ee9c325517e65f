"""Times, sizes, shares and sentences as reports write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab import quantities
from nki_lab.export import formatting
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.timing import STALL_REASONS
from nki_lab.kernel_runtime.vocabulary import reason
from tests.recordings import drawn


@pytest.mark.parametrize(
    ("picoseconds", "shown"),
    [(0, "0 ns"), (499, "0 ns"), (1_000, "1 ns"), (999_400, "999 ns"), (999_700, "1.00 µs"), (1_500_000, "1.50 µs"),
     (37_640_000, "37.64 µs"), (2_000_000_000, "2.00 ms"), (3_000_000_000_000, "3.00 s"),
     (1_234_560_000_000_000, "1\u202f234.56 s"), (2_500, "3 ns"), (1_125_000, "1.13 µs"), (1_005_000, "1.01 µs")],
)  # fmt: skip
def test_times_have_the_unit_that_fits(picoseconds: int, shown: str) -> None:
    assert quantities.duration(picoseconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (4608, "4.5 KiB"), (16388, "16 KiB"), (3 << 20, "3 MiB"),
     (1_234_567, "1.18 MiB"), (100_000, "97.7 KiB"), (5 << 40, "5 TiB"), (1_048_166, "1\u202f024 KiB"), (1152, "1.13 KiB"), (1 << 60, "1048576 TiB")],
)  # fmt: skip
def test_sizes_are_exact_where_whole(count: int, shown: str) -> None:
    assert quantities.size(count) == shown


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (0, "0 %"),
        (1e-5, "< 0.1 %"),
        (0.001, "0.1 %"),
        (0.099, "9.9 %"),
        (0.0996, "10 %"),
        (1 / 3, "33 %"),
        (1 / 16, "6.3 %"),
        (1, "100 %"),
    ],
)
def test_shares_have_a_decimal_below_ten(part: float, shown: str) -> None:
    assert quantities.share(part) == shown


def test_a_share_of_nothing_is_nothing() -> None:
    assert quantities.ratio(5, 0) == 0


def test_every_reason_to_wait_has_words_of_its_own() -> None:
    said = [reason(name) for name in STALL_REASONS]
    assert len(set(said)) == len(said)
    assert not [name for name, text in zip(STALL_REASONS, said, strict=True) if text == name]
    assert reason("data from gpsimd") == "data from GpSimd"
    assert reason("some other profiler's reason") == "some other profiler's reason"


@given(drawn())
def test_any_run_is_held_back_by_something(recording: Recording) -> None:
    first, *_ = said = formatting.held_back(recording)
    assert all(sentence.endswith(".") for sentence in said)
    assert ("%" in first) == (recording.makespan > 0)


def test_the_largest_part_of_the_path_is_named_first() -> None:
    rows = {"start": [0, 4_000_000], "duration": [1_000_000, 2_000_000], "lane": [1, 0], "op": [0, 0], "site": [-1, 0],
            "after": [-1, 0], "stall": [0, 1]}  # fmt: skip
    tables = {
        "rows": rows,
        "lanes": {"name": ["vector", "dma q0"], "kind": [0, 1]},
        "stalls": {"name": ["none", "bandwidth"]},
        "ops": {"name": ["x"]},
        "sites": {"source": [0], "line": [7]},
        "sources": {"path": ["dir/kernel.py"], "text": [""]},
    }
    assert formatting.held_back(Recording(tables)) == [
        "The critical path waits 50 % of the time for DMA bandwidth that others use.",
        "Line 7 of kernel.py costs most: 83 %.",
    ]
    rows["start"], rows["stall"] = [0, 1_000_000], [0, 0]
    assert formatting.held_back(Recording(tables))[0] == "Vector is on the critical path 67 % of the time."


@pytest.mark.parametrize(
    ("file", "called"),
    [
        ("dir/kernel.py", "kernel.py"),
        ("<nki-cell-3>", "<nki-cell-3>"),
        ("some/ipykernel_7/1106551692.py", "a cell"),
        (r"C:\work\lib\kernel.py", "kernel.py"),
        (r"C:\Temp\ipykernel_7\11.py", "a cell"),
    ],
)
def test_a_file_that_a_notebook_made_is_called_a_cell(file: str, called: str) -> None:
    assert formatting.file_name(file) == called


def test_another_time_has_bounds_as_far_off_as_the_makespan_s() -> None:
    summary = {"makespan_ns": 10_000.0, "makespan_interval_ns": [8_000.0, 12_000.0]}
    assert formatting.other_time(summary, 7_090_000) == "7.09 µs, 5.67 to 8.51"
    assert formatting.other_time({"makespan_ns": 10_000.0}, 7_090_000) == "7.09 µs"


@given(st.dictionaries(st.sampled_from(["documented", "measured", "inferred", "guess", "other"]), st.floats(0, 1)))
def test_confidence_is_told_from_the_surest_on(parts: dict[str, float]) -> None:
    names = [name for name, _ in formatting.confidence({"confidence": parts})]
    assert names == [name for name in ("documented", "measured", "inferred", "guess") if parts.get(name, 0) > 0]


def test_bounds_are_in_the_unit_of_the_time_with_three_digits_or_whole() -> None:
    assert quantities.bounds((806e6, 1210e6), 999_000_000) == f", 806 to 1{quantities.THIN}210"
    assert quantities.bounds((4.59e6, 6.87e6), 5_690_000) == ", 4.59 to 6.87"
    assert quantities.bounds(None, 1) == ""


def test_a_makespan_is_about_where_a_quarter_is_not_known() -> None:
    assert formatting.about({}) == ""
    assert formatting.about({"confidence": {"documented": 0.75, "guess": 0.25}}) == ""
    assert formatting.about({"confidence": {"documented": 0.7, "inferred": 0.2, "guess": 0.1}}) == "about "
