"""Device loops in which two cores wait for each other: both go round together, with registers of their own."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki_lab
from nki_lab.cli.program import as_data
from nki_lab.kernel_runtime.ir import verify
from tests.two_cores import MOVES, ONES, TILES, Move, make, reference, refused, specialised, timed

KINDS = ("constants", "register", "while", "nested", "python around")


def loop_of(moves: list[Move], kind: str, *, alone: bool = False) -> Any:
    """A kernel that makes all moves as often as its second argument says, in a device loop of some kind; `alone` adds a
    loop of core 1 alone.
    """

    @nki.jit
    def kernel(x, times, trips):
        me = nl.program_id(0)
        rows, columns = x.shape
        out = nl.ndarray((2, TILES, rows, columns), x.dtype, buffer=nl.shared_hbm)
        board = nl.ndarray((2, rows, columns), x.dtype, buffer=nl.shared_hbm)
        count = nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(dst=count, src=times)
        tiles = []
        for number in range(TILES):
            tile = nl.ndarray((rows, columns), x.dtype)
            nisa.dma_copy(dst=tile, src=x)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(10 * me + number))
            tiles.append(tile)

        def body():
            make(moves, tiles, board, me)
            if alone and me == 1:
                for _ in nl.dynamic_range(2):
                    nisa.tensor_scalar(dst=tiles[0], data=tiles[0], op0=nl.add, operand0=0.0)

        if kind == "constants":
            for _ in nl.dynamic_range(trips):
                body()
        elif kind in ("register", "nested"):
            register = nisa.register_alloc()
            nisa.register_load(register, count)
            for _ in nl.dynamic_range(0, register):
                if kind == "nested":
                    for _ in nl.dynamic_range(1):
                        body()
                else:
                    body()
        elif kind == "while":
            register = nisa.register_alloc()
            nisa.register_load(register, count)
            while register:
                body()
                nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
                nisa.register_load(register, count)
        else:
            for _ in range(trips):
                for _ in nl.dynamic_range(1):
                    body()
        for number in range(TILES):
            nisa.dma_copy(dst=out[me, number], src=tiles[number])
        return out

    return kernel


@given(st.lists(MOVES, min_size=1, max_size=5), st.integers(0, 3), st.sampled_from(KINDS), st.booleans())
def test_moves_in_a_device_loop_are_the_moves_as_often(moves: list[Move], trips: int, kind: str, alone: bool) -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5) / 16
    times = np.array([[trips]], np.int32)
    run = nki_lab.run(loop_of(moves, kind, alone=alone)[2], x, times, trips, target="trn2")
    wanted = reference(moves * trips, x)
    np.testing.assert_array_equal(run.output, wanted)
    assert not {item.code for item in run.diagnostics} & {"NKI302", "NKI407", "NKI408", "NKI409"}
    assert not [item for item in run.diagnostics if item.severity == "error"]
    assert run._timeline is not None
    executed = run._timeline.program
    timed(executed)
    meetings = sum(2 if move.kind == "publish" else move.kind == "exchange" for move in moves)
    assert len(executed.synchronizations) == trips * meetings
    end = run.values.at(len(run.recording), run.program.outputs[0])
    np.testing.assert_array_equal(end, wanted)
    again = nki_lab.run(loop_of(moves, "python around" if kind == "constants" else kind, alone=alone)[2], x, times, trips,
                        target="trn2", matmul_order="tile")  # fmt: skip
    np.testing.assert_array_equal(again.output, wanted)
    np.testing.assert_array_equal(again.values.at(len(again.recording), again.program.outputs[0]), wanted)


def test_a_program_holds_such_a_loop_once() -> None:
    program, _ = specialised_loop("register")
    (loop,) = program.regions
    assert loop.twin is not None
    assert loop.sides == (loop, loop.twin)
    assert loop.register != loop.twin.register
    assert (loop.twin.first, loop.twin.end) == (loop.first, loop.end)
    assert {program.core_of(op) for op in range(loop.first, loop.end)} == {0, 1}
    verify(program)
    assert (
        f"for r{loop.register} in 0 to r0 step 1, core 1: for r{loop.twin.register} in 0 to r2 step 1:"
        in program.text()
    )
    (said,) = as_data(program)["loops"]
    assert said["other_core"] == {"register": f"r{loop.twin.register}", "lower": 0, "upper": "r2", "step": 1}


def specialised_loop(kind: str) -> Any:
    kernel = loop_of([Move("exchange", 0, 1, 0), Move("add", 0, 1, 0)], kind)

    @nki.jit
    def fixed(x, times):
        return kernel.function(x, times, 3)

    return specialised(fixed, (4, 5), (1, 1))


def test_loops_in_a_shared_loop_stay_in_it() -> None:
    program, _ = specialised_loop("nested")
    outer, inner = program.regions
    assert (outer.parent, inner.parent) == (-1, outer.id)
    assert outer.first <= inner.first <= inner.end <= outer.end
    assert inner.twin is not None
    assert inner.twin.parent == outer.id


def test_each_core_has_the_numbers_of_its_own_loop() -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray((2, 4, 128, 64), x.dtype, buffer=nl.shared_hbm)
        tile, other = nl.load(x), nl.ndarray(x.shape, x.dtype)
        for i in nl.dynamic_range(me, 3 + me):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(1 + me))
            nisa.sendrecv(tile, other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
            nisa.dma_copy(dst=out[me, nl.ds(i, 1)], src=other)
        return out

    run = nki_lab.run(kernel[2], ONES, target="trn2")
    got = run.output[:, :, 0, 0]
    np.testing.assert_array_equal(got[0, :3], [3, 5, 7])  # what core 1 sends: ones, and 2 more each time
    np.testing.assert_array_equal(got[1, 1:], [2, 3, 4])
    assert run._timeline is not None
    timed(run._timeline.program)


@pytest.mark.parametrize("wrong", ["times", "one core", "fewer", "while", "kinds"])
def test_cores_that_do_not_go_round_together_are_a_deadlock(wrong: str) -> None:
    @nki.jit
    def kernel(x, times):
        me = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        count = nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(dst=count, src=times)
        nisa.dma_copy(dst=out, src=nl.load(x))
        if wrong == "times":
            for _ in nl.dynamic_range(2 + me):
                nisa.core_barrier(out, (0, 1))
        elif wrong == "one core":
            if me:
                for _ in nl.dynamic_range(3):
                    nisa.core_barrier(out, (0, 1))
        elif wrong == "fewer":
            for _ in nl.dynamic_range(3):
                nisa.core_barrier(out, (0, 1))
                if me:
                    nisa.core_barrier(out, (0, 1))
        else:
            nisa.tensor_scalar(dst=count, data=count, op0=nl.add, operand0=me)
            register = nisa.register_alloc()
            nisa.register_load(register, count)
            if wrong == "kinds" and me:
                for _ in nl.dynamic_range(0, register):
                    nisa.core_barrier(out, (0, 1))
            else:
                while register:
                    nisa.core_barrier(out, (0, 1))
                    nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
                    nisa.register_load(register, count)
        return out

    found = refused(kernel, ONES, np.array([[2]], np.int32))
    assert found.code == "NKI405"
    assert found.span is not None
    words = {
        "times": "core 0 2 times and core 1 3 times",
        "one core": "core 1 has come to the device loop of line",
        "fewer": "core 0 has come to the end of the loop",
        "while": "core 0 ends after 2 iterations and core 1 goes on after 2 iterations",
        "kinds": "core 0 has come to the device loop of line",
    }
    assert words[wrong] in found.message


def test_what_the_other_core_has_yet_to_write_in_a_loop_is_a_race() -> None:
    def kernel_of(*, late: bool) -> Any:
        @nki.jit
        def kernel(x):
            me = nl.program_id(0)
            board = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
            out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
            tile, other = nl.load(x), nl.ndarray(x.shape, x.dtype)
            for _ in nl.dynamic_range(3):
                nisa.dma_copy(dst=board[me], src=tile)
                nisa.core_barrier(board, (0, 1))
                nisa.dma_copy(dst=other, src=board[1 - me])
                nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
                if not late:
                    nisa.core_barrier(board, (0, 1))
            nisa.dma_copy(dst=out[me], src=tile)
            return out

        return kernel

    right = nki_lab.run(kernel_of(late=False)[2], ONES, target="trn2")
    assert {item.code for item in right.diagnostics} <= {"NKI601"}
    assert np.unique(right.output).tolist() == [8.0]
    assert "NKI407" in {item.code for item in nki_lab.run(kernel_of(late=True)[2], ONES, target="trn2").diagnostics}
