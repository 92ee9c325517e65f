"""Sums over stretches of time against counting by hand, from rows and from the kept levels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.kernel_runtime.recording import Recording, Row
from nki_lab.kernel_runtime.recording.zoom import bucket_shift, largest
from tests.recordings import drawn, small_chunks, synthetic
from tests.scale import scaled


def rows_of(recording: Recording, lane: int) -> list[Row]:
    """The rows of a lane in order of time."""
    rows = [recording.row(row) for row in range(len(recording)) if recording.rows["lane"][row] == lane]
    return sorted(rows, key=lambda row: (row.start, row.duration, row.number))


def overlap(begin: int, end: int, low: int, high: int) -> int:
    return max(0, min(end, high) - max(begin, low))


def by_hand(recording: Recording, lane: int, low: int, high: int) -> tuple[list[int], int]:
    """Picoseconds by reason, and rows that start, between two times on a lane."""
    time = [0] * len(recording.stalls)
    rows = rows_of(recording, lane)
    for row in rows:
        time[0] += overlap(row.start, row.start + row.duration, low, high)
        time[recording.stalls.index(row.stall)] += overlap(row.start - row.wait, row.start - row.setup, low, high)
        time[recording.stalls.index(row.setup_stall)] += overlap(row.start - row.setup, row.start, low, high)
    return time, sum(low <= row.start < high for row in rows)


STRETCH = st.tuples(st.integers(0, 100), st.integers(1, 100))


def stretch(recording: Recording, chosen: tuple[int, int]) -> tuple[int, int]:
    """A begin and an end, in percent of the run and a little beyond it."""
    at, size = chosen
    whole = recording.makespan + 2
    return whole * at // 100, whole * at // 100 + max(1, whole * size // 100)


def check_sums(recording: Recording, begin: int, end: int, buckets: int) -> None:
    shift, found = recording.sums(begin, end, buckets)
    entries = {key[:3]: key[3:] for key in zip(*(column.tolist() for column in found), strict=True)}
    assert list(entries) == sorted(entries)
    first, last = begin >> shift, ((end - 1) >> shift) + 1
    assert last - first <= buckets + 1
    for lane in range(len(recording.lanes)):
        for bucket in range(first, last):
            time, count = by_hand(recording, lane, bucket << shift, (bucket + 1) << shift)
            for reason, spent in enumerate(time):
                expected = (spent, 0 if reason else count)
                assert entries.pop((bucket, lane, reason), (0, 0)) == expected
    assert not entries


@settings(max_examples=scaled(60))
@given(drawn(max_rows=15), STRETCH, st.integers(1, 12))
def test_sums_of_a_stretch_are_exact(recording: Recording, chosen: tuple[int, int], buckets: int) -> None:
    check_sums(recording, *stretch(recording, chosen), buckets)


@settings(max_examples=scaled(60))
@given(drawn(max_rows=15), STRETCH, st.integers(1, 12))
def test_sums_from_kept_levels_are_exact(recording: Recording, chosen: tuple[int, int], buckets: int) -> None:
    with small_chunks():
        assert not len(recording) or len(recording.table("lane_sum_levels"))
        check_sums(recording, *stretch(recording, chosen), buckets)


def test_a_stretch_is_answered_alike_by_every_level() -> None:
    recording = Recording(synthetic(5000))
    plain = [recording.sums(0, recording.makespan, buckets) for buckets in (1, 7, 100, 900)]
    kept = Recording(synthetic(5000))
    with small_chunks():
        assert len(kept.table("lane_sum_levels")) > 3
    for (shift, one), buckets in zip(plain, (1, 7, 100, 900), strict=True):
        other_shift, other = kept.sums(0, kept.makespan, buckets)
        assert other_shift == shift
        assert all((a == b).all() for a, b in zip(one, other, strict=True))


@given(st.integers(1, 10**15), st.integers(1, 5000))
def test_bucket_widths_are_the_least_that_suffice(length: int, buckets: int) -> None:
    shift = bucket_shift(length, buckets)
    assert (buckets << shift) >= length
    assert shift == 0 or (buckets << (shift - 1)) < length


@pytest.mark.parametrize(("begin", "end", "buckets"), [(5, 5, 10), (6, 5, 10), (0, 1, 0)])
def test_a_stretch_without_buckets_is_refused(begin: int, end: int, buckets: int) -> None:
    recording = Recording({"lanes": {"name": ["tensor"], "kind": [0]}})
    with pytest.raises(ValueError, match="no buckets"):
        recording.sums(begin, end, buckets)


# Memory


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 99)), max_size=20), st.integers(1, 30))
def test_memory_per_bucket_is_the_largest_in_force(changes: list[tuple[int, int]], buckets: int) -> None:
    time = np.cumsum([step for step, _ in changes]).astype(np.int64)
    values = np.array([value for _, value in changes], np.int64)
    edges = np.linspace(0, 300, buckets + 1)
    for place, most in enumerate(largest(time, values, edges).tolist()):
        held = values[time <= edges[place]]
        inside = values[(time > edges[place]) & (time < edges[place + 1])]
        assert most == max([*held[-1:].tolist(), *inside.tolist()], default=0)
