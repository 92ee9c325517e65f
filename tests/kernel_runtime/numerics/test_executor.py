"""ProgramPlan programs: run at once or as they grow, with memory used again, give the same bits; faults name their line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.coverage import Tracker
from nki_lab.kernel_runtime.issue.context import recording
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.storage import Pool
from tests.calls import Case, contents, execute, kernel_of, source, traced
from tests.draws import Drawn, Seeded
from tests.expected import differences
from tests.isa.ops.kernels import run
from tests.programs import draw_program
from tests.scale import scaled
from tests.strategies import arches

Array = np.ndarray[Any, Any]


@st.composite
def programs(draw: Any, exact: bool) -> Case:
    choice = Drawn(lambda low, high: draw(st.integers(low, high)))
    return draw_program(choice, choice.pick(arches()), exact=exact)


def same_bits(a: dict[int, Array], b: dict[int, Array]) -> bool:
    return all(a[key].tobytes() == b[key].tobytes() for key in a | b)


@settings(max_examples=scaled(60))
@given(programs(exact=True))
def test_random_programs_compute_what_the_references_do(case: Case) -> None:
    assert not differences(case, execute(case, final=True))
    assert not differences(case, execute(case, final=False))


@settings(max_examples=scaled(60))
@given(programs(exact=False))
def test_a_run_at_once_gives_the_bits_of_a_run_in_order(case: Case) -> None:
    assert same_bits(execute(case, final=True).written, execute(case, final=False).written)


@pytest.mark.parametrize("seed", range(60))
def test_plans_of_a_few_ops_at_a_time_give_the_same_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Between two plans memory changes hands: a tile planned into a block that an earlier op still has to read.
    choice = Seeded(seed)
    case = draw_program(choice, choice.pick(arches()), exact=False)
    whole = execute(case, final=True).written
    for size in (1, 3):
        monkeypatch.setattr(Executor, "_chunk", size)
        assert same_bits(execute(case, final=True).written, whole)


@pytest.mark.parametrize("seed", range(40))
def test_observing_between_instructions_changes_nothing(seed: int) -> None:
    choice = Seeded(seed)
    case = draw_program(choice, choice.pick(arches()), exact=False)
    arrays = [contents(memory) for memory in case.memories]
    text = source(case)
    program, builder = traced(kernel_of(text), arrays, [m.dtype for m in case.memories], case.target, **case.options)
    whole = Executor(program, dict(enumerate(arrays)))
    whole.run(final=True)

    stepped, builder = traced(kernel_of("def kernel(*xs):\n    return ()\n"), arrays, [m.dtype for m in case.memories],
                              case.target, **case.options)  # fmt: skip
    executor = Executor(stepped, dict(enumerate(arrays)))
    watched: list[Any] = []

    def look(tensor: Any) -> None:
        executor.run(final=False)
        executor.read(tensor)
        watched.append(tensor)

    lines = text.splitlines()
    calls = [i for i, line in enumerate(lines) if "    nisa." in line]
    for number, place in enumerate(calls):
        first = lines[place].split("(", 1)[1].split("=", 1)[1].split(",")[0].split("[")[0].split(".")[0]
        lines[place] += f"; look({first})" if number % 3 == 0 else ""
    names: dict[str, Any] = dict(kernel_of("\n".join(lines)).__globals__) | {"look": look}
    exec("\n".join(lines), names)
    from nki_lab.kernel_runtime.tensor import whole as whole_view

    with recording(builder):
        outputs = names["kernel"](*(whole_view(buffer) for buffer in stepped.inputs))
    executor.run(final=False)
    assert watched
    for got, want in zip(outputs, program.outputs, strict=True):
        assert executor.read(got).tobytes() == whole.read(want).tobytes()


LOOP = """
def kernel(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in range(0, a.shape[0], 128):
        x = nl.ndarray((128, a.shape[1]), a.dtype)
        y = nl.ndarray((128, a.shape[1]), nl.float32)
        nisa.dma_copy(x, a[i : i + 128])
        nisa.activation(y, nl.exp, x)
        nisa.tensor_scalar(x, y, nl.add, 1.0)
        nisa.dma_copy(out[i : i + 128], x)
    return out
"""


def test_memory_is_used_again_after_its_last_access() -> None:
    a = np.random.default_rng(0).standard_normal((128 * 64, 32)).astype(np.float32)
    program, _ = traced(kernel_of(LOOP), [a], ["float32"], "trn2")
    taken: list[int] = []

    class Counting(Pool):
        def take(self, nbytes: int) -> Array:
            if not self._free.get(nbytes):
                taken.append(nbytes)
            return super().take(nbytes)

    executor = Executor(program, {0: a})
    executor._pool = Counting()
    executor.run(final=True)
    # 64 trips of two tiles: two blocks, and the result.
    assert sorted(taken) == [16384, 16384, a.nbytes]
    np.testing.assert_array_equal(executor.read(program.outputs[0]), np.exp(a) + np.float32(1))


def test_kernel_results_stay_readable() -> None:
    text = LOOP.replace("    return out", "    return out, x, y")
    a = np.random.default_rng(0).standard_normal((256, 8)).astype(np.float32)
    out, x, y = run(text, a)
    np.testing.assert_array_equal(y, np.exp(a[128:]))
    np.testing.assert_array_equal(x, out[128:])


def test_arguments_are_not_touched_unless_the_kernel_writes_them() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    kept = a.copy()
    text = "def kernel(a):\n    x = nl.load(a)\n    nisa.tensor_scalar(x, x, nl.add, 1.0)\n    nl.store(a, x)\n    return a\n"
    program, _ = traced(kernel_of(text), [a], ["float32"], "trn2")
    for final in (True, False):
        executor = Executor(program, {0: a})
        executor.run(final=final)
        np.testing.assert_array_equal(executor.read(program.outputs[0]), kept + 1)
        np.testing.assert_array_equal(a, kept)


def test_a_read_is_a_copy() -> None:
    a = np.zeros((2, 2), np.float32)
    program, _ = traced(kernel_of("def kernel(a):\n    return nl.load(a)\n"), [a], ["float32"], "trn2")
    executor = Executor(program, {0: a})
    executor.run(final=True)
    executor.read(program.outputs[0])[...] = 5
    assert not executor.read(program.outputs[0]).any()


def test_views_are_read_in_their_shape_and_dtype() -> None:
    a = np.arange(2**16, 2**16 + 24, dtype=np.int32).reshape(4, 6)
    program, _ = traced(kernel_of("def kernel(a):\n    return nl.load(a)\n"), [a], ["int32"], "trn2")
    executor = Executor(program, {0: a})
    executor.run(final=True)
    tensor = program.outputs[0]
    np.testing.assert_array_equal(executor.read(tensor[1:3, 0:6:2]), a[1:3, 0:6:2])
    np.testing.assert_array_equal(executor.read(tensor.view(np.uint16)), a.view(np.uint16))
    np.testing.assert_array_equal(executor.read(tensor.reshape((4, 2, 3)).permute((0, 2, 1))),
                                  a.reshape(4, 2, 3).transpose(0, 2, 1))  # fmt: skip


@pytest.mark.parametrize("final", [True, False])
def test_memory_that_nothing_wrote_reads_as_nan_or_four(final: bool) -> None:
    text = """
def kernel(a):
    x = nl.ndarray((4, 6), nl.{dtype})
    nisa.memset(x[:, 0:2], 1)
    out = nl.ndarray((4, 6), nl.{dtype}, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out
"""
    for dtype in ("float32", "bfloat16", "float8_e4m3", "int32", "uint8"):
        program, _ = traced(kernel_of(text.format(dtype=dtype)), [np.zeros((1, 1), np.float32)], ["float32"], "trn2")
        executor = Executor(program, {0: np.zeros((1, 1), np.float32)})
        executor.run(final=final)
        got = executor.read(program.outputs[0]).astype(np.float64)
        assert (got[:, 0:2] == 1).all()
        rest = got[:, 2:6]
        assert (rest == 4).all() if "int" in dtype else np.isnan(rest).all()
        assert [item.code for item in executor.tracker.result.diagnostics] == ["NKI302"]


def test_a_block_is_poisoned_only_when_its_turn_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    # z gets x's memory. Its poison must neither be overwritten by x nor fall on x.
    text = """
def kernel(a):
    x = nl.ndarray((4, 6), nl.float32)
    nisa.dma_copy(x, a)
    y = nl.ndarray((4, 6), nl.float32)
    nisa.tensor_copy(y, x)
    z = nl.ndarray((4, 6), nl.float32)
    nisa.memset(z[:, 0:1], 0.0)
    out = nl.ndarray((4, 12), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out[:, 0:6], y)
    nisa.dma_copy(out[:, 6:12], z)
    return out
"""
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    for size in (16_384, 1, 2):
        monkeypatch.setattr(Executor, "_chunk", size)
        (got,) = run(text, a)
        np.testing.assert_array_equal(got[:, 0:6], a)
        assert not got[:, 6].any()
        assert np.isnan(got[:, 7:12]).all()


def test_accumulation_registers_live_on_between_two_observations() -> None:
    a = np.ones((4, 6), np.float32)
    program, builder = traced(kernel_of("def kernel(a):\n    return nl.load(a)\n"), [a], ["float32"], "trn2")
    executor = Executor(program, {0: a})
    tile = program.outputs[0]
    with recording(builder):
        total = builder.allocate((4, 1), "float32", tile._buffer.space)
        commands = TABLE["activation"].operands["reduce_cmd"].enum
        assert commands is not None
        for command in ("reset_reduce", "reduce"):
            instruction_function("activation")(tile, "copy", tile, reduce_res=total, reduce_cmd=commands[command])
            executor.run(final=False)
    assert (executor.read(total) == 12).all()


def test_without_precision_narrow_floats_stay_float32_until_the_end() -> None:
    text = """
def kernel(a):
    x = nl.ndarray((1, 4), nl.{dtype})
    nisa.tensor_scalar(x, nl.load(a), nl.add, 2.0**-12)
    y = nl.ndarray((1, 4), nl.float32)
    nisa.tensor_scalar(y, x, nl.subtract, 1.0)
    return x, y
"""
    a = np.ones((1, 4), np.float32)
    for dtype, kept in (("bfloat16", True), ("float8_e4m3", True), ("tfloat32", True), ("float16", False)):
        x, y = run(text.format(dtype=dtype), a, precise=False)
        assert (x.astype(np.float32) == 1).all()
        assert (y == (2.0**-12 if kept else 0)).all()
        assert not run(text.format(dtype=dtype), a)[1].any()


def test_an_instruction_that_fails_is_our_fault_at_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def numerics(out: Any, ins: Any, use: Any, state: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(TABLE, "reciprocal", replace(TABLE["reciprocal"], numerics=numerics))
    text = "def kernel(a):\n    x = nl.load(a)\n    nisa.reciprocal(x, x)\n    return x\n"
    program, _ = traced(kernel_of(text), [np.ones((2, 2), np.float32)], ["float32"], "trn2")
    with pytest.raises(NkiError) as caught:
        Executor(program, {0: np.ones((2, 2), np.float32)}).run(final=True)
    (found,) = caught.value.diagnostics
    assert found.code == "NKI901"
    assert "planted" in found.message
    assert found.line == 3


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_interrupts_and_want_of_memory_pass_through(kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def numerics(out: Any, ins: Any, use: Any, state: Any) -> None:
        raise kind

    monkeypatch.setitem(TABLE, "reciprocal", replace(TABLE["reciprocal"], numerics=numerics))
    text = "def kernel(a):\n    x = nl.load(a)\n    nisa.reciprocal(x, x)\n    return x\n"
    program, _ = traced(kernel_of(text), [np.ones((2, 2), np.float32)], ["float32"], "trn2")
    with pytest.raises(kind):
        Executor(program, {0: np.ones((2, 2), np.float32)}).run(final=True)


def test_loads_that_only_matmuls_read_cost_nothing() -> None:
    text = """
def kernel(a, b):
    acc = nl.ndarray((64, 32), nl.float32, buffer=nl.psum)
    x = nl.ndarray((128, 64), nl.float32)
    y = nl.ndarray((128, 32), nl.float32)
    nisa.dma_copy(x, a)
    nisa.dma_copy(y, b)
    nisa.nc_matmul(acc, x, y)
    return acc
"""
    a, b = (np.random.default_rng(n).standard_normal((128, n)).astype(np.float32) for n in (64, 32))
    program, _ = traced(kernel_of(text), [a, b], ["float32"] * 2, "trn2")
    executor = Executor(program, {0: a, 1: b})
    executor.run(final=True)
    assert executor.elided == 2
    np.testing.assert_allclose(executor.read(program.outputs[0]), a.T @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "spoil",
    [
        "nisa.tensor_copy(z, x)",  # another instruction reads the tile
        "nisa.dma_copy(a[0:1], z[0:1, 0:64])",  # the source is written
        "nisa.memset(x[0:1], 0.0)",  # the tile is written twice
    ],
)
def test_loads_are_kept_where_somebody_else_looks(spoil: str) -> None:
    text = f"""
def kernel(a, b):
    acc = nl.ndarray((64, 32), nl.float32, buffer=nl.psum)
    x = nl.ndarray((128, 64), nl.float32)
    y = nl.ndarray((128, 32), nl.float32)
    z = nl.zeros((128, 64), nl.float32)
    nisa.dma_copy(x, a)
    nisa.dma_copy(y, b)
    {spoil}
    nisa.nc_matmul(acc, x, y)
    return acc, z
"""
    a, b = (np.random.default_rng(n).standard_normal((128, n)).astype(np.float32) for n in (64, 32))
    program, _ = traced(kernel_of(text), [a, b], ["float32"] * 2, "trn2")
    executor, plain = Executor(program, {0: a, 1: b}), Executor(program, {0: a, 1: b})
    executor.run(final=True)
    plain.run(final=False)
    assert executor.elided == 1
    for tensor in program.outputs:
        np.testing.assert_array_equal(executor.read(tensor), plain.read(tensor))


def test_time_of_the_coverage_is_not_counted_when_it_is_ready() -> None:
    a = np.ones((4, 6), np.float32)
    program, _ = traced(kernel_of("def kernel(a):\n    return nl.load(a)\n"), [a], ["float32"], "trn2")
    tracker = Tracker(program)
    tracker.finish()
    executor = Executor(program, {0: a}, tracker)
    executor.run(final=True)
    assert executor.tracker is tracker
    assert 0 < executor.seconds < 1


def test_an_empty_program_runs() -> None:
    program, _ = traced(kernel_of("def kernel(a):\n    return a\n"), [np.ones((1, 1), np.float32)], ["float32"], "trn2")
    for final in (True, False):
        executor = Executor(program, {0: np.ones((1, 1), np.float32)})
        executor.run(final=final)
        assert executor.read(program.outputs[0])[0, 0] == 1


def test_bfloat16_results_have_their_own_dtype() -> None:
    a = np.ones((2, 2), ml_dtypes.bfloat16)
    (got,) = run("def kernel(a):\n    return nl.load(a)\n", a)
    assert got.dtype == ml_dtypes.bfloat16
