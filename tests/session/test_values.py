"""`run.values`: what memory held at each step is what executing the program up to the last complete write leaves."""

from __future__ import annotations

import dataclasses
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki_lab
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.numerics import slab
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tensor import whole
from nki_lab.session import RunValues
from nki_lab.timeline.timeline import Timeline, timeline
from tests.kernel_runtime.drawn_kernels import Drawn, drawn_kernels, small, traced
from tests.tolerances import ulps

Array = np.ndarray[Any, Any]


def history(program: Program, arrays: dict[int, Array], allocation: Allocation | None) -> list[list[Array]]:
    """For 0, 1, ... executed ops the values of all buffers, by executing op after op and looking at everything; whatever
    the order of products in the run was, here they are computed tile by tile."""
    options = dataclasses.replace(program.options, matmul_order="tile")
    grown = Program(program.name, program.arch, options, program.dialect)
    for name in ("variants", "views", "buffers", "sites", "inputs", "constants"):
        setattr(grown, name, getattr(program, name))
    machine = Executor(grown, arrays, None, allocation)
    machine.run(final=False)
    out = [[machine.read(whole(buffer)) for buffer in program.buffers]]
    for op in range(len(program)):
        for name in ("op_variant", "op_access", "op_site", "op_iteration"):
            getattr(grown, name).append(getattr(program, name)[op])
        end = program.op_access[op + 1] if op + 1 < len(program) else len(program.access_view)
        grown.access_view.extend(array("I", program.access_view[program.op_access[op] : end]))
        machine.run(final=False)
        out.append([machine.read(whole(buffer)) for buffer in program.buffers])
    return out


def overlap(line: Timeline, a: int, b: int) -> bool:
    """Whether two buffers have bytes in common, counted from their boxes."""
    if a == b:
        return True
    boxes = []
    for number in (a, b):
        buffer = line.program.buffers[number]
        partition, byte = buffer.address or (-1, -1)
        if line.program.options.memory == "physical" and buffer.on_chip:
            partition, byte = int(line.allocation.partition[number]), int(line.allocation.byte[number])
        if partition < 0:
            return False
        rows, bytes_ = range(partition, partition + buffer.partitions), range(byte, byte + buffer.partition_bytes)
        boxes.append((buffer.space, buffer.core, set(rows), set(bytes_)))
    return boxes[0][:2] == boxes[1][:2] and all(x & y for x, y in zip(boxes[0][2:], boxes[1][2:], strict=True))


def expected(line: Timeline, step: int, buffer: int, past: list[list[Array]]) -> Array:
    """The definition: after the last op in program order that wrote to the buffer and had ended at the step."""
    program, timing = line.program, line.timing
    order = sorted(range(len(program)), key=lambda op: (int(timing.start[op]), op))
    now = int(timing.start[order[step]]) if step < len(order) else timing.makespan
    last = -1
    for op in program.ops():
        for view, is_out in zip(op.views, op.variant.outs, strict=True):
            if is_out and overlap(line, view.buffer.id, buffer) and timing.ready[op.index] <= now:
                last = op.index
    return past[last + 1][buffer]


def arguments(program: Program) -> dict[int, Array]:
    rng = np.random.default_rng(1)
    return {buffer.id: rng.standard_normal(buffer.shape).astype(np.float32) for buffer in program.inputs}


@given(drawn_kernels(most_calls=10), st.sampled_from(["virtual", "physical"]), st.integers(1, 4), st.randoms())
def test_values_at_every_step_are_those_of_the_program_up_to_the_last_complete_write(
    kernel: Drawn, memory: Any, interval: int, random: Any
) -> None:
    program = traced(kernel, target=small(sbuf=2048))
    if not len(program):
        return
    program.options = Options(memory=memory, replay_instructions=interval, replay_bytes=random.choice([0, 1 << 30]))
    line = timeline(program)
    past = history(program, arguments(program), line.allocation if memory == "physical" else None)
    values = RunValues(line, arguments(program))
    asked = [(step, buffer) for step in range(len(program) + 1) for buffer in range(len(program.buffers))]
    random.shuffle(asked)
    for step, buffer in asked[:40]:
        found = values.at(step, program.buffers[buffer])
        assert found is not None
        assert found.tobytes() == expected(line, step, buffer, past).tobytes()


@nki.jit
def busy(x, y):
    """Matmuls into one accumulator, a placed tile that another one overwrites, and an argument that is changed."""
    out = nl.ndarray((128, 256), nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, 256), nl.float32, buffer=nl.psum)
    for k in range(3):
        left = nl.load(x[k])
        right = nl.load(y[k])
        nisa.nc_matmul(dst=acc, stationary=left, moving=right)
    low = nl.ndarray((128, 256), nl.float32, address=(0, 4096))
    nisa.tensor_copy(dst=low, src=acc)
    nl.store(out, low)
    high = nl.ndarray((128, 256), nl.float32, address=(0, 4608))
    nisa.memset(dst=high, value=3.0, engine=nisa.engine.gpsimd)
    nl.store(x[0], high[:, 0:128])
    return out


def operands() -> tuple[Array, Array]:
    rng = np.random.default_rng(2)
    return rng.standard_normal((3, 128, 128)).astype(np.float32), rng.standard_normal((3, 128, 256)).astype(np.float32)


@pytest.mark.parametrize("memory", ["virtual", "physical"])
@pytest.mark.parametrize("order", ["slab", "tile"])
def test_every_buffer_at_every_step_of_a_kernel(memory: str, order: str) -> None:
    x, y = operands()
    start = {0: x.copy(), 1: y.copy()}
    run = nki_lab.run(busy, x, y, target="trn2", memory=memory, matmul_order=order, replay_instructions=3)
    x[...] = y[...] = 99.0  # the values are those of the call, whatever the caller does to its arrays
    line = run._timeline
    assert line is not None
    past = history(run.program, start, line.allocation if memory == "physical" else None)
    for step in range(len(run.program) + 1):
        for buffer in run.program.buffers:
            found = run.values.at(step, buffer)
            assert found is not None
            assert found.tobytes() == expected(line, step, buffer.id, past).tobytes()
    left, right = (np.abs(array) for array in operands())
    scale = (left.swapaxes(1, 2) @ right).sum(axis=0)  # as large as any partial sum
    end = run.values.at(len(run.program), run.program.outputs[0])
    assert end is not None
    assert ulps(end, run.outputs[0], scale) <= (0 if order == "tile" else slab.ULP_BOUND)


def test_the_step_after_the_last_is_the_end() -> None:
    x, y = operands()
    run = nki_lab.run(busy, x, y, target="trn2", matmul_order="tile")
    end = len(run.recording)
    assert np.array_equal(run.values.at(end, run.program.outputs[0]), run.outputs[0])
    assert np.array_equal(run.values.at(end, run.program.inputs[0]), x)
    last = next(run.program.ops()).views[0]
    shown = run.values.at(end, last)
    assert shown is not None
    assert shown.shape == last.type.shape
    for step in (-1, end + 1):
        with pytest.raises(IndexError, match=f"step {step} of {end}"):
            run.values.at(step, run.program.buffers[0])


def test_views_and_tensors_show_their_part_in_their_dtype() -> None:
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        out = nl.ndarray((128, 32), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile[:, 0:64:2])
        return out

    x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64).astype(ml_dtypes.bfloat16)
    run = nki_lab.run(kernel, x, target="trn2")
    source = run.program.op(1).operand("src")
    assert source is not None
    for what in (source, run.program.outputs[0]):
        found = run.values.at(2, what)
        assert found is not None
        assert found.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(found, x[:, ::2])


def test_a_run_whose_kernel_looked_at_values_has_them_too(capsys: Any) -> None:
    @nki.jit
    def looking(x):
        tile = nl.load(x)
        if float(tile.numpy().sum()) > 0:
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nl.store(x, tile)
        return x

    x = np.ones((8, 4), np.float32)
    run = nki_lab.run(looking, x, target="trn2", strict=False)
    assert run.program.observed
    assert (x == 2).all()
    tile = next(buffer for buffer in run.program.buffers if buffer.on_chip)
    assert [float(run.values.at(step, tile).max()) for step in range(1, 4)] == [1.0, 2.0, 2.0]  # type: ignore[union-attr]
    assert float(run.values.at(0, run.program.inputs[0]).max()) == 1.0  # type: ignore[union-attr]
    assert capsys.readouterr().out == ""


def test_edges_of_the_user_change_when_values_are_there() -> None:
    @nki.jit
    def kernel(x):
        first, second = nl.ndarray((128, 512), nl.float32), nl.ndarray((128, 512), nl.float32)
        nisa.memset(dst=first, value=1.0, engine=nisa.engine.vector, name="first")
        nisa.memset(dst=second, value=2.0, engine=nisa.engine.gpsimd, name="second")
        nl.store(x, first)
        nl.store(x, second)
        return x

    x = np.zeros((128, 512), np.float32)
    run = nki_lab.run(kernel.with_schedule([("first", "second")]), x, target="trn2")
    first, second = (buffer for buffer in run.program.buffers if buffer.on_chip)
    assert run.recording.order[:].tolist()[:2] == [1, 0]
    assert (run.values.at(1, second) == 2).all()  # type: ignore[union-attr]
    assert np.isnan(run.values.at(1, first)).all()  # type: ignore[arg-type]
    assert (run.values.at(4, first) == 1).all()  # type: ignore[union-attr]


def test_two_cores_have_values() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, 128, 8), nl.float32, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        tile = nl.load(x[core])
        nl.store(out[core], tile)
        return out

    x = np.arange(2 * 128 * 8, dtype=np.float32).reshape(2, 128, 8)
    run = nki_lab.run(kernel[2], x, target="trn2")
    tiles = [buffer for buffer in run.program.buffers if buffer.on_chip]
    for core, tile in enumerate(tiles):
        assert tile.core == core
        assert np.array_equal(run.values.at(4, tile), x[core])


def test_the_passes_of_a_device_loop_have_values() -> None:
    @nki.jit
    def looped(x, count):
        out = nl.ndarray((8, 128, 64), x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        number = nl.ndarray((1, 1), nl.int32)
        nisa.dma_copy(dst=number, src=count)
        passes = nisa.register_alloc(0)
        nisa.register_load(passes, number)

        def body(i):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
            short = nl.copy(tile)
            nisa.dma_copy(dst=out.ap([[64, 128], [1, 64]], scalar_offset=i, indirect_dim=0), src=short)

        nl.fori_loop(0, passes, body)
        return out

    run = nki_lab.run(looped, np.zeros((128, 64), np.float32), np.array([[5]], np.int32), target="trn2",
                      replay_instructions=4)  # fmt: skip
    end, tile = len(run.recording), next(buffer for buffer in run.program.buffers if buffer.on_chip)
    assert end > len(run.program)
    assert np.array_equal(run.values.at(end, run.program.outputs[0]), run.outputs[0], equal_nan=True)  # type: ignore[arg-type]
    # The first load has ended by the third step in order of time.
    shown = [float(run.values.at(step, tile)[0, 0]) for step in range(end, 2, -1)]  # type: ignore[index]
    assert sorted(set(shown)) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert shown == sorted(shown, reverse=True)


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_what_is_kept_stays_below_replay_bytes_and_an_answer_costs_replay_instructions() -> None:
    @nki.jit
    def long(x):
        out = nl.ndarray((64, 128, 64), nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for step in range(64):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
            nl.store(out[step], tile)
        return out

    x = np.zeros((128, 64), np.float32)
    run = nki_lab.run(long, x, target="trn2", replay_instructions=8, replay_bytes=8 << 20)
    values = run.values
    assert isinstance(values, RunValues)
    tile = next(buffer for buffer in run.program.buffers if buffer.on_chip)
    values.at(len(run.program), tile)
    for step in np.random.default_rng(0).permutation(len(run.program)).tolist():
        before = values.replay.executed
        values.at(step, tile)
        assert values.replay.executed - before <= 8
        assert values.replay.nbytes + x.nbytes <= 8 << 20


def test_arguments_beyond_the_bytes_are_not_copied_and_nothing_is_recorded() -> None:
    x, y = operands()
    run = nki_lab.run(busy, x, y, target="trn2", replay_bytes=x.nbytes)
    assert run.values.reason == "values not recorded: copies of the arguments take more than replay_bytes"
    assert run.values.at(3, run.program.buffers[0]) is None
    assert "replay_bytes" in repr(run.values)


def test_an_interval_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="replay_instructions is 0"):
        dataclasses.replace(Options(), replay_instructions=0)


# -- no values ---------------------------------------------------------------------------------------------------------


def test_profiles_saved_runs_and_refused_calls_say_why_there_are_none(tmp_path: Path) -> None:
    x, y = operands()
    profile = nki_lab.profile(busy, x, y, target="trn2")
    assert profile.values.reason == "values not recorded: a profile computes none"
    assert profile.values.at(0, profile.program.buffers[0]) is None
    saved = nki_lab.open(nki_lab.run(busy, x, y, target="trn2").save(tmp_path / "run.nkirec"))
    assert saved.values.reason == "values not recorded: a saved run has times only"
    refused = nki_lab.run(busy, target="trn2", on_error="report")
    assert refused.values.reason == "values not recorded: the kernel did not run"


def test_a_failed_run_has_values_up_to_its_fault() -> None:
    @nki.jit
    def kernel(x, i):
        tile = nl.load(x)
        index = nl.load(i)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=tile, src=x.ap([[8, 128], [1, 8]], vector_offset=index))
        nl.store(x, tile)
        return x

    x, i = np.zeros((128, 8), np.float32), np.full((128, 1), 1000, np.int32)
    run = nki_lab.run(kernel, x, i, target="trn2", on_error="report")
    assert run.error is not None
    end = len(run.program)
    tile = next(buffer for buffer in run.program.buffers if buffer.on_chip)
    assert run.values.at(end, tile) is None
    found = [run.values.at(step, tile) for step in range(end)]
    assert any(values is not None and (values == 1).all() for values in found)


def test_buffers_of_another_run_are_refused() -> None:
    x, y = operands()
    run, other = nki_lab.run(busy, x, y, target="trn2"), nki_lab.run(busy, x, y, target="trn1")
    with pytest.raises(ValueError, match="no buffer of this run"):
        run.values.at(0, other.program.buffers[0])


def test_several_threads_may_ask() -> None:
    x, y = operands()
    run = nki_lab.run(busy, x, y, target="trn2", replay_instructions=2)
    asked = [(step, buffer) for step in range(len(run.program) + 1) for buffer in run.program.buffers] * 2

    def ask(item: Any) -> bytes:
        found = run.values.at(*item)
        assert found is not None
        return found.tobytes()

    one_by_one = [ask(item) for item in asked]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, asked)) == one_by_one
