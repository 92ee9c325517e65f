"""Monitors: who is told of the progress of a run, when, and at what price."""

from __future__ import annotations

import time

import pytest

from nki_lab.kernel_runtime.progress import PAUSE, Monitor, Progress, current_monitor, followed_by


def test_nobody_is_told_without_a_monitor() -> None:
    before = current_monitor()
    with followed_by(None):
        assert current_monitor() is before
    before.begin("timing", 3)
    before.advance(2)


def test_reports_are_a_pause_apart_but_for_new_phases() -> None:
    told: list[Progress] = []
    monitor = Monitor(told.append)
    monitor.open("k", "trn2")
    monitor.begin("specialising")
    for done in range(1000):
        monitor.advance(done)
    monitor.begin("numerics", 5)
    assert [(item.phase, item.done, item.total) for item in told] == [("specialising", 0, None), ("numerics", 0, 5)]
    time.sleep(PAUSE)
    monitor.advance(3)
    monitor.complete()
    assert [item.done for item in told[2:]] == [3, 5]
    assert 0 <= told[0].elapsed <= told[-1].elapsed


def test_slow_reports_are_rare() -> None:
    told: list[float] = []

    def slow(_: Progress) -> None:
        time.sleep(0.01)
        told.append(time.perf_counter())

    monitor = Monitor(slow)
    monitor.begin("numerics", 10)
    end = time.perf_counter() + 0.4
    while time.perf_counter() < end:
        monitor.advance(1)
    assert len(told) == 1  # the next would come after 60 times as long


def test_what_a_report_raises_comes_out_as_it_was() -> None:
    error = ValueError("mine")

    def refuse(_: Progress) -> None:
        raise error

    with pytest.raises(ValueError, match="mine") as caught, followed_by(Monitor(refuse)):
        try:
            current_monitor().begin("timing")
        except Exception as swallowed:  # noqa: BLE001 - what stages do with the faults of kernels
            pytest.fail(f"{swallowed} looks like a fault")
    assert caught.value is error


def test_an_outer_monitor_hears_what_an_inner_one_is_told() -> None:
    outer = Monitor()
    with followed_by(Monitor(lambda _: None, outer=outer)):
        monitor = current_monitor()
        monitor.open("k", "trn2")
        monitor.begin("numerics", 7)
        monitor.advance(4)
        monitor.show("a timeline")
        assert (outer.kernel, outer.phase, outer.done, outer.total, outer.subject) == (
            "k",
            "numerics",
            4,
            7,
            "a timeline",
        )
        monitor.leave()
    assert outer.phase is None


def test_progress_cannot_be_changed() -> None:
    progress = Progress(phase="timing", done=1, total=None, elapsed=0.5)
    with pytest.raises(AttributeError):
        progress.done = 2  # type: ignore[misc]
