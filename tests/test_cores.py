"""Kernels whose two cores meet, against what NumPy makes of both at once: exchanges, barriers, deadlocks, times."""

from __future__ import annotations

from dataclasses import dataclass
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
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.ir import Program, verify
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.schedule import verify as verify_schedule
from nki_lab.kernel_runtime.timing import STALL_REASONS, Timing, walk
from nki_lab.testing import assert_close
from tests.verdicts import kernel_file, loaded

TARGETS = ("trn2", "trn3")
ONES = np.ones((128, 64), np.float32)


def timed(program: Program) -> Timing:
    """The times of a program, whose columns and queues hold together."""
    verify(program)
    allocation = allocate(program)
    queues = schedule(program, allocation)
    verify_schedule(queues)
    return walk(program, queues, None, allocation)


def ops(program: Program, name: str) -> list[int]:
    return [op.index for op in program.ops() if op.variant.instruction.name == name]


def refused(kernel: Any, *args: Any) -> Any:
    with pytest.raises(NkiError) as caught:
        nki_lab.run(kernel[2], *args, target="trn2")
    return caught.value.diagnostics[0]


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


@dataclass(frozen=True)
class Move:
    """What both cores do next: `kind` on tiles `a` and `b`, `number` being a pipe, a factor, or the core that does."""

    kind: str
    a: int
    b: int
    number: int


TILES = 3
MOVES = st.builds(
    Move, st.sampled_from(("exchange", "exchange", "add", "scale", "publish", "alone")),
    st.integers(0, TILES - 1), st.integers(0, TILES - 1), st.integers(0, 1),
)  # fmt: skip


def kernel_of(moves: list[Move], dtype: Any) -> Any:
    """A kernel in which each core has tiles, that starts with x + core + tile and ends with all tiles in HBM."""

    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        rows, columns = x.shape
        out = nl.ndarray((2, TILES, rows, columns), dtype, buffer=nl.shared_hbm)
        board = nl.ndarray((2, rows, columns), dtype, buffer=nl.shared_hbm)
        tiles = []
        for number in range(TILES):
            tile = nl.ndarray((rows, columns), dtype)
            nisa.dma_copy(dst=tile, src=x)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(10 * me + number))
            tiles.append(tile)
        for move in moves:
            a, b = tiles[move.a], tiles[move.b]
            if move.kind == "exchange":
                nisa.sendrecv(a, b, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=move.number)
            elif move.kind == "add":
                nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
            elif move.kind == "scale":
                nisa.tensor_scalar(dst=a, data=b, op0=nl.multiply, operand0=float(move.number) - 0.5)
            elif move.kind == "alone" and me == move.number:
                nisa.tensor_scalar(dst=a, data=b, op0=nl.add, operand0=3.0)
            elif move.kind == "publish":
                nisa.dma_copy(dst=board[me], src=a)
                nisa.core_barrier(board, (0, 1))
                nisa.dma_copy(dst=b, src=board[1 - move.number])
                nisa.core_barrier(board, [0, 1])
        for number in range(TILES):
            nisa.dma_copy(dst=out[me, number], src=tiles[number])
        return out

    return kernel


def reference(moves: list[Move], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    tiles = x + 10 * np.arange(2)[:, None, None, None] + np.arange(TILES)[None, :, None, None]
    tiles = tiles.astype(x.dtype)
    half = x.dtype.type
    for move in moves:
        a, b = tiles[:, move.a].copy(), tiles[:, move.b].copy()
        if move.kind == "exchange":
            tiles[:, move.b] = a[::-1]
        elif move.kind == "add":
            tiles[:, move.a] = a + b
        elif move.kind == "scale":
            tiles[:, move.a] = b * half(move.number - 0.5)
        elif move.kind == "alone":
            tiles[move.number, move.a] = b[move.number] + half(3)
        else:
            tiles[:, move.b] = a[1 - move.number]
    return tiles


@settings(max_examples=30, deadline=None)
@given(st.lists(MOVES, max_size=10), st.sampled_from(("virtual", "physical")))
def test_drawn_kernels_give_what_both_cores_at_once_give(moves: list[Move], memory: str) -> None:
    x = np.arange(4 * 5, dtype=np.float32).reshape(4, 5)
    run = nki_lab.run(kernel_of(moves, nl.float32)[2], x, target="trn2", options=nki_lab.Options(memory=memory))
    np.testing.assert_array_equal(run.output, reference(moves, x))
    assert not [item for item in run.diagnostics if item.code.startswith("NKI3")]
    program = run.program
    end = len(program)
    for buffer, op in {v.buffer: op for op in program.ops() for v in op.views if v.buffer.on_chip}.items():
        last = [row for row in program.ops() if any(v.buffer is buffer for v in row.views)][-1]
        if last.variant.instruction.name == "dma_copy" and last.index == op.index:
            shown = run.values.at(end, buffer)
            stored = last.operand("dst")
            if shown is not None and stored is not None and not stored.buffer.on_chip:
                part = np.ravel(run.output)[stored.offset : stored.offset + 20].reshape(4, 5)
                np.testing.assert_array_equal(shown, part)


@settings(max_examples=30, deadline=None)
@given(st.lists(MOVES, max_size=10))
def test_both_sides_of_a_meeting_wait_for_all_that_is_before_either(moves: list[Move]) -> None:
    program, _ = specialised(kernel_of(moves, nl.float32), (4, 5))
    timing = timed(program)
    queues = schedule(program, allocate(program))
    for pair in program.meetings:
        known = {pred for op in pair for pred, kind in queues.waits(op) if kind != "core"}
        for op in pair:
            assert all(timing.ready[pred] <= timing.start[op] for pred in known)
        assert program.core_of(pair[0]) != program.core_of(pair[1])
    for op in range(len(program)):
        assert all(timing.ready[pred] <= timing.start[op] for pred, _ in queues.waits(op))


def specialised(kernel: Any, *shapes: tuple[int, ...]) -> Any:
    from nki_lab import session

    specs = tuple(nki_lab.spec(shape, "float32") for shape in shapes)
    return session.specialise(kernel.function, specs, target="trn2", grid=(2,))


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
    assert [pair[0] + 1 for pair in run.program.meetings] == [pair[1] for pair in run.program.meetings]
    assert len(run.program.meetings) == 2


# -- what does not meet ------------------------------------------------------------------------------------------------


def test_a_barrier_of_one_core_only_is_a_deadlock_that_names_the_line() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(dst=out, src=nl.load(x))
        return out

    found = refused(kernel, ONES)
    line = kernel.function.__code__.co_firstlineno
    assert found.code == "NKI405"
    assert found.span.line == line + 4
    assert f"core 0 waits in core_barrier, line {line + 4}" in found.message
    assert f"core 1 has come to its end, after line {line + 5}" in found.message


def test_different_orders_are_a_deadlock_that_names_both_lines() -> None:
    found = refused(loaded(kernel_file("fault_cores_order")).kernel, ONES)
    assert found.code == "NKI405"
    assert "core 0 waits in sendrecv of pipe 0, line 21" in found.message
    assert "core 1 waits in core_barrier, line 25" in found.message
    assert [item.span.line for item in found.related] == [25]


@pytest.mark.parametrize("wrong", ["tensor", "private", "ranks", "shape", "dtype", "loop"])
def test_what_the_two_sides_say_must_agree(wrong: str) -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        second = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        kind = nl.bfloat16 if wrong == "dtype" and me else nl.float32
        size = (128, 2, 32) if wrong == "shape" and me else (128, 64)
        tile, other = nl.ndarray(size, kind), nl.ndarray(size, kind)
        nisa.memset(dst=tile, value=0.0)
        nisa.dma_copy(dst=out, src=nl.load(x))
        if wrong == "tensor":
            nisa.core_barrier(second if me else out, (0, 1))
        elif wrong == "private":
            nisa.core_barrier(nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm), (0, 1))
        elif wrong == "ranks":
            nisa.sendrecv(tile, other, send_to_rank=1, recv_from_rank=1, pipe_id=0)
        elif wrong == "loop":
            for _ in nl.dynamic_range(3):
                nisa.core_barrier(out, (0, 1))
        else:
            nisa.sendrecv(tile, other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        return out

    assert refused(kernel, ONES).code == "NKI405"


def test_one_core_cannot_wait_for_another() -> None:
    kernel = loaded(kernel_file("fault_cores_alone")).kernel
    for launched in (kernel, kernel[1]):
        with pytest.raises(NkiError, match="NKI016") as caught:
            nki_lab.run(launched, ONES, target="trn2")
        assert "kernel[2]" in caught.value.diagnostics[0].help


def test_the_first_generation_does_not_have_them() -> None:
    for name, args in (("cores_softmax", 1), ("cores_matmul", 2)):
        module = loaded(kernel_file(name))
        inputs = [np.ones(item.shape, np.float32) for item in module.ARGUMENTS[:args]]
        with pytest.raises(NkiError, match="NKI209"):
            nki_lab.run(module.kernel, *inputs, target="trn1")


def test_barriers_that_order_nothing_are_warned_about() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.core_barrier(tile, (0, 1))
        nisa.core_barrier(out, (0,))
        nisa.dma_copy(dst=out, src=tile)
        return out

    run = nki_lab.run(kernel[2], ONES, target="trn2")
    line = kernel.function.__code__.co_firstlineno
    assert {(item.code, item.span.line) for item in run.diagnostics} == {("NKI406", line + 4), ("NKI406", line + 5)}
    assert len(run.program.meetings) == 1
    assert (run.output == 1).all()


def test_values_are_not_shown_between_meetings() -> None:
    def kernel_that_looks(early: bool) -> Any:
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            tile = nl.load(x)
            if early and nl.program_id(0) == 0:
                assert (tile.numpy() == 1).all()
            nisa.dma_copy(dst=out, src=tile)
            nisa.core_barrier(out, (0, 1))
            if not early:
                tile.numpy()
            return out

        return kernel

    assert refused(kernel_that_looks(early=False), ONES).code == "NKI017"
    assert (nki_lab.run(kernel_that_looks(early=True)[2], ONES, target="trn2").output == 1).all()


# -- memory ------------------------------------------------------------------------------------------------------------


def test_what_the_other_core_has_not_written_yet_is_uninitialised() -> None:
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
    assert [item.code for item in late.diagnostics][:1] in (["NKI301"], ["NKI302"])


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


# -- order and time ----------------------------------------------------------------------------------------------------


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
    assert program.meetings[0] == (first, second)
    busy = max(timing.ready[op] for op in ops(program, "activation"))
    assert {program.core_of(first), program.core_of(second)} == {0, 1}
    first = min(first, second, key=program.core_of)
    assert timing.start[first] >= busy
    assert timing.start[second] >= busy
    assert STALL_REASONS[timing.stall[first]] == "other core"
    reasons = {STALL_REASONS[reason] for lane in timing.lanes if lane.core == 0 for reason in lane.stalls}
    assert "other core" in reasons
    assert timing.makespan == timing.ready.max()


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
