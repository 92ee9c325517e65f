"""Device loops with values: what passes hand on, which matmul is the first, faults in a pass, and loops without end."""

from __future__ import annotations

import textwrap
from itertools import count
from pathlib import Path
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.context import recording
from nki_lab.kernel_runtime.language.kernel_builder import KernelBuilder
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.path import executed
from tests.calls import traced
from tests.verdicts import SNIPPET_HEAD, loaded

_numbers = count()
X = np.arange(4 * 128 * 64, dtype=np.float32).reshape(4, 128, 64) % 101


def program_of(text: str, n: int = 3, dtype: str = "int32", **options: Any) -> tuple[Program, dict[int, Any]]:
    """A kernel body over x (4, 128, 64) and a register `n`, and its arguments."""
    head = "n = nisa.register_alloc()\nnisa.register_load(n, given)\n"
    body = textwrap.indent(head + text, "    ")
    module = loaded(Path(f"numeric_loops_{next(_numbers)}.py"), f"{SNIPPET_HEAD}\ndef kernel(x, given):\n{body}")
    given = np.array([[n]], dtype)
    program, _ = traced(module.kernel, [X, given], ["float32", dtype], "trn2", **options)
    return program, {0: X, 1: given}


def machine_of(text: str, n: int = 3, **more: Any) -> Executor:
    """The kernel, executed."""
    program, arguments = program_of(text, n, **more)
    executor = Executor(program, arguments)
    executor.run(final=True)
    return executor


def result(text: str, n: int = 3, **more: Any) -> Any:
    """What a kernel body that leaves its result in `out`, float32 (128, 64), computes; laid out it computes the same."""
    out = "\nout = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)\n"
    executor = machine_of(out + text + "\nreturn out\n", n, **more)
    found = executor.read(executor.program.outputs[0])
    rows = executed(executor.program, executor.path)
    again = Executor(rows, executor.arrays)
    again.run(final=True)
    np.testing.assert_array_equal(again.read(rows.outputs[0]), found)
    physical = Executor(executor.program, executor.arrays, allocation=allocate(executor.program))
    physical.run(final=True)
    np.testing.assert_array_equal(physical.read(executor.program.outputs[0]), found)
    return found


SUM = """total = nl.zeros((128, 64), dtype=nl.float32)
tile = nl.ndarray((128, 64), dtype=nl.float32)
for i in nl.dynamic_range(n):
    nisa.dma_copy(dst=tile, src={source})
    nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
nl.store(out, total)"""


@pytest.mark.parametrize(
    "source",
    [
        "x[i]",
        "x.select(0, i)",
        "x.reshape((512, 64))[nl.ds(i, 128), :]",
        "x.ap([[64, 128], [1, 64]], scalar_offset=i)",
        "x.ap([[64, 128], [1, 64]], scalar_offset=i, indirect_dim=1)",
    ],
)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_register_moves_a_view_as_it_says(source: str, n: int) -> None:
    flat = X.reshape(-1)
    step = {"x[i]": 8192, "x.select(0, i)": 8192}.get(source, 64)
    if source.endswith("scalar_offset=i)"):
        step = 8192
    wanted = sum((flat[k * step : k * step + 8192].reshape(128, 64) for k in range(n)), np.zeros((128, 64), np.float32))
    np.testing.assert_array_equal(result(SUM.format(source=source), n), wanted)


def test_on_the_chip_a_register_moves_columns() -> None:
    text = """tile = nl.load(x[0])
moved = nl.zeros((128, 64), dtype=nl.float32)
for i in nl.dynamic_range(0, n, 2):
    nisa.tensor_copy(dst=moved[:, nl.ds(i, 3)], src=tile.ap([[64, 128], [1, 3]], scalar_offset=i, indirect_dim=1))
nl.store(out, moved)"""
    wanted = np.zeros((128, 64), np.float32)
    wanted[:, :7] = X[0][:, :7]
    np.testing.assert_array_equal(result(text, 5), wanted)


MATMUL = """left = nl.load(x[0])
total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum){outside}
sums = nl.zeros((128, 64), dtype=nl.float32)
for i in nl.dynamic_range(n):
    {inside}
    right = nl.load(x[i])
    nisa.nc_matmul(dst=total, stationary=left, moving=right{how})
    nisa.nc_matmul(dst=total, stationary=left, moving=right{how})
    nisa.tensor_copy(dst=sums[0:64, :], src=total)
nl.store(out, sums)"""
FRESH = "total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)"


@pytest.mark.parametrize(("inside", "how", "passes"), [
    ("pass", "", (0, 1, 2)),
    (FRESH, "", (2,)),
    ("pass", ", accumulate=None", (0, 1, 2)),
])  # fmt: skip
def test_the_first_matmul_of_a_tile_overwrites_and_the_others_add(
    inside: str, how: str, passes: tuple[int, ...]
) -> None:
    found = result(MATMUL.format(outside="", inside=inside, how=how))[:64]
    wanted = sum(2 * (X[0].T @ X[i]) for i in passes)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_loop_without_passes_leaves_a_tile_unmultiplied() -> None:
    text = """left = nl.load(x[0])
total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
for i in nl.dynamic_range(n):
    nisa.nc_matmul(dst=total, stationary=left, moving=left)
nisa.nc_matmul(dst=total, stationary=left, moving=left)
sums = nl.zeros((128, 64), dtype=nl.float32)
nisa.tensor_copy(dst=sums[0:64, :], src=total)
nl.store(out, sums)"""
    once = X[0].T @ X[0]
    for n in (0, 2):
        np.testing.assert_allclose(result(text, n)[:64], (n + 1) * once, rtol=1e-6)


def test_writing_to_the_variable_of_a_fori_loop_does_not_change_the_loop() -> None:
    text = """count = nl.zeros((128, 64), dtype=nl.float32)
def body(i):
    nisa.register_move(i, 100)
    nisa.tensor_scalar(dst=count, data=count, op0=nl.add, operand0=1.0)
nl.fori_loop(0, n, body)
nl.store(out, count)"""
    assert (result(text, 4) == 4).all()


def test_bounds_are_read_when_the_loop_is_entered() -> None:
    text = """count = nl.zeros((128, 64), dtype=nl.float32)
def body(i):
    nisa.register_move(n, 100)
    nisa.tensor_scalar(dst=count, data=count, op0=nl.add, operand0=1.0)
nl.fori_loop(0, n, body)
nl.store(out, count)"""
    assert (result(text, 4) == 4).all()


def test_a_while_loop_gets_and_gives_its_register_by_value() -> None:
    text = """count = nl.zeros((128, 64), dtype=nl.float32)
cell = nl.ndarray((1, 1), dtype=nl.int32)
def body(r):
    nisa.tensor_scalar(dst=count, data=count, op0=nl.add, operand0=1.0)
    nisa.register_store(dst=cell, src=r)
    nisa.register_move(r, 7)
    nisa.tensor_scalar(dst=cell, data=cell, op0=nl.subtract, operand0=1)
    left = nisa.register_alloc()
    nisa.register_load(left, cell)
    return left
nl.while_loop(n, body)
nl.store(out, count)"""
    for n in (0, 1, 5):
        assert (result(text, n) == n).all()


@pytest.mark.parametrize("value", [-5, -1])
def test_a_negative_count_makes_no_pass(value: int) -> None:
    text = "for i in nl.dynamic_range(n):\n    nisa.memset(dst=nl.load(x[0]), value=0.0)\n"
    assert machine_of(text, value).path.trips.tolist() == [0]


def test_a_float_register_is_a_condition_and_no_bound() -> None:
    text = "while n:\n    nisa.register_move(n, 0)\n"
    assert machine_of(text, 2, dtype="float32").path.trips.tolist() == [1]
    assert machine_of(text, 0, dtype="float32").path.trips.tolist() == [0]


def fault(text: str, n: int = 3, **more: Any) -> Any:
    """The finding with which a kernel body ends."""
    with pytest.raises(NkiError) as caught:
        machine_of(text, n, **more)
    return caught.value.diagnostics[0]


def test_an_index_outside_is_refused_in_the_pass_that_has_it() -> None:
    text = "for i in nl.dynamic_range(n):\n    nisa.dma_copy(dst=nl.ndarray((128, 64), dtype=nl.float32), src=x[i])\n"
    program, arguments = program_of(text, 9)
    executor = Executor(program, arguments)
    with pytest.raises(NkiError) as caught:
        executor.run(final=True)
    (found,) = caught.value.diagnostics
    assert (found.code, found.operand) == ("NKI310", "src")
    assert "run-time index 4" in found.message
    assert executor.path.trips.tolist() == [5]
    rows = executed(program, executor.path)
    assert len(rows) == executor.path.rows == 6
    assert rows.op(5).variant.instruction.name == "dma_copy"


def test_a_float_bound_is_refused_at_the_loop() -> None:
    found = fault("for i in nl.dynamic_range(n):\n    pass\n", 2, dtype="float32")
    assert found.code == "NKI319"
    assert "2.0 as float32" in found.message
    assert found.line


def test_a_register_that_nothing_wrote_is_refused_when_it_is_needed() -> None:
    assert fault("m = nisa.register_alloc()\nfor i in nl.dynamic_range(m):\n    pass\n").code == "NKI301"
    assert fault("m = nisa.register_alloc()\nwhile m:\n    pass\n").code == "NKI301"
    assert fault("m = nisa.register_alloc()\nnisa.register_move(n, m)\n").code == "NKI301"
    assert fault("m = nisa.register_alloc()\nnl.load(x[m])\n").code == "NKI301"


@pytest.mark.parametrize(
    "text",
    [
        "while n:\n    pass\n",
        "while n:\n    nisa.memset(dst=nl.ndarray((1, 1), dtype=nl.float32), value=1.0)\n",
        "while n:\n    for i in nl.dynamic_range(1):\n        pass\n",
        "for i in nl.dynamic_range(10**9):\n    nisa.memset(dst=nl.ndarray((1, 1), dtype=nl.float32), value=1.0)\n",
    ],
)
def test_a_loop_without_end_ends_with_the_budget(text: str) -> None:
    found = fault(text, max_instructions=500)
    assert found.code == "NKI011"
    assert "500 instructions" in found.message
    assert found.line


def test_a_loop_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    program, arguments = program_of("while n:\n    nisa.memset(dst=nl.ndarray((1, 1), dtype=nl.float32), value=1.0)\n")
    executor = Executor(program, arguments)
    passes = count()
    perform = executor.perform

    def performing(steps: Any) -> None:
        if next(passes) > 50:
            raise KeyboardInterrupt
        perform(steps)

    monkeypatch.setattr(executor, "perform", performing)
    with pytest.raises(KeyboardInterrupt):
        executor.run(final=True)
    assert 40 < executor.path.trips[0] < 60


def test_a_program_that_grows_after_a_loop_goes_on_from_there() -> None:
    program = Program("kernel", arch_of("trn2"), Options())
    builder = KernelBuilder(program)
    executor = Executor(program, {})
    with recording(builder):
        tile = nl.zeros((4, 4), dtype=nl.float32)
        for wanted in (3, 6):
            nl.fori_loop(0, 3, lambda i: add_one(tile))
            executor.run(final=False)
            assert (executor.read(tile) == wanted).all()
    assert executor.path.trips.tolist() == [3, 3]


def add_one(tile: Any) -> None:
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
