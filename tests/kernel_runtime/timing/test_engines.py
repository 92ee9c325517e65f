"""What engines remember, and what they keep from each other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.isa.arch import V2, V3
from nki_lab.kernel_runtime.timing import STALL_REASONS, costs_of
from tests.kernel_runtime.timing.engines import PowerRamp
from tests.kernel_runtime.timing.timed import nisa, nl, timed

# -- activation tables -------------------------------------------------------------------------------------------------


def activations(*names: str) -> Any:
    """A kernel of activations of one tile into others."""

    def kernel() -> None:
        tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        bias = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, 0.5)
        nisa.memset(bias, 0.0)
        for name in names:
            nisa.activation(nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf), getattr(nl, name), tile, bias=bias)

    return kernel


def loaded(*names: str, **options: Any) -> list[bool]:
    """Before which activations a table is loaded."""
    found = timed(activations(*names), **options)
    rows = found.rows("activation")
    assert {STALL_REASONS[r] for r in found.timing.setup_reason[rows][found.timing.setup[rows] > 0]} <= {"table load"}
    return (found.timing.setup[rows] == round(found.program.arch.activation_table_load_ns * 1000)).tolist()


def test_a_table_is_loaded_where_the_function_set_changes() -> None:
    assert loaded("exp", "exp", "tanh", "tanh", "exp") == [True, False, True, False, True]


def test_functions_of_one_set_share_its_table() -> None:
    assert loaded("erf", "erf_dx", "gelu", "gelu_dx", "erf") == [True, False, True, False, True]


def test_functions_without_table_leave_it_alone() -> None:
    assert loaded("copy", "relu", "exp", "square", "exp") == [False, False, True, False, False]


def test_table_loads_can_be_left_out() -> None:
    assert loaded("exp", "tanh", table_loads=False) == [False, False]


# -- stationary tiles --------------------------------------------------------------------------------------------------


def products(*order: int, rewrite_before: int = -1) -> Any:
    """A kernel of matmuls with one of two stationary tiles, all moving operands late."""

    def kernel(x: Any) -> None:
        weights = [nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf) for _ in range(2)]
        for weight in weights:
            nisa.memset(weight, 0.0)
        for number, which in enumerate(order):
            tile = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
            nisa.dma_copy(tile, x[number])
            if number == rewrite_before:
                nisa.memset(weights[which], 1.0)
            nisa.nc_matmul(nl.ndarray((128, 128), nl.float32, buffer=nl.psum), weights[which], tile)

    return kernel


def tile_loads(*order: int, rewrite_before: int = -1, **options: Any) -> list[bool]:
    """Before which matmuls a tile is loaded into the array."""
    found = timed(products(*order, rewrite_before=rewrite_before), (len(order), 128, 128), dtype=nl.bfloat16, **options)
    return (found.timing.setup[found.rows("nc_matmul")] > 0).tolist()


def test_a_tile_that_the_array_holds_is_not_loaded_again() -> None:
    assert tile_loads(0, 0, 1, 1, 0) == [True, False, True, False, True]


def test_a_rewritten_tile_is_loaded_again() -> None:
    assert tile_loads(0, 0, 0, rewrite_before=2) == [True, False, True]


def test_without_reuse_every_tile_is_loaded() -> None:
    assert tile_loads(0, 0, 0, stationary_reuse=False) == [True, True, True]


def test_a_load_hides_behind_the_matmul_before() -> None:
    def kernel() -> None:
        a, b = (nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf) for _ in range(2))
        nisa.memset(a, 0.0)
        nisa.memset(b, 0.0)
        for i in range(4):
            nisa.nc_matmul(nl.ndarray((128, 512), nl.float32, buffer=nl.psum), a[:, 128 * i : 128 * (i + 1)], b)

    found = timed(kernel, power_ramp=False)
    assert (found.timing.setup[found.rows("nc_matmul")] > 0).tolist() == [True, False, False, False]


# -- power -------------------------------------------------------------------------------------------------------------


def test_the_first_work_runs_at_half_rate_and_later_work_at_full_rate() -> None:
    ramp = PowerRamp(V3)
    assert ramp.stretched(0, 100_000) == 200_000
    for i in range(40):
        ramp.stretched(200_000 + 100_000 * i, 100_000)
    assert ramp.stretched(10**7, 0) == 0
    warm = PowerRamp(V3)
    time = 0
    for _ in range(60):
        time += warm.stretched(time, 100_000)
    assert warm.stretched(time, 100_000) == 100_000


def test_use_above_one_half_warms_up_and_use_below_does_not() -> None:
    for busy, idle, full in ((70_000, 30_000, True), (30_000, 70_000, False)):
        ramp, time = PowerRamp(V3), 0
        for _ in range(400):
            time += ramp.stretched(time, busy) + idle
        assert (ramp.stretched(time, busy) == busy) is full


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), min_size=1))
def test_the_ramp_costs_at_most_as_much_as_the_work(steps: list[tuple[int, int]]) -> None:
    ramp, time = PowerRamp(V3), 0
    for idle, work in steps:
        time += idle
        duration = ramp.stretched(time, work)
        assert work <= duration <= 2 * work
        time += duration


def test_trn1_has_no_ramp() -> None:
    assert V2.power_ramp_ns == 0
    found = timed(products(0, 0), (2, 128, 128), target="trn1", dtype=nl.bfloat16)
    rows = found.rows("nc_matmul")
    assert (found.timing.duration[rows] == found.timing.busy[rows]).all()


# -- memories that exclude ---------------------------------------------------------------------------------------------


def beside(first: str, second: str, space: Any) -> Any:
    """A kernel in which two engines work on tiles of their own at the same time."""

    def kernel() -> None:
        for engine in (first, second):
            tile = nl.ndarray((128, 256), nl.float32, buffer=space)
            for _ in range(6):
                if engine == "scalar":
                    nisa.activation(nl.ndarray((128, 256), nl.float32, buffer=nl.sbuf), nl.copy, tile)
                else:
                    nisa.memset(tile, 0.0, engine=getattr(nisa.engine, engine))

    return kernel


def clash(kernel: Any, target: str, **options: Any) -> tuple[bool, set[str]]:
    """Whether the port options cost time, and what the waits are called."""
    free, found = (timed(kernel, target=target, port_conflicts=on, **options) for on in (False, True))
    assert found.timing.makespan >= free.timing.makespan
    reasons = {found.stall(row) for row in range(len(found.program))} & {"port conflict", "psum bank"}
    return found.timing.makespan > free.timing.makespan, reasons


def test_vector_and_gpsimd_take_turns_on_sbuf_on_trn1() -> None:
    kernel = beside("vector", "gpsimd", nl.sbuf)
    assert clash(kernel, "trn1") == (True, {"port conflict"})
    assert clash(kernel, "trn2") == (False, set())


def test_vector_and_scalar_take_turns_on_psum_on_trn1() -> None:
    assert clash(beside("vector", "scalar", nl.psum), "trn1") == (True, {"port conflict"})
    assert clash(beside("vector", "scalar", nl.sbuf), "trn1") == (False, set())


@pytest.mark.parametrize("banks", [1, 2])
def test_vector_and_scalar_meet_in_one_psum_bank_on_trn2(banks: int) -> None:
    def kernel() -> None:
        tile = nl.ndarray((128, 512 * banks), nl.float32, buffer=nl.psum)
        half = 256 * banks
        for _ in range(6):
            nisa.memset(tile[:, 0:256], 0.0)
            out = nl.ndarray((128, 256), nl.float32, buffer=nl.sbuf)
            nisa.activation(out, nl.copy, tile[:, half : half + 256])

    assert clash(kernel, "trn2") == ((True, {"psum bank"}) if banks == 1 else (False, set()))
    assert clash(kernel, "trn1") == (True, {"port conflict"})


def test_engines_that_share_a_memory_never_hold_it_together() -> None:
    found = timed(beside("vector", "gpsimd", nl.sbuf), target="trn1")
    rows = sorted(range(len(found.program)), key=lambda row: int(found.timing.start[row]))
    apart = np.array([cost.apart for cost in costs_of(found.program)])[found.program.variant_column()]
    ends = found.timing.start + found.timing.duration - apart
    assert all(ends[a] <= found.timing.start[b] for a, b in pairwise(rows))


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_one_engine_alone_waits_for_no_lock(target: str) -> None:
    kernel = beside("vector", "vector", nl.sbuf)
    assert clash(kernel, target) == (False, set())
