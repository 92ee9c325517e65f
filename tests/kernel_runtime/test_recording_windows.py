"""Window queries against counting by hand, read from rows and from the pyramid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.recording import LaneBuckets, LaneRows, MemoryBuckets, MemorySteps, Recording, Row
from nki_lab.kernel_runtime.recording.window import bucket_edges, bucket_shift
from tests.recordings import drawn, small_chunks


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


def check_buckets(recording: Recording, window: LaneBuckets) -> None:
    for place, (low, high) in enumerate(zip(window.edges[:-1].tolist(), window.edges[1:].tolist(), strict=True)):
        time, count = by_hand(recording, window.lane, low, high)
        assert window.busy[place] == time[0]
        assert window.count[place] == count
        assert window.waiting[place] == sum(time[1:])
        stall = int(window.stall[place])
        assert time[stall] == max(time[1:]) if stall else not any(time[1:])
        assert 0 <= window.busy_share[place] <= 1


WINDOW = st.tuples(st.integers(0, 100), st.integers(1, 100))


def stretch(recording: Recording, window: tuple[int, int]) -> tuple[int, int]:
    """A begin and an end, in percent of the run and a little beyond it."""
    at, size = window
    whole = recording.makespan + 2
    return whole * at // 100, whole * at // 100 + max(1, whole * size // 100)


@given(drawn(), WINDOW)
def test_a_window_has_the_rows_that_touch_it_in_order(recording: Recording, window: tuple[int, int]) -> None:
    begin, end = stretch(recording, window)
    for found in recording.windows(begin, end):
        assert isinstance(found, LaneRows)
        expected = [
            row
            for row in rows_of(recording, found.lane)
            if overlap(row.start, row.start + row.duration, begin, end)
            or begin <= row.start < end
            or (row.wait and row.start >= end and row.start - row.wait < end)
        ]
        assert found.row.tolist() == [row.number for row in expected]
        for name in ("start", "duration", "wait", "setup"):
            assert getattr(found, name).tolist() == [getattr(row, name) for row in expected]
        for name in ("stall", "setup_stall"):
            assert [recording.stalls[number] for number in getattr(found, name)] == [getattr(r, name) for r in expected]


@given(drawn(), WINDOW, st.integers(1, 40))
def test_buckets_from_rows_are_exact(recording: Recording, window: tuple[int, int], buckets: int) -> None:
    begin, end = stretch(recording, window)
    for found in recording.windows(begin, end, limit=0, buckets=buckets):
        if isinstance(found, LaneBuckets):
            check_buckets(recording, found)


@given(drawn(), WINDOW, st.integers(1, 40))
def test_buckets_from_the_pyramid_are_exact(recording: Recording, window: tuple[int, int], buckets: int) -> None:
    with small_chunks():
        small = Recording(
            {name: {column.name: table.texts(column.name) if column.is_text else table[column.name]
                    for column in table.spec.columns}
             for name, table in recording._tables.items() if not table.spec.index and name != "summary"}
        )  # fmt: skip
        begin, end = stretch(small, window)
        for found in small.windows(begin, end, limit=0, buckets=buckets):
            if isinstance(found, LaneBuckets):
                check_buckets(small, found)


@given(drawn(), WINDOW, st.integers(1, 40))
def test_buckets_of_all_lanes_share_their_edges_and_cover_the_window(
    recording: Recording, window: tuple[int, int], buckets: int
) -> None:
    begin, end = stretch(recording, window)
    found = [one for one in recording.windows(begin, end, limit=0, buckets=buckets) if isinstance(one, LaneBuckets)]
    for one in found:
        assert one.edges.tolist() == found[0].edges.tolist()
        assert one.edges[0] <= begin and end <= one.edges[-1]
        assert len(one) <= buckets + 1
        width = int(one.edges[1] - one.edges[0])
        assert width & (width - 1) == 0
        assert width == 1 or width < 2 * -(-(end - begin) // buckets)


@given(st.integers(0, 10**15), st.integers(1, 10**15), st.integers(1, 5000))
def test_bucket_widths_are_the_least_that_suffice(begin: int, length: int, buckets: int) -> None:
    shift = bucket_shift(length, buckets)
    assert (buckets << shift) >= length
    assert shift == 0 or (buckets << (shift - 1)) < length
    edges = bucket_edges(begin, begin + length, shift)
    assert edges[0] <= begin < edges[1]
    assert edges[-2] < begin + length <= edges[-1]


@pytest.mark.parametrize(("begin", "end"), [(5, 5), (6, 5)])
def test_an_empty_window_is_refused(begin: int, end: int) -> None:
    recording = Recording({"lanes": {"name": ["tensor"], "kind": [0]}})
    with pytest.raises(ValueError, match="is empty"):
        recording.window(0, begin, end)
    with pytest.raises(ValueError, match="is empty"):
        recording.memory(begin, end)


def test_a_window_has_a_bucket() -> None:
    recording = Recording({"lanes": {"name": ["tensor"], "kind": [0]}})
    with pytest.raises(ValueError, match="buckets=0"):
        recording.window(0, 0, 1, buckets=0)


def test_the_number_of_rows_decides_between_rows_and_buckets() -> None:
    start = np.arange(100) * 10
    recording = Recording(
        {
            "rows": {
                "start": start,
                "duration": np.full(100, 10),
                "lane": np.zeros(100, int),
                "op": np.zeros(100, int),
            },
            "lanes": {"name": ["tensor"], "kind": [0]},
            "ops": {"name": ["copy"]},
        }
    )
    assert isinstance(recording.window(0, 0, 1000, limit=100), LaneRows)
    buckets = recording.window(0, 0, 1000, limit=99, buckets=10)
    assert isinstance(buckets, LaneBuckets)
    assert buckets.busy_share[:-1].tolist() == [1.0] * 7
    assert isinstance(recording.window(0, 0, 990, limit=99), LaneRows)
    assert len(recording.window(0, 995, 996)) == 1
    assert len(recording.window(0, 1000, 2000)) == 0


# Memory


def usage_at(recording: Recording, time: int) -> tuple[int, int]:
    usage = recording.table("usage")
    place = int(np.searchsorted(usage["time"][:], time, "right")) - 1
    return (int(usage["sbuf"][place]), int(usage["psum"][place])) if place >= 0 else (0, 0)


@given(drawn(), WINDOW)
def test_memory_in_use_follows_its_steps(recording: Recording, window: tuple[int, int]) -> None:
    begin, end = stretch(recording, window)
    found = recording.memory(begin, end)
    assert isinstance(found, MemorySteps)
    assert found.time[0] == begin
    assert (np.diff(found.time) > 0).all()
    changes = [time for time in recording.table("usage")["time"][:].tolist() if begin < time < end]
    assert found.time[1:].tolist() == changes
    for time, sbuf, psum in zip(found.time.tolist(), found.sbuf.tolist(), found.psum.tolist(), strict=True):
        assert (sbuf, psum) == usage_at(recording, time)


@given(drawn(), WINDOW, st.integers(1, 30), st.booleans())
def test_memory_per_bucket_is_the_largest_in_it(
    recording: Recording, window: tuple[int, int], buckets: int, pyramid: bool
) -> None:
    begin, end = stretch(recording, window)
    if pyramid:
        with small_chunks():
            found = recording.memory(begin, end, limit=0, buckets=buckets)
    else:
        found = recording.memory(begin, end, limit=0, buckets=buckets)
    if isinstance(found, MemorySteps):
        return
    times = recording.table("usage")["time"][:].tolist()
    for place, (low, high) in enumerate(zip(found.edges[:-1].tolist(), found.edges[1:].tolist(), strict=True)):
        values = [usage_at(recording, time) for time in (low, *(time for time in times if low < time < high))]
        assert found.sbuf[place] == max(sbuf for sbuf, _ in values)
        assert found.psum[place] == max(psum for _, psum in values)


def test_memory_of_many_steps_comes_from_the_pyramid() -> None:
    count = 50_000
    numbers = np.random.default_rng(0)
    usage = {"time": np.arange(count) * 7, "sbuf": numbers.integers(0, 1000, count), "psum": np.zeros(count, int)}
    recording = Recording({"usage": usage}, makespan=count * 7)
    assert len(recording.table("usage_zoom"))
    for begin, end in ((0, count * 7), (1000, 200_000), (3, 300_001), (100, 60_000), (count * 6, count * 9)):
        for buckets in (1, 3, 100, 1000):
            found = recording.memory(begin, end, buckets=buckets)
            assert isinstance(found, MemoryBuckets)
            for low, high, most in zip(
                found.edges[:-1].tolist(), found.edges[1:].tolist(), found.sbuf.tolist(), strict=True
            ):
                inside = usage["sbuf"][low // 7 : -(-high // 7)]
                assert most == (inside.max() if len(inside) else usage["sbuf"][-1])


@given(drawn(), WINDOW)
def test_lifetimes_in_a_window_are_those_in_use(recording: Recording, window: tuple[int, int]) -> None:
    begin, end = stretch(recording, window)
    life = recording.table("lifetimes")
    spans = zip(life["start"][:].tolist(), life["end"][:].tolist(), strict=True)
    expected = [place for place, (start, done) in enumerate(spans) if start < end and done > begin]
    assert recording.lifetimes(begin, end).tolist() == expected
