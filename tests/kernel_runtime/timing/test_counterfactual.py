"""Makespans without one part of the machine each."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
from nki_lab import session
from tests.rules.test_whole_kernels import MATMULS, PIECES, SPEC, kernel_of, profiled


def test_bottlenecks_are_times_of_machines_without_one_part() -> None:
    line = profiled(PIECES.format(width=64)).timeline
    assert line is not None
    found = line.summary.bottlenecks
    assert set(found) == {"vector time", "DMA time", "DMA latency", "semaphores"}
    assert list(found.values()) == sorted(found.values())
    assert next(iter(found)) == "DMA latency"
    assert found["DMA latency"] < line.summary.makespan_ns / 2
    assert all(time <= 1.01 * line.summary.makespan_ns for time in found.values())  # other transfers may meet


def test_a_kernel_of_matmuls_is_as_fast_as_the_tensor_engine() -> None:
    line = profiled(MATMULS.format(dtype="float32")).timeline
    assert line is not None
    busy = line.summary.engine_busy_ns["tensor"]
    assert line.summary.makespan_ns - line.summary.bottlenecks["tensor time"] == pytest.approx(busy, rel=0.1)


def test_launch_is_a_part_where_it_is_counted() -> None:
    source = MATMULS.format(dtype="bfloat16")
    launch = session.Launch(kernel_of(source).function, "trn2", options=nki_lab.Options(launch_overhead=True))
    line = session.profile(launch, (SPEC,)).timeline
    assert line is not None
    assert line.summary.bottlenecks["launch"] == profiled(source).timeline.summary.makespan_ns  # type: ignore[union-attr]


def test_bottlenecks_are_no_item_until_asked_for() -> None:
    line = profiled(MATMULS.format(dtype="bfloat16")).timeline
    assert line is not None
    summary = line.summary
    assert "bottlenecks" not in summary
    assert summary["bottlenecks"] is summary.bottlenecks
    assert "bottlenecks" not in {**summary}
    with pytest.raises(AttributeError, match="bottlenecks"):
        summary.nothing_of_this_name


def test_the_timeline_stays_as_it_is() -> None:
    line = profiled(PIECES.format(width=64)).timeline
    assert line is not None
    before = line.timing.start.copy()
    arch = line.program.arch
    _ = line.summary.bottlenecks
    assert np.array_equal(line.timing.start, before)
    assert line.program.arch is arch
