"""The columns of charts add up to the figures of the summary, whatever the bins, and have one length for any recording."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.kernel_runtime.vocabulary import SPACES
from nki_lab.plots.columns import FRAMES, frame
from nki_lab.plots.columns.memory_use import dead_bytes
from tests.plots.runs import EXAMPLES, example, profiled
from tests.recordings import drawn
from tests.scale import scaled

BINS = ({}, {"bins": 1}, {"bins": 7}, {"bin_ns": 1000}, {"bin_ns": 333.333})


runs = pytest.mark.parametrize("name", [*EXAMPLES, "beta1"])


def test_the_compiler_model_changes_one_of_the_runs() -> None:
    assert "compiler_model" in profiled("beta1").summary


@runs
@pytest.mark.parametrize("options", BINS, ids=str)
def test_busy_time_of_all_bins_is_that_of_the_summary(name: str, options: dict[str, Any]) -> None:
    run = profiled(name)
    found = frame(run.recording, "utilisation", **options)
    for kind, busy in run.summary.engine_busy_ns.items():
        assert found["busy_ns"][found["kind"] == kind].sum() == pytest.approx(busy, rel=1e-12)
    assert ((found["share"] >= 0) & (found["share"] <= 1)).all()
    np.testing.assert_allclose(found["share"] * (found["end_ns"] - found["begin_ns"]), found["busy_ns"])


@runs
@pytest.mark.parametrize("options", BINS, ids=str)
def test_bytes_of_all_bins_are_those_of_the_summary(name: str, options: dict[str, Any]) -> None:
    run = profiled(name)
    found = frame(run.recording, "bandwidth", **options)
    assert found["read_bytes"].sum() == run.summary.hbm_read_bytes
    assert found["written_bytes"].sum() == run.summary.hbm_write_bytes
    rate = (run.summary.hbm_read_bytes + run.summary.hbm_write_bytes) / run.summary.makespan_ns
    assert rate / found["limit_gb_s"][0] == pytest.approx(run.summary.mbu)


@runs
def test_the_most_live_bytes_are_those_of_the_summary(name: str) -> None:
    run = profiled(name)
    found = frame(run.recording, "memory")
    for memory in ("sbuf", "psum"):
        most = found["live_bytes"][found["memory"] == memory].max()
        assert most == run.summary[f"{memory}_occupied_bytes_per_partition"]
    assert set(found["core"].tolist()) == set(range(run.summary.cores))
    assert found["time_ns"].max() == run.summary.makespan_ns


@runs
def test_stalls_of_a_lane_add_up_to_the_run(name: str) -> None:
    run = profiled(name)
    found = frame(run.recording, "stalls")
    for lane in dict.fromkeys(found["lane"].tolist()):
        mine = found["lane"] == lane
        assert found["time_ns"][mine].sum() == pytest.approx(run.summary.makespan_ns)
        assert found["share"][mine].sum() == pytest.approx(1)
    works = np.isin(found["part"], ("works", "slowed")) & (found["lane"] != "Critical path")
    for lane in digest(run.recording).lanes:
        if lane.kind == "engine" and lane.rows:
            own = works & (found["core"] == lane.core) & np.char.startswith(np.char.lower(found["lane"]), lane.name)
            assert round(found["time_ns"][own].sum() * 1000) == lane.busy
    path = found["time_ns"][(found["lane"] == "Critical path") & (found["part"] == "waits")]
    assert path.sum() == pytest.approx(sum(run.summary.critical_wait_ns.values()), abs=run.summary.launch_ns + 1)


@runs
def test_points_of_the_roofline_are_at_the_shares_of_the_summary(name: str) -> None:
    run = profiled(name)
    found, roofs = frame(run.recording, "roofline"), frame(run.recording, "roofs")
    kernel = (found["what"] == "kernel").tolist().index(True)
    kind, rate = found["kind"][kernel], found["tera_per_s"][kernel]
    hbm = roofs["gb_s"][roofs["kind"] == "dma"][0]
    assert rate * 1e3 / found["intensity"][kernel] / hbm == pytest.approx(run.summary.mbu)
    low, high = run.summary.makespan_interval_ns
    assert found["low_tera_per_s"][kernel] == pytest.approx(rate * run.summary.makespan_ns / high, rel=1e-4)
    assert found["high_tera_per_s"][kernel] == pytest.approx(rate * run.summary.makespan_ns / low, rel=1e-4)
    lines = (found["what"] == "line") & (found["kind"] == kind)
    assert found["operations"][lines].sum() == found["operations"][kernel]
    if kind == "tensor":
        assert found["operations"][kernel] == run.summary.flops
        assert rate / roofs["tera_per_s"][0] == pytest.approx(run.summary.mfu)


@runs
def test_bytes_of_transfers_are_those_of_the_summary(name: str) -> None:
    run = profiled(name)
    found = frame(run.recording, "dma_sizes")
    assert found["bytes"].sum() == run.summary.dma_bytes
    assert (found["line"] > 0).all()


def test_transfers_of_one_run_a_partition_are_on_the_curve() -> None:
    recording = profiled("k02_matmul").recording
    found, curve = frame(recording, "dma_sizes"), frame(recording, "dma_curve")
    shares = dict(zip(curve["descriptor_bytes"].tolist(), curve["efficiency"].tolist(), strict=True))
    assert found["efficiency"].tolist() == pytest.approx([shares[size] for size in found["descriptor_bytes"].tolist()])


def test_a_bin_has_the_time_that_lies_in_it() -> None:
    recording = profiled("k02_matmul").recording
    found = frame(recording, "utilisation", bin_ns=500)
    (tensor,) = [lane.number for lane in recording.lanes if lane.name == "tensor"]
    rows = np.flatnonzero(whole(recording.rows["lane"]) == tensor)
    start = whole(recording.rows["start"])[rows] / 1000
    end = start + whole(recording.rows["duration"])[rows] / 1000
    mine = found["kind"] == "tensor"
    for low, high, busy in zip(*(found[name][mine] for name in ("begin_ns", "end_ns", "busy_ns")), strict=True):
        assert busy == pytest.approx((np.minimum(end, high) - np.maximum(start, low)).clip(0).sum(), abs=1e-6)


@pytest.mark.parametrize("name", sorted(FRAMES))
@settings(max_examples=scaled(60), deadline=None)
@given(recording=drawn())
def test_any_recording_has_columns_of_one_length(name: str, recording: Recording) -> None:
    found = frame(recording, name)
    assert len({len(column) for column in found.values()}) == 1
    assert all(column.ndim == 1 for column in found.values())


@settings(max_examples=scaled(60), deadline=None)
@given(recording=drawn(), bins=st.integers(1, 50))
def test_any_recording_is_busy_for_as_long_as_its_digest_says(recording: Recording, bins: int) -> None:
    found = frame(recording, "utilisation", bins=bins)
    lanes = digest(recording).lanes
    busy = sum(lane.busy for lane in lanes if lane.kind == "engine") + sum(digest(recording).dma.values())
    engines = found["kind"] != "cc"
    assert found["busy_ns"][engines].sum() * 1000 == pytest.approx(busy)


@settings(max_examples=scaled(100), deadline=None)
@given(recording=drawn(), where=st.sampled_from(["sbuf", "psum"]))
def test_dead_bytes_are_those_that_nobody_took(recording: Recording, where: str) -> None:
    lifetimes, buffers = recording.table("lifetimes"), recording.table("buffers")
    tiles = []
    for buffer, start, end in zip(
        *(whole(lifetimes[name]).tolist() for name in ("buffer", "start", "end")), strict=True
    ):
        one = {column.name: int(buffers[column.name][buffer]) for column in buffers.spec.columns if not column.is_text}
        if one["space"] == SPACES.index(where) and one["byte"] >= 0 <= one["partition"] and one["partition_bytes"]:
            tiles.append((start, buffer, max(start, end), one))
    tiles.sort(key=lambda tile: tile[:2])

    def meets(a: dict[str, int], b: dict[str, int]) -> bool:
        return all(
            a[low] < b[low] + b[size] and b[low] < a[low] + a[size]
            for low, size in (("byte", "partition_bytes"), ("partition", "partitions"))
        ) and a["core"] == b["core"]  # fmt: skip

    dead = []
    for place, (_, _, end, mine) in enumerate(tiles):
        takers = [start for start, _, _, other in tiles[place + 1 :] if meets(mine, other)]
        dead.append((end, min(max(end, takers[0]) if takers else math.inf, recording.makespan + 1), mine))
    for core in sorted({mine["core"] for *_, mine in dead}):
        times, level = dead_bytes(recording, where, core)
        for time, bytes_ in zip(times.tolist(), level.tolist(), strict=True):
            here = [mine for end, gone, mine in dead if end <= time < gone and mine["core"] == core]
            by_partition = [
                sum(mine["partition_bytes"] for mine in here if 0 <= p - mine["partition"] < mine["partitions"])
                for p in range(max([mine["partition"] + mine["partitions"] for mine in here], default=1))
            ]
            assert bytes_ == max(by_partition)


def test_an_unknown_chart_names_those_that_there_are() -> None:
    with pytest.raises(nki_lab.NkiError, match="NKI012 there is no chart 'utilization'") as caught:
        profiled("k01_add").to_frame("utilization")
    assert "bandwidth" in str(caught.value)
    assert "utilisation" in str(caught.value.diagnostics[0].help)


@pytest.mark.parametrize("options", [{"bins": 0}, {"bins": 2.5}, {"bin_ns": 0}, {"bin_ns": math.nan}, {"bin_ns": 1e-9}])
def test_bins_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(nki_lab.NkiError, match=f"NKI012 {next(iter(options))} is"):
        frame(profiled("k01_add").recording, "utilisation", **options)


def test_an_option_that_a_chart_does_not_have_is_refused() -> None:
    with pytest.raises(nki_lab.NkiError, match=r"NKI012 the chart bandwidth: .*colour") as caught:
        profiled("k01_add").to_frame("bandwidth", colour="red")
    assert "options: bins, bin_ns" in str(caught.value)


@pytest.mark.parametrize("name", sorted(FRAMES))
def test_a_frame_is_a_table_with_the_columns(name: str) -> None:
    run = profiled("k10_two_cores")
    table = run.to_frame(name)
    columns = frame(run.recording, name)
    assert table.column_names == list(columns)
    for column, values in columns.items():
        np.testing.assert_equal(np.array(table[column].to_pylist()), values)


def test_a_saved_run_has_the_same_columns(tmp_path: Path) -> None:
    run = profiled("beta1")
    saved = nki_lab.open(run.save(tmp_path / "run.nkirec"))
    for name in FRAMES:
        np.testing.assert_equal(frame(saved.recording, name), frame(run.recording, name))


def test_a_run_without_times_says_so() -> None:
    kernel, flat = example("k01_add")["KERNELS"][0], np.ones(3, np.float32)
    run = nki_lab.run(kernel, flat, flat, target="trn2", on_error="report")
    with pytest.raises(nki_lab.NkiError, match="NKI023"):
        run.to_frame("memory")
