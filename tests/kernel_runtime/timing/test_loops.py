"""Loops on the device: engines count and branch at the begin of an iteration whose count is data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab.isa.arch import arch_of
from tests.kernel_runtime.drawn_kernels import nisa, nl

X = np.ones((128, 64), np.float32)


def looped(chained: bool) -> Any:
    """A kernel with one instruction in a loop, which reads what it wrote the time before or nothing."""

    def kernel(x: Any, count: Any) -> Any:
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        number = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(number, count)
        stop = nisa.register_alloc(0)
        nisa.register_load(stop, number)

        def step(i: Any) -> None:
            if chained:
                nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
            else:
                nisa.memset(tile, 1.0)

        nl.fori_loop(0, stop, step)
        nisa.dma_copy(x, tile)
        return x

    return kernel


def summary(chained: bool, count: int, target: str) -> Any:
    return nki_lab.run(looped(chained), X.copy(), np.array([[count]], np.int32), target=target).summary


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_an_iteration_takes_its_work_and_the_loop(target: str) -> None:
    few, some, many = (summary(False, count, target) for count in (2, 5, 8))
    arch = arch_of(target)
    work = (64 + arch.vector_issue_overhead_cycles) / arch.vector_ghz
    each = (some.makespan_ns - few.makespan_ns) / 3
    assert each == pytest.approx(work + arch.loop_overhead_ns, abs=0.01)
    assert many.makespan_ns - some.makespan_ns == pytest.approx(3 * each, abs=0.01)
    assert many.critical_wait_ns["loop"] >= 7 * arch.loop_overhead_ns


def test_a_loop_hides_behind_the_latency_of_what_it_waits_for() -> None:
    arch = arch_of("trn2")
    chain = (64 / arch.vector_fp32_copy + arch.vector_start_cycles) / arch.vector_ghz + arch.semaphore_ns
    times = [summary(True, count, "trn2").makespan_ns for count in (2, 5)]
    assert times[1] - times[0] == pytest.approx(3 * chain, abs=0.01)
