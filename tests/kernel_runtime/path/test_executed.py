"""A program laid out along its path is what the program with loops does: same values, a row for each execution."""

from __future__ import annotations

import textwrap
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import spec
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.ir import Program, verify
from nki_lab.kernel_runtime.path import UNKNOWN, executed, known_path
from nki_lab.kernel_runtime.path import Path as Way
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.schedule import verify as verify_schedule
from nki_lab.kernel_runtime.tensor import VirtualRegister
from tests.calls import traced
from tests.drawn_loops import draw_body, expected, machine_of, traced_loops
from tests.scale import scaled
from tests.verdicts import SNIPPET_HEAD, evaluated, loaded

_numbers = count()


@st.composite
def bodies(draw: Any) -> Any:
    return draw_body(lambda low, high: draw(st.integers(low, high)))


@settings(max_examples=scaled(80))
@given(bodies())
def test_loops_compute_what_python_computes(body: Any) -> None:
    row, entered = expected(body)
    program, numbers, _, _ = traced_loops(body)
    machine = machine_of(program, numbers)
    np.testing.assert_array_equal(machine.read(program.outputs[0])[0], row)
    assert len(machine.path.trips) == entered
    np.testing.assert_array_equal(machine_of(program, numbers, final=False).read(program.outputs[0])[0], row)


@settings(max_examples=scaled(80))
@given(bodies())
def test_a_laid_out_program_computes_the_same(body: Any) -> None:
    program, numbers, _, _ = traced_loops(body)
    machine = machine_of(program, numbers)
    rows = executed(program, machine.path)
    verify(rows)
    assert not rows.regions
    assert executed(rows, machine.path) is rows or not program.registers
    assert not [view for number in rows.access_view for view in (rows.views[number],) if in_register(view)]
    np.testing.assert_array_equal(machine_of(rows, numbers).read(rows.outputs[0]), machine.read(program.outputs[0]))
    verify_schedule(schedule(rows, allocate(program)))


@settings(max_examples=scaled(60))
@given(bodies())
def test_the_evaluator_sees_the_same_loops(body: Any) -> None:
    program, numbers, text, file = traced_loops(body)
    seen, _ = evaluated(text, file, (spec(numbers.shape, "int32"),), "trn2")
    lines = program.text().splitlines()
    assert seen.code == ""
    assert [line for line in lines if " for " in line or "while" in line] == [
        line for line in seen.program.splitlines() if " for " in line or "while" in line
    ]


@settings(max_examples=scaled(60))
@given(bodies())
def test_what_constants_decide_is_known_without_values(body: Any) -> None:
    program, numbers, _, _ = traced_loops(body)
    path = known_path(program)
    if isinstance(path, Way):
        np.testing.assert_array_equal(path.trips, machine_of(program, numbers).path.trips)
    else:
        assert {item.code for item in path} == {"NKI801"}


def laid_out(text: str, trips: list[int], loads: tuple[int, ...] = ()) -> tuple[Program, Program]:
    """A kernel, and its rows along a path."""
    file = Path(f"laid_out_{next(_numbers)}.py")
    module = loaded(file, f"{SNIPPET_HEAD}\ndef kernel(x):\n{textwrap.indent(text, '    ')}\n")
    program, _ = traced(module.kernel, [np.zeros((4, 8), np.int32)], ["int32"], "trn2")
    rows = executed(program, path_of(trips, loads))
    verify(rows)
    return program, rows


def path_of(trips: list[int], loads: tuple[int, ...] = (), rows: int = -1) -> Way:
    return Way(trips=np.array(trips, np.int64), loaded=np.array(loads, np.int64), rows=rows)


def in_register(view: Any) -> bool:
    """Whether a register moves a view."""
    return view.indirect is not None and isinstance(view.indirect.index, VirtualRegister)


TWO = """tile = nl.zeros((4, 8), dtype=nl.int32)
n = nisa.register_alloc()
nisa.register_load(n, nl.load(x[0:1, 0:1]))
for i in nl.dynamic_range(n):
    for k in range(2):
        nisa.tensor_copy(dst=tile[:, nl.ds(i, 1)], src=tile[:, k])
nisa.dma_copy(dst=x, src=tile)"""


def test_rows_follow_the_passes_and_say_which_they_are_in() -> None:
    _, rows = laid_out(TWO, [3], (3,))
    names = [op.variant.instruction.name for op in rows.ops()]
    assert names == ["memset", "dma_copy", "register_load", *["tensor_copy"] * 6, "dma_copy"]
    passes = [chain(rows, number) for number in rows.op_iteration]
    assert passes == [(), (), (), *[(("i", i), ("k", k)) for i in range(3) for k in range(2)], ()]
    offsets = [op.views[0].offset for op in rows.ops() if op.variant.instruction.name == "tensor_copy"]
    assert offsets == [0, 0, 1, 1, 2, 2]


def chain(program: Any, number: int) -> tuple[tuple[str, int], ...]:
    if number < 0:
        return ()
    item = program.iterations[number]
    return (*chain(program, item.parent), (item.variable, item.value))


def test_every_lane_waits_for_the_register_that_decides() -> None:
    program, rows = laid_out(TWO, [2], (2,))
    assert rows.control == [(3, 2)]
    found = schedule(rows, allocate(program))
    assert (2, "flow") in found.waits(3)
    assert (
        any((2, "flow") in found.waits(op) for op in range(4, len(rows)) if found.lane[op] != found.lane[3])
        or len({int(lane) for lane in found.lane[3:]}) == 1
    )


def test_what_nobody_knows_stays_in_the_register() -> None:
    text = """tile = nl.zeros((4, 8), dtype=nl.int32)
row = nisa.register_alloc()
nisa.register_load(row, nl.load(x[0:1, 0:1]))
nisa.tensor_copy(dst=tile[:, nl.ds(row, 1)], src=tile[:, 0])
nisa.dma_copy(dst=x, src=tile)"""
    _, rows = laid_out(text, [], (UNKNOWN,))
    assert [in_register(op.views[0]) for op in rows.ops() if op.variant.instruction.name == "tensor_copy"] == [True]
    assert rows.flows == [(3, 2)]
    _, rows = laid_out(text, [], (5,))
    assert [op.views[0].offset for op in rows.ops() if op.variant.instruction.name == "tensor_copy"] == [5]


def test_a_path_that_ends_early_ends_the_rows() -> None:
    program, rows = laid_out(TWO, [3], (3,))
    short = executed(program, path_of([3], (3,), rows=6))
    verify(short)
    assert len(short) == 6
    assert list(short.op_variant) == list(rows.op_variant)[:6]


def test_names_and_orders_are_those_of_each_pass() -> None:
    text = """tile = nl.zeros((4, 8), dtype=nl.int32)
def body(i):
    first = nisa.tensor_copy(dst=tile[:, 1:2], src=tile[:, 0:1], name="first")
    second = nisa.tensor_copy(dst=tile[:, 3:4], src=tile[:, 2:3])
    second.depends_on(first)
    with nl.no_reorder():
        nisa.memset(dst=tile[:, 5:6], value=1)
        nisa.memset(dst=tile[:, 6:7], value=1)
nl.fori_loop(0, 3, body)
nisa.dma_copy(dst=x, src=tile)"""
    _, rows = laid_out(text, [3])
    assert rows.op_names == {1: "first", 5: "first", 9: "first"}
    assert rows.user_edges == [(2, 1), (6, 5), (10, 9)]
    assert rows.fences == [(3, 5), (7, 9), (11, 13)]


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_a_register_that_is_stored_is_stored_as_a_number(trips: int) -> None:
    text = """tile = nl.zeros((1, 8), dtype=nl.int32)
for i in nl.dynamic_range(0, 8):
    nisa.register_store(dst=tile[:, nl.ds(i, 1)], src=i)
nisa.dma_copy(dst=x[0:1, :], src=tile)"""
    _, rows = laid_out(text, [trips])
    stored = [op.variant.use.attrs["src"] for op in rows.ops() if op.variant.instruction.name == "register_store"]
    assert stored == list(range(trips))
