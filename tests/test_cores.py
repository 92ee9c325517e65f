"""Kernels whose two cores synchronize, against what NumPy makes of both at once: exchanges, barriers, deadlocks, times."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.kernel_runtime.ir import verify
from nki_lab.kernel_runtime.numerics.replay import Replay
from nki_lab.kernel_runtime.tensor import whole
from nki_lab.testing import assert_close
from tests.scale import scaled
from tests.two_cores import MOVES, ONES, Move, kernel_of, reference, refused, specialised, timed
from tests.verdicts import kernel_file, loaded

TARGETS = ("trn2", "trn3")


# -- whole kernels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("memory", ["virtual", "physical"])
def test_a_product_that_splits_its_depth_over_the_cores(target: str, memory: str) -> None:
    kernel = loaded(kernel_file("cores_matmul")).kernel
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((256, 128), (256, 64)))
    run = nki_lab.run(kernel[2], a, b, target=target, options=nki_lab.Options(memory=memory))
    assert_close(run.output, a.astype(np.float64).T @ b)
    assert not run.diagnostics


@pytest.mark.parametrize("target", TARGETS)
def test_a_softmax_whose_rows_are_split_over_the_cores(target: str) -> None:
    kernel = loaded(kernel_file("cores_softmax")).kernel
    x = np.random.default_rng(2).normal(size=(128, 256)).astype(np.float32)
    run = nki_lab.run(kernel[2], x, target=target)
    power = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    assert_close(run.output, power / power.sum(axis=1, keepdims=True))
    assert not run.diagnostics


# -- drawn kernels -----------------------------------------------------------------------------------------------------


@settings(max_examples=scaled(30), deadline=None)
@given(st.lists(MOVES, max_size=10), st.sampled_from(("virtual", "physical")), st.sampled_from(((4, 5), (128, 96))))
def test_drawn_kernels_give_what_both_cores_at_once_give(
    moves: list[Move], memory: str, shape: tuple[int, int]
) -> None:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    kernel = kernel_of(moves, nl.float32)[2]
    run = nki_lab.run(kernel, x, target="trn2", options=nki_lab.Options(memory=memory))
    np.testing.assert_array_equal(run.output, reference(moves, x))
    np.testing.assert_array_equal(kernel(x + 1), reference(moves, x + 1))
    np.testing.assert_array_equal(kernel(x), reference(moves, x))
    assert not [item for item in run.diagnostics if item.code.startswith("NKI3")]
    program = run.program
    for op in program.ops():
        dst, src = op.operand("dst"), op.operand("src")
        if dst is not None and src is not None and dst.buffer is program.outputs[0]._buffer:
            shown = run.values.at(len(program), src.buffer)
            assert shown is not None
            assert np.array_equal(shown.ravel(), np.ravel(run.output)[dst.offset : dst.offset + shown.size])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3", "int32", "uint8", "bool_"])
@pytest.mark.parametrize("wide", [False, True], ids=["as it is", "seen as bytes"])
def test_an_exchange_keeps_every_bit(dtype: str, wide: bool) -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        mine, other = nl.ndarray(x.shape[1:], x.dtype), nl.ndarray(x.shape[1:], x.dtype)
        nisa.dma_copy(dst=mine, src=x[me])
        nisa.sendrecv(mine, other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=7,
                      dma_engine=nisa.dma_engine.gpsimd_dma)  # fmt: skip
        if wide and me == 0:
            nisa.tensor_copy(dst=other.view(nl.uint8), src=other.view(nl.uint8))
        nisa.dma_copy(dst=out[me], src=other)
        return out

    host: Any = np.dtype(bool if dtype == "bool_" else getattr(ml_dtypes, dtype, dtype) if "float" in dtype else dtype)
    x = np.random.default_rng(3).integers(0, 2 if dtype == "bool_" else 100, size=(2, 8, 16)).astype(host)
    run = nki_lab.run(kernel[2], x, target="trn2")
    assert np.array_equal(np.asarray(run.output), x[::-1])


def test_a_tile_can_be_exchanged_in_place_and_with_the_core_itself() -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        tile, twin = nl.load(x), nl.ndarray(x.shape, x.dtype)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(me))
        nisa.sendrecv(tile, tile, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        nisa.sendrecv(tile, twin, send_to_rank=me, recv_from_rank=me, pipe_id=0)
        nisa.dma_copy(dst=out[me], src=twin)
        return out

    run = nki_lab.run(kernel[2], ONES, target="trn2")
    assert [np.unique(part).tolist() for part in run.output] == [[2.0], [1.0]]


def test_an_exchange_in_place_is_replayed_from_either_side_of_it() -> None:
    kernel = kernel_of([Move("exchange", 1, 1, 0), Move("add", 0, 1, 0)], nl.float32)
    program, _ = specialised(kernel, (4, 5))
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    replay = Replay(program, {program.inputs[0].id: x}, None, interval=1, limit=1 << 20)
    ((near, far),) = program.synchronizations
    for op, other in ((far, near), (near, far), (far, near)):
        tile = program.op(op).operand("dst")
        assert tile is not None
        sent = x + 10 * program.core_of(other) + 1
        assert np.array_equal(replay.after(op, whole(tile.buffer), op + 1), sent)


# -- groups ------------------------------------------------------------------------------------------------------------


def swapped(first: int, second: int, *, depends: bool = False) -> Any:
    """Two exchanges, which core 1 makes in the other order of pipes; with `depends` the second sends what came."""

    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray((2, 2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        src = nl.load(x)
        nisa.tensor_scalar(dst=src, data=src, op0=nl.add, operand0=float(me))
        got = [nl.ndarray(x.shape, x.dtype) for _ in range(2)]
        pipes = (first, second) if me == 0 else (second, first)
        for place, pipe in enumerate(pipes):
            sent = got[0] if depends and place else src
            nisa.sendrecv(sent, got[place], send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=pipe)
        for place in range(2):
            nisa.dma_copy(dst=out[me, place], src=got[place])
        return out

    return kernel


def test_groups_do_not_wait_for_each_other() -> None:
    run = nki_lab.run(swapped(0, 1)[2], ONES, target="trn2")
    assert [np.unique(part).tolist() for part in run.output] == [[2.0], [1.0]]
    timed(run.program)


def test_groups_wait_where_one_sends_what_the_other_brings() -> None:
    found = refused(swapped(0, 1, depends=True), ONES)
    assert found.code == "NKI405"
    assert "pipe 0" in found.message
    assert "pipe 1" in found.message


def test_calls_of_one_group_meet_in_their_order() -> None:
    run = nki_lab.run(swapped(4, 4)[2], ONES, target="trn2")
    assert [pair[0] + 1 for pair in run.program.synchronizations] == [pair[1] for pair in run.program.synchronizations]
    assert len(run.program.synchronizations) == 2


# -- memory ------------------------------------------------------------------------------------------------------------


def test_what_the_other_core_may_not_have_written_yet_is_a_race_and_no_uninitialised_read() -> None:
    def kernel_of(order: str) -> Any:
        @nki.jit
        def kernel(x):
            me = nl.program_id(0)
            board = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
            out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
            tile = nl.load(x)
            if order == "written":
                nisa.dma_copy(dst=board[me], src=tile)
            nisa.core_barrier(board, (0, 1))
            if order == "late":
                nisa.dma_copy(dst=board[me], src=tile)
            other = nl.ndarray(x.shape, x.dtype)
            nisa.dma_copy(dst=other, src=board[1 - me])
            nisa.dma_copy(dst=out[me], src=other)
            return out

        return kernel

    assert not nki_lab.run(kernel_of("written")[2], ONES, target="trn2").diagnostics
    late = nki_lab.run(kernel_of("late")[2], ONES, target="trn2")
    assert [item.code for item in late.diagnostics] == ["NKI407"]


def test_grouped_products_and_elided_loads_stay_right_around_a_meeting() -> None:
    @nki.jit
    def kernel(a, b):
        me = nl.program_id(0)
        out = nl.ndarray((2, 256, 512), nl.float32, buffer=nl.shared_hbm)
        left = [nl.load(a[:, i * 128 : (i + 1) * 128]) for i in range(2)]
        right = nl.load(b)
        sums = []
        for i in range(2):
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=acc, stationary=left[i], moving=right)
            tile, other = nl.ndarray((128, 512), nl.float32), nl.ndarray((128, 512), nl.float32)
            nisa.tensor_scalar(dst=tile, data=acc, op0=nl.multiply, operand0=float(1 + me))
            nisa.sendrecv(tile, other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=i)
            sums.append(other)
        for i in range(2):
            nisa.dma_copy(dst=out[me, i * 128 : (i + 1) * 128], src=sums[i])
        return out

    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((128, 256), (128, 512)))
    run = nki_lab.run(kernel[2], a, b, target="trn2")
    product = a.astype(np.float64).T @ b
    assert_close(run.output, np.stack((2 * product, product)))


def test_cores_may_meet_between_device_loops_and_blocks_without_reordering() -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        tile, other = nl.load(x), nl.ndarray(x.shape, x.dtype)
        for _ in nl.dynamic_range(2 + me):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        with nl.no_reorder():
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
            nisa.sendrecv(tile, other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
            nisa.tensor_scalar(dst=other, data=other, op0=nl.add, operand0=0.5)
        for _ in nl.dynamic_range(3):
            nisa.tensor_scalar(dst=other, data=other, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[me], src=other)
        return out

    run = nki_lab.run(kernel[2], ONES, target="trn2")
    assert [np.unique(part).tolist() for part in run.output] == [[11.5], [9.5]]
    verify(run.program)
    assert {item.code for item in run.diagnostics} == {"NKI601"}  # dynamic_range has another name now
    assert run.recording is not None
