"""A run in few numbers: they add up, and say what the walk itself says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given

import nki_lab
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.digest import LAUNCH, Digest, digest, is_by_result
from nki_lab.kernel_runtime.timing import STALL_REASONS
from nki_lab.kernel_runtime.timing.reasons import FROM_PRODUCER
from tests.recordings import drawn, synthetic

A = np.ones((256, 128), ml_dtypes.bfloat16)
B = np.ones((256, 1024), ml_dtypes.bfloat16)


@nki.jit
def product(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    for n in range(b.shape[1] // 512):
        total = nl.ndarray((a.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
        for k in range(a.shape[0] // 128):
            stationary = nl.load(a[nl.ds(k * 128, 128)])
            moving = nl.load(b[nl.ds(k * 128, 128), nl.ds(n * 512, 512)])
            nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
        nl.store(out[:, nl.ds(n * 512, 512)], nl.exp(nl.copy(total)))
    return out


def timed(**options: Any) -> tuple[Digest, Any, nki_lab.Run]:
    run = nki_lab.profile(product, A, B, target="trn2", **options)
    return digest(run.recording), run._timeline.timing, run


@pytest.mark.parametrize("launch", [False, True], ids=["plain", "launch"])
def test_the_critical_path_is_that_of_the_walk(launch: bool) -> None:
    told, timing, run = timed(launch_overhead=launch)
    # Shares of durations are kept in 1/65535: what a row works and what held it up may differ by so much.
    allowed = int(run.recording.rows["duration"][:].sum()) / 65535 + len(run.recording)
    assert sum(told.work.values()) == pytest.approx(int(timing.path.work.sum()), abs=allowed)
    walked = {STALL_REASONS[reason]: time for reason, time in timing.path.waits.items()}
    assert told.waits.keys() == walked.keys()
    assert all(told.waits[name] == pytest.approx(time, abs=allowed) for name, time in walked.items())
    assert sum(told.work.values()) + sum(told.waits.values()) == told.makespan == timing.makespan
    assert (LAUNCH in told.waits) == launch
    assert run.summary.critical_path_ns + sum(run.summary.critical_wait_ns.values()) == pytest.approx(
        run.summary.makespan_ns
    )


@pytest.mark.parametrize("launch", [False, True], ids=["plain", "launch"])
def test_lanes_are_told_as_the_walk_counts_them(launch: bool) -> None:
    told, timing, run = timed(launch_overhead=launch)
    allowed = int(run.recording.rows["duration"][:].sum()) / 65535 + len(run.recording)
    for mine, lane in zip(told.lanes, timing.lanes, strict=True):
        walked, slowed = (
            {STALL_REASONS[reason]: time for reason, time in times.items()} for times in (lane.stalls, lane.slowed)
        )
        assert (mine.name, mine.kind, mine.rows, mine.empty) == (lane.name, lane.kind, lane.ops, lane.empty)
        assert (mine.busy, mine.waits) == (lane.busy, walked)
        assert mine.slowed == pytest.approx(slowed, abs=allowed)
        assert 0 <= mine.critical <= mine.busy


def test_a_wait_for_a_result_is_known_by_its_name() -> None:
    others = {
        "anti-dependency",
        "output order",
        "memory reuse",
        "user order",
        "semaphore",
        "dma trigger",
        "other core",
        "other rank",
    }
    named = {n for n, name in enumerate(STALL_REASONS) if name.startswith("data from ") or name in others}
    assert named == FROM_PRODUCER
    assert is_by_result("data from ring")
    assert not is_by_result("a ring")


def test_lines_share_the_critical_path() -> None:
    told, _, _ = timed()
    assert {Path(line.file).name for line in told.lines} == {Path(__file__).name}
    assert sum(line.critical for line in told.lines) == told.makespan
    assert [line.critical for line in told.lines] == sorted((line.critical for line in told.lines), reverse=True)
    by_text = {line.text: line for line in told.lines}
    matmul = by_text["nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)"]
    assert (matmul.rows, matmul.function) == (4, "product")
    assert sum(line.rows for line in told.lines) == len(nki_lab.compile(product, A, B, target="trn2"))


@given(drawn())
def test_what_is_told_adds_up_for_any_recording(recording: Recording) -> None:
    told = digest(recording)
    path = told.path
    assert all((column >= 0).all() for column in (path.work, path.rest, path.setup, path.throttled))
    assert sum(told.work.values()) + sum(told.waits.values()) == (recording.makespan if len(recording) else 0)
    assert sum(told.work.values()) == path.work.sum()
    for lane in told.lanes:
        assert lane.busy + sum(lane.waits.values()) + lane.empty == recording.makespan
        assert min(lane.busy, lane.empty, lane.critical, *lane.waits.values(), 0) == 0
        assert lane.critical <= lane.busy
        assert 0 <= sum(lane.slowed.values()) <= lane.busy
    for core, time in told.dma.items():
        queues = [lane for lane in told.lanes if lane.kind == "dma" and lane.core == core]
        assert max(lane.busy for lane in queues) <= time <= min(recording.makespan, sum(lane.busy for lane in queues))
    rows = recording.rows["site"][:]
    assert sum(line.rows for line in told.lines) == int((rows >= 0).sum())
    assert sum(line.work for line in told.lines) <= path.work.sum()


def test_a_saved_recording_is_told_the_same(tmp_path: Path) -> None:
    recording = Recording(synthetic(3_000), {"target": "trn2"})
    recording.save(tmp_path / "run.nkirec")
    kept, opened = digest(recording), digest(Recording.open(tmp_path / "run.nkirec"))
    assert (kept.lanes, kept.lines, kept.work, kept.waits) == (opened.lanes, opened.lines, opened.work, opened.waits)


def test_an_empty_recording_has_a_digest() -> None:
    told = digest(Recording({}))
    assert (told.makespan, told.lanes, told.lines, told.work, told.waits) == (0, (), (), {}, {})
