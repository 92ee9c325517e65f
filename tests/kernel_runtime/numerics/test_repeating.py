"""Kept calls: a program that runs again on other arguments gives the bits of a run of its own."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import session
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.coverage import Tracker
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.numerics import repeating
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.repeating import RepeatableExecutor, can_repeat
from tests.calls import Case, contents, kernel_of, source, traced
from tests.draws import Drawn, Seeded
from tests.programs import draw_program
from tests.scale import scaled
from tests.strategies import arches

Array = np.ndarray[Any, Any]


def program_of(text: str, arrays: list[Array], dtypes: list[str], target: str = "trn2", **options: Any) -> Program:
    return traced(kernel_of(text), arrays, dtypes, target, **options)[0]


def results(executor: Executor) -> list[Array]:
    return [executor.hand_out(tensor) for tensor in executor.program.outputs]


def fresh(program: Program, arrays: list[Array]) -> tuple[list[bytes], list[Any]]:
    executor = Executor(program, dict(enumerate(arrays)))
    executor.run(final=True)
    return [array.tobytes() for array in results(executor)], executor.diagnostics


def check_repeats(program: Program, runs: list[list[Array]]) -> None:
    """Run a program on several sets of arguments, and again; results that were handed out stay as they are.

    Once with small arguments and results copied, and once with all in the caller's memory that can be.
    """
    for small in (repeating.SMALL, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(repeating, "SMALL", small)
            check_runs(program, runs)


def check_runs(program: Program, runs: list[list[Array]]) -> None:
    assert can_repeat(program)
    wanted = [fresh(program, arrays) for arrays in runs]
    executor = RepeatableExecutor(program, dict(enumerate(runs[0])), Tracker(program))
    kept: list[tuple[list[Array], list[bytes]]] = []
    for number in (0, *range(len(runs)), 0):
        if kept:
            executor.again(dict(enumerate(runs[number])))
        else:
            executor.run(final=True)
        bits, found = wanted[number]
        kept.append((results(executor), bits))
        assert executor.diagnostics == found
        executor.rest()
        for arrays, before in kept:
            assert [array.tobytes() for array in arrays] == before
    executor.close()


def check_case(case: Case) -> None:
    arrays = [contents(memory) for memory in case.memories]
    program, _ = traced(kernel_of(source(case)), arrays, [m.dtype for m in case.memories], case.target, **case.options)
    if can_repeat(program):
        check_repeats(program, [arrays, [array[::-1].copy() for array in arrays]])


@st.composite
def programs(draw: Any) -> Case:
    choice = Drawn(lambda low, high: draw(st.integers(low, high)))
    return draw_program(choice, choice.pick(arches()), exact=False)


@settings(max_examples=scaled(60))
@given(programs())
def test_random_programs_repeat(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("seed", range(60))
def test_drawn_programs_repeat(seed: int) -> None:
    choice = Seeded(seed)
    check_case(draw_program(choice, choice.pick(arches()), exact=False))


MATMUL = """
def kernel(a, b):
    out = nl.ndarray((256, 512), {out}, buffer=nl.shared_hbm)
    for m in range(2):
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
        for k in range(3):
            left = nl.ndarray((128, 128), a.dtype)
            nisa.dma_copy(left, a[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
            right = nl.ndarray((128, 512), b.dtype)
            nisa.dma_copy(right, b[k * 128 : (k + 1) * 128])
            nisa.nc_matmul(acc, left, right)
        tile = nl.ndarray((128, 512), {out})
        nisa.tensor_copy(tile, acc)
        nisa.dma_copy(out[m * 128 : (m + 1) * 128], tile)
    return out
"""


@pytest.mark.parametrize("order", ["slab", "tile", "free"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_repeat_with_operands_in_other_memory(order: str, dtype: str) -> None:
    from tests.reference.grid import host

    draws = np.random.default_rng(5)
    runs = [[draws.standard_normal(shape).astype(host(dtype)) for shape in ((384, 256), (384, 512))] for _ in range(2)]
    program = program_of(MATMUL.format(out=f"nl.{dtype}"), runs[0], [dtype, dtype], matmul_order=order)
    check_repeats(program, runs)


CHANGED = """
def kernel(a):
    tile = nl.ndarray((128, 64), a.dtype)
    nisa.dma_copy(tile, a)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nisa.dma_copy(a[:, 0:64], tile)
    return a
"""


def test_an_argument_that_the_kernel_changes_begins_anew() -> None:
    runs = [[np.full((128, 64), value, np.float32)] for value in (1.0, 5.0)]
    check_repeats(program_of(CHANGED, runs[0], ["float32"]), runs)


UNWRITTEN = """
def kernel(a):
    out = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), a.dtype)
    nisa.dma_copy(tile, a)
    other = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[:, 0:32], tile[:, 0:32])
    return out, other
"""


def test_unwritten_results_are_poison_in_each_run() -> None:
    runs = [[np.full((128, 64), value, np.float32)] for value in (1.0, 5.0)]
    check_repeats(program_of(UNWRITTEN, runs[0], ["float32"]), runs)


GATHER = """
def kernel(table, index):
    rows = nl.ndarray((128, 1), nl.uint32)
    nisa.dma_copy(rows, index)
    tile = nl.ndarray((128, 64), table.dtype)
    nisa.dma_copy(tile, table.ap(pattern=[[64, 128], [1, 64]], offset=0, vector_offset=rows, indirect_dim=0))
    out = nl.ndarray((128, 64), table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out
"""


def test_run_time_indices_are_checked_in_each_run() -> None:
    table = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
    index = np.arange(128, dtype=np.uint32).reshape(128, 1)
    program = program_of(GATHER, [table, index], ["float32", "uint32"])
    check_repeats(program, [[table, index], [table + 1, index[::-1].copy()]])
    executor = RepeatableExecutor(program, {0: table, 1: index}, Tracker(program))
    executor.run(final=True)
    executor.rest()
    with pytest.raises(NkiError) as caught:
        executor.again({0: table, 1: index + 200})
    assert caught.value.diagnostics[0].code == "NKI310"


def test_nothing_of_the_callers_is_held_between_runs() -> None:
    arrays = [np.ones((384, 256), np.float32), np.ones((384, 512), np.float32)]
    program = program_of(MATMUL.format(out="nl.float32"), arrays, ["float32"] * 2)
    watched = [weakref.ref(array) for array in arrays]
    executor = RepeatableExecutor(program, dict(enumerate(arrays)), Tracker(program))
    executor.run(final=True)
    (out,) = results(executor)
    result = weakref.ref(out if out.base is None else out.base)
    del arrays, out
    assert any(reference() is not None for reference in watched)
    executor.rest()
    assert [reference() for reference in (*watched, result)] == [None, None, None]


def test_most_drawn_programs_can_repeat() -> None:
    cases = [draw_program(Seeded(seed), arches()[0], exact=False) for seed in range(40)]
    found = []
    for case in cases:
        arrays = [contents(memory) for memory in case.memories]
        dtypes = [memory.dtype for memory in case.memories]
        found.append(can_repeat(traced(kernel_of(source(case)), arrays, dtypes, case.target, **case.options)[0]))
    assert sum(found) > 30


def test_a_barrier_over_a_result_in_the_callers_memory_makes_no_call() -> None:
    text = """
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // 2
    first = nl.program_id(0) * rows
    tile = nl.ndarray((rows, x.shape[1]), x.dtype)
    nisa.dma_copy(tile, x[first : first + rows])
    nisa.dma_copy(out[first : first + rows], tile)
    nisa.core_barrier(out, (0, 1))
    return out
"""
    x = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
    assert x.nbytes > repeating.SMALL
    launch = session.Launch(kernel_of(text), "trn2", grid=(2,))
    for number in range(3):
        made = session.execute(launch, (x + number,), {})
        np.testing.assert_array_equal(made.flat[0], x + number)
