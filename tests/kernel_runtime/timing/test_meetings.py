"""Exchanges and barriers in time: both cores wait for the slower one, and only where they meet."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.timing import STALL_REASONS
from nki_lab.kernel_runtime.timing.costs import costs_of
from nki_lab.kernel_runtime.timing.locks import reused_tiles
from tests.scale import scaled
from tests.two_cores import MOVES, ONES, Move, kernel_of, ops, specialised, timed
from tests.verdicts import kernel_file, loaded


@settings(max_examples=scaled(30), deadline=None)
@given(st.lists(MOVES, max_size=10))
def test_both_sides_of_a_meeting_wait_for_all_that_is_before_either(moves: list[Move]) -> None:
    program, _ = specialised(kernel_of(moves, nl.float32), (4, 5))
    timing = timed(program)
    queues = schedule(program, allocate(program))
    for pair in program.synchronizations:
        known = {pred for op in pair for pred, kind in queues.waits(op) if kind != "core"}
        for op in pair:
            assert all(timing.ready[pred] <= timing.start[op] for pred in known)
        assert program.core_of(pair[0]) != program.core_of(pair[1])
    for op in range(len(program)):
        assert all(timing.ready[pred] <= timing.start[op] for pred, _ in queues.waits(op))


def uneven(kind: str) -> Any:
    """Core 1 works long before it meets core 0."""

    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        tile, other = nl.load(x), nl.ndarray(x.shape, x.dtype)
        for _ in range(40 * me):
            nisa.activation(dst=tile, op=nl.exp, data=tile)
        if kind == "sendrecv":
            nisa.sendrecv(tile, other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        else:
            nisa.dma_copy(dst=out[me], src=tile)
            nisa.core_barrier(out, (0, 1))
            nisa.dma_copy(dst=other, src=out[1 - me])
            nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(dst=out[me], src=other)
        return out

    return kernel


@pytest.mark.parametrize("kind", ["sendrecv", "core_barrier"])
def test_a_core_waits_for_the_slower_one(kind: str) -> None:
    program, _ = specialised(uneven(kind), (128, 512))
    timing = timed(program)
    first, second = ops(program, kind)[:2]
    assert program.synchronizations[0] == (first, second)
    busy = max(timing.ready[op] for op in ops(program, "activation"))
    assert {program.core_of(first), program.core_of(second)} == {0, 1}
    first = min(first, second, key=program.core_of)
    assert timing.start[first] >= busy
    assert timing.start[second] >= busy
    assert STALL_REASONS[timing.stall[first]] == "other core"
    reasons = {STALL_REASONS[reason] for lane in timing.lanes if lane.core == 0 for reason in lane.stalls}
    assert "other core" in reasons
    assert timing.makespan == timing.ready.max()


def test_cores_that_do_the_same_wait_for_the_same() -> None:
    program, _ = specialised(loaded(kernel_file("cores_softmax")).kernel, (128, 256))
    lanes = timed(program).lanes
    first, second = ([(lane.name, lane.ops, lane.stalls) for lane in lanes if lane.core == core] for core in (0, 1))
    assert first == second


def test_the_report_and_the_recording_name_the_wait() -> None:
    run = nki_lab.run(uneven("core_barrier")[2], np.zeros((128, 512), np.float32), target="trn2")
    assert {lane.core for lane in run.recording.lanes} == {0, 1}
    assert run.report
    text = run.program.text()
    assert text.count("core 0:") == text.count("core 1:") == 3
    assert "gpsimd.core_barrier" in text


def test_a_barrier_stops_its_engine_only() -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile, idle = nl.load(x), nl.ndarray(x.shape, x.dtype)
        for _ in range(40 * me):
            nisa.activation(dst=tile, op=nl.exp, data=tile)
        if me:
            nisa.dma_copy(dst=out, src=tile)
        nisa.core_barrier(out, (0, 1), engine=nisa.engine.sync)
        nisa.memset(dst=idle, value=0.0, engine=nisa.engine.vector)
        return out

    program, _ = specialised(kernel, (128, 512))
    timing = timed(program)
    barrier, memset = (min(ops(program, name), key=program.core_of) for name in ("core_barrier", "memset"))
    assert (program.core_of(barrier), program.core_of(memset)) == (0, 0)
    assert timing.start[memset] < timing.start[barrier]


def test_a_schedule_may_turn_instructions_around_a_meeting() -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        tile, other, idle = nl.load(x), nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
        nisa.memset(dst=idle, value=0.0, name="idle")
        nisa.sendrecv(tile, other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0, name="swap")
        nisa.tensor_scalar(dst=other, data=other, op0=nl.add, operand0=1.0, name="plus")
        nisa.dma_copy(dst=out[me], src=other)
        return out

    run = nki_lab.run(kernel.with_schedule([("idle", "plus")])[2], ONES, target="trn2")
    assert (run.output == 2).all()
    timing = timed(run.program)
    for plus, idle in zip(ops(run.program, "tensor_scalar"), ops(run.program, "memset"), strict=True):
        assert timing.start[plus] < timing.start[idle]
    circle = nki_lab.run(kernel.with_schedule([("swap", "plus")])[2], ONES, target="trn2")
    assert {item.code for item in circle.diagnostics} == {"NKI402", "NKI414"}  # idle is never read
    assert (circle.output == 2).all()


def test_barriers_of_the_tensor_engine_load_no_tile_and_leave_the_one_that_is_there() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, 128, 128), nl.float32, buffer=nl.shared_hbm)
        tiles = nl.load(x), nl.load(x)
        for which in (0, 0, 1):
            product = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, tiles[which], tiles[0])
            for _ in range(2):  # one after the other, so that two ops in a row load nothing
                nisa.core_barrier(out, (0, 1), engine=nisa.engine.tensor)
        nl.store(out[nl.program_id(0)], nl.copy(product))
        return out

    program, _ = specialised(kernel, (128, 128))
    queues = schedule(program, allocate(program))
    costs = costs_of(program)
    for lane, order in zip(queues.lanes, queues.order, strict=True):
        if lane.name == "tensor":
            held = reused_tiles(program, costs, order).tolist()
            assert held == [False, False, False, True, False, False, False, False, False]
    assert not timed(program).setup[ops(program, "core_barrier")].any()
