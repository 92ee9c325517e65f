"""Replaying a program: the values at any point are those of executing just that much of it."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.language.grid import GridBuilder
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.replay import Replay
from nki_lab.kernel_runtime.numerics.stepping import BLOCK
from nki_lab.kernel_runtime.tensor import whole
from nki_lab.kernel_runtime.tracer import trace
from tests.kernel_runtime.drawn_kernels import Drawn, drawn_kernels, nisa, nl, small, traced

PLENTY = 1 << 30


def prefix(program: Program, count: int) -> Program:
    """The program of the first `count` ops."""
    less = Program(program.name, program.arch, program.options, program.dialect)
    for name in ("variants", "views", "buffers", "sites", "inputs", "constants"):
        setattr(less, name, getattr(program, name))
    end = program.op_access[count] if count < len(program) else len(program.access_view)
    less.op_variant, less.op_access, less.op_site, less.op_iteration = (
        array(column.typecode, column[:count])
        for column in (program.op_variant, program.op_access, program.op_site, program.op_iteration)
    )
    less.access_view = array("I", program.access_view[:end])
    return less


def executed(program: Program, count: int, arrays: dict[int, Any], allocation: Allocation | None) -> Executor:
    """An executor that has executed the first `count` ops and nothing else."""
    executor = Executor(prefix(program, count), arrays, None, allocation)
    executor.run(final=False)
    return executor


def arguments(program: Program) -> dict[int, Any]:
    """Random values for the inputs."""
    rng = np.random.default_rng(5)
    return {buffer.id: rng.standard_normal(buffer.shape).astype(np.float32) for buffer in program.inputs}


def writers(program: Program, buffer: int) -> list[int]:
    """The ops that write to a buffer."""
    return [
        op.index
        for op in program.ops()
        for view, is_out in zip(op.views, op.variant.outs, strict=True)
        if is_out and view.buffer.id == buffer
    ]


def agree(program: Program, replay: Replay, op: int, buffer: int, allocation: Allocation | None) -> None:
    """The replay says of a buffer after an op what executing just that says."""
    tensor = whole(program.buffers[buffer])
    following = [other for other in range(op + 1, len(program)) if allocation is not None or other in
                 writers(program, buffer)]  # fmt: skip
    until = following[0] if following else len(program)
    wanted = executed(program, op + 1, arguments(program), allocation).read(tensor)
    found = replay.after(op, tensor, until)
    assert found.dtype == wanted.dtype
    assert found.tobytes() == wanted.tobytes()


# Placed tiles share memory with whatever else is written there: `until` of the next op of all is right for them.
@given(
    drawn_kernels(most_calls=12, placed=False),
    st.data(),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([PLENTY, 3 * BLOCK, 0]),
)
def test_values_after_any_op_are_those_of_the_ops_before_it(
    kernel: Drawn, data: Any, interval: int, limit: int
) -> None:
    program = traced(kernel)
    check(program, None, data, interval, limit)


@given(drawn_kernels(most_calls=12), st.data(), st.sampled_from([1, 3]), st.sampled_from([PLENTY, 3 * BLOCK]))
def test_so_they_are_in_physical_memory(kernel: Drawn, data: Any, interval: int, limit: int) -> None:
    program = traced(kernel, target=small(sbuf=2048))
    check(program, allocate(program), data, interval, limit)


def check(program: Program, allocation: Allocation | None, data: Any, interval: int, limit: int) -> None:
    """Ask for some buffers after some ops, in any order."""
    replay = Replay(program, arguments(program), allocation, interval=interval, limit=limit)
    if not len(program):
        return
    for _ in range(4):
        buffer = data.draw(st.sampled_from(range(len(program.buffers))))
        written = [-1, *writers(program, buffer)]
        if allocation is not None:
            written = list(range(-1, len(program)))
        agree(program, replay, data.draw(st.sampled_from(written)), buffer, allocation)
        assert replay.nbytes <= limit


def chain(x: Any) -> Any:
    """Many instructions on one tile, with short-lived tiles beside it."""
    tile = nl.load(x)
    out = nl.ndarray((64, *x.shape), nl.float32, buffer=nl.shared_hbm)
    for step in range(64):
        short = nl.ndarray(x.shape, nl.float32)
        nisa.tensor_scalar(dst=short, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=short, op=nl.add)
        nl.store(out[step], tile)
    return out


def replay_of(program: Program, interval: int = 16, limit: int = PLENTY) -> Replay:
    return Replay(program, arguments(program), None, interval=interval, limit=limit)


@pytest.fixture(scope="module")
def program() -> Program:
    return traced(chain, (128, 64))


def test_an_answer_costs_at_most_the_interval(program: Program) -> None:
    replay = replay_of(program)
    tile = whole(program.buffers[1])
    last = len(program) - 1
    places = writers(program, tile._buffer.id)
    replay.after(places[-1], tile, last + 1)
    assert replay.positions == list(range(16, places[-1] + 2, 16))
    rng = np.random.default_rng(0)
    for number in rng.permutation(len(places)).tolist():
        before = replay.executed
        until = places[number + 1] if number + 1 < len(places) else last + 1
        replay.after(places[number], tile, until)
        assert replay.executed - before <= 16


def test_what_was_just_executed_costs_nothing(program: Program) -> None:
    replay = replay_of(program)
    out, tile = whole(program.outputs[0]._buffer), whole(program.buffers[1])
    places = writers(program, tile._buffer.id)
    first = replay.after(places[5], tile, places[6])
    count = replay.executed
    stored = [op for op in writers(program, out._buffer.id) if op < places[5]]
    replay.after(stored[-1], out, places[5] + 1)
    again = replay.after(places[5], tile, places[6])
    assert replay.executed == count
    assert np.array_equal(first, again)
    again[...] = 0  # the answer is the caller's own
    assert np.array_equal(first, replay.after(places[5], tile, places[6]))


def test_states_share_what_did_not_change_and_stay_below_the_limit(program: Program) -> None:
    whole_out = program.outputs[0]._buffer.nbytes
    tile = whole(program.buffers[1])
    last = writers(program, tile._buffer.id)[-1]
    roomy, tight = replay_of(program, 4), replay_of(program, 4, limit=2 * whole_out)
    for replay in (roomy, tight):
        replay.after(last, tile, len(program))
    assert len(roomy.positions) == (last + 1) // 4
    # The output grows from state to state; most of it is the same in all of them.
    assert roomy.nbytes < len(roomy.positions) * (4 * BLOCK + 3 * 128 * 64 * 4) + whole_out
    assert tight.nbytes <= 2 * whole_out
    assert tight.interval > 4
    assert tight.positions == [place for place in range(4, last + 2, 4) if place % tight.interval == 0]
    assert np.array_equal(roomy.after(last, tile, len(program)), tight.after(last, tile, len(program)))


def test_dead_tiles_are_given_back(program: Program) -> None:
    replay = replay_of(program)
    replay.after(len(program) - 1, program.outputs[0], len(program))
    executor = replay._executor
    tiles = [number for number in executor._blocks if program.buffers[number].on_chip]
    assert len(tiles) < 48
    short = whole(program.buffers[3])
    (only,) = writers(program, short._buffer.id)
    wanted = executed(program, only + 1, arguments(program), None).read(short)
    assert np.array_equal(replay.after(only, short, len(program)), wanted)


def test_accumulators_of_engines_are_part_of_a_state() -> None:
    def kernel(x: Any) -> None:
        tile = nl.load(x)
        total = nl.ndarray((128, 1), nl.float32)
        power = nl.ndarray(x.shape, nl.float32)
        for step in range(6):
            first = step == 0
            command = nisa.reduce_cmd.reset_reduce if first else nisa.reduce_cmd.reduce
            nisa.activation(dst=power, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=total, reduce_cmd=command)

    program = traced(kernel, (128, 8))
    replay = replay_of(program, 2)
    total = next(buffer.id for buffer in program.buffers if buffer.shape == (128, 1))
    places = writers(program, total)
    for op in (places[-1], places[2], places[4], places[1]):
        until = next((place for place in places if place > op), len(program))
        wanted = executed(program, op + 1, arguments(program), None).read(whole(program.buffers[total]))
        assert np.array_equal(replay.after(op, whole(program.buffers[total]), until), wanted)


def test_inputs_that_the_program_writes_are_put_back() -> None:
    def kernel(x: Any) -> None:
        for _ in range(5):
            tile = nl.load(x)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
            nl.store(x, tile)

    program = traced(kernel, (128, 8))
    replay, start = replay_of(program, 3), arguments(program)[0]
    x = whole(program.inputs[0])
    places = [-1, *writers(program, 0)]
    for count in (5, 0, 3, 1, 4, 2):
        until = places[count + 1] if count < 5 else len(program)
        np.testing.assert_allclose(replay.after(places[count], x, until), start + count, rtol=1e-6)
    assert np.array_equal(arguments(program)[0], start)


def test_a_failed_answer_leaves_the_replay_as_good_as_before() -> None:
    def kernel(x: Any, i: Any) -> Any:
        tile = nl.load(x)
        index = nl.ndarray((128, 1), nl.int32)
        nisa.dma_copy(dst=index, src=i)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=tile, src=x.ap([[8, 128], [1, 8]], vector_offset=index))
        return tile

    program = traced(kernel, (128, 8), (128, 1))
    program.inputs[1].dtype = nl.int32 if False else program.inputs[1].dtype
    arrays = arguments(program)
    arrays[1] = np.full((128, 1), 1000, np.float32)
    replay = Replay(program, arrays, None, interval=2, limit=PLENTY)
    tile = next(buffer for buffer in program.buffers if buffer.on_chip)
    first, second, third = writers(program, tile.id)
    with pytest.raises(NkiError, match="NKI310"):
        replay.after(third, whole(tile), len(program))
    np.testing.assert_array_equal(replay.after(second, whole(tile), third), arrays[0] + 1)
    np.testing.assert_array_equal(replay.after(first, whole(tile), second), arrays[0])


def test_cores_are_replayed_one_after_the_other() -> None:
    program = Program("two", traced(chain, (128, 64)).arch, traced(chain, (128, 64)).options)
    builder = GridBuilder(program)
    x = builder.allocate((2, 128, 8), nl.float32, nl.shared_hbm, kind="input")
    program.inputs = [x._buffer]

    def kernel(x: Any) -> Any:
        core = nl.program_id(0)
        tile = nl.ndarray((128, 8), nl.float32, address=(0, 0))
        nisa.dma_copy(dst=tile, src=x[core])
        out = nl.ndarray((2, 128, 8), nl.float32, buffer=nl.shared_hbm)
        nl.store(out[core], tile)
        return out

    for core in (0, 1):
        builder.start((2,), (core,))
        trace(kernel, (x,), {}, builder)
    replay = Replay(program, arguments(program), None, interval=1, limit=PLENTY)
    (values,) = arguments(program).values()
    tiles = [buffer for buffer in program.buffers if buffer.on_chip]
    assert [tile.core for tile in tiles] == [0, 1]
    for _ in range(2):
        for tile in tiles:
            (op,) = writers(program, tile.id)
            np.testing.assert_array_equal(replay.after(op, whole(tile), len(program)), values[tile.core])
