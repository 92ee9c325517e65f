"""Iterations of tiny instructions go together where that changes no result, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from neuronxcc import nki

import nki_lab
from nki_lab.kernel_runtime.backend import Compiled, compiled
from nki_lab.kernel_runtime.ir import Program, verify
from nki_lab.kernel_runtime.numerics.executor import Executor

Kernel = Callable[..., Any]
RANDOM = np.random.default_rng(0)


@nki.jit
def windows(a, w, outer: int, inner: int, step: int, width: int):
    """Add up the products of `width` columns each, `step` apart, with the same `width` weights."""
    image, weights = nl.load(a), nl.load(w)
    sums = nl.ndarray((nl.par_dim(128), outer * inner), a.dtype, buffer=nl.sbuf)
    at = nl.arange(128)[:, None]
    for i in nl.affine_range(outer):
        for j in nl.affine_range(inner):
            place = i * inner + j
            product = nisa.tensor_tensor(
                image[at, place * step + nl.arange(width)[None, :]], weights[at, nl.arange(width)[None, :]], np.multiply
            )
            sums[at, place] = nisa.tensor_reduce(np.add, product, axis=[1])
    out = nl.ndarray((128, outer * inner), a.dtype, buffer=nl.shared_hbm)
    nl.store(out, sums)
    return out


@nki.jit
def carried(a):
    """Let each column follow from the one before it."""
    tile = nl.load(a)
    for j in nl.affine_range(7):
        tile[:, nl.ds(j + 1, 1)] = nisa.tensor_tensor(tile[:, nl.ds(j, 1)], tile[:, nl.ds(j + 1, 1)], np.add)
    out = nl.ndarray((128, 8), a.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def overlapping(a):
    """Write two columns in each iteration, of which the next one writes the second again."""
    tile = nl.load(a)
    sums = nl.ndarray((nl.par_dim(128), 8), a.dtype, buffer=nl.sbuf)
    for j in nl.affine_range(7):
        sums[:, nl.ds(j, 2)] = nisa.tensor_scalar(tile[:, nl.ds(j, 2)], np.multiply, 2.0)
    out = nl.ndarray((128, 8), a.dtype, buffer=nl.shared_hbm)
    nl.store(out, sums)
    return out


@nki.jit
def summed(a):
    """Add to one column in each iteration."""
    tile = nl.load(a)
    total = nl.zeros((nl.par_dim(128), 1), a.dtype, buffer=nl.sbuf)
    for j in nl.affine_range(8):
        total += tile[:, nl.ds(j, 1)]
    out = nl.ndarray((128, 1), a.dtype, buffer=nl.shared_hbm)
    nl.store(out, total)
    return out


@nki.jit
def in_order(a):
    """Double each column, in a loop whose order counts."""
    tile = nl.load(a)
    twice = nl.ndarray((nl.par_dim(128), 8), a.dtype, buffer=nl.sbuf)
    for j in nl.sequential_range(8):
        twice[:, nl.ds(j, 1)] = nisa.tensor_scalar(tile[:, nl.ds(j, 1)], np.multiply, 2.0)
    out = nl.ndarray((128, 8), a.dtype, buffer=nl.shared_hbm)
    nl.store(out, twice)
    return out


@nki.jit
def scaled(a):
    """Multiply each column with another per-partition number, as one instruction cannot."""
    tile = nl.load(a)
    twice = nl.ndarray((nl.par_dim(128), 8), a.dtype, buffer=nl.sbuf)
    for j in nl.affine_range(8):
        twice[:, nl.ds(j, 1)] = nisa.tensor_scalar(tile[:, nl.ds(j, 1)], np.multiply, tile[:, nl.ds(7 - j, 1)])
    out = nl.ndarray((128, 8), a.dtype, buffer=nl.shared_hbm)
    nl.store(out, twice)
    return out


def program_of(kernel: Kernel, *arrays: Any, **arguments: Any) -> Program:
    specs = [nki_lab.spec(item.shape, "float32") for item in arrays]
    return nki_lab.profile(kernel, *specs, **arguments, target="trn1").program


def results(program: Program, arrays: tuple[Any, ...]) -> list[Any]:
    executor = Executor(program, {buffer.id: array for buffer, array in zip(program.inputs, arrays, strict=True)})
    executor.run(final=True)
    return [executor.read(tensor) for tensor in program.outputs]


def checked(program: Program, arrays: tuple[Any, ...]) -> Compiled | None:
    """Return what the step makes, after a look at what must hold of it: each row is executed once, in equal results."""
    found = compiled(program, ("loops",))
    if found is None:
        return None
    verify(found.program)
    assert sorted(found.source.tolist()) == np.flatnonzero(found.stand_in == np.arange(len(program))).tolist()
    assert np.isin(found.stand_in, found.source).all()
    for mine, other in zip(results(program, arrays), results(found.program, arrays), strict=True):
        np.testing.assert_array_equal(mine, other)
    again = compiled(program, ("loops",))
    assert again is not None
    assert again.program.text() == found.program.text()
    return found


def of_windows(outer: int, inner: int, step: int, width: int) -> tuple[int, int]:
    """Return how many products the kernel `windows` has, and how many are left."""
    a = RANDOM.normal(size=(128, (outer * inner - 1) * step + width)).astype(np.float32)
    w = RANDOM.normal(size=(128, width)).astype(np.float32)
    program = program_of(windows, a, w, outer=outer, inner=inner, step=step, width=width)
    found = checked(program, (a, w))
    executed = program if found is None else found.program
    return tuple(
        sum(item.op(row).variant.instruction.name == "tensor_tensor" for row in range(len(item)))
        for item in (program, executed)
    )


@pytest.mark.parametrize(
    ("outer", "inner", "width", "left"),
    [
        (32, 64, 3, 16),  # 64 fit, then two of 64
        (64, 32, 3, 16),
        (16, 128, 3, 16),
        (1, 64, 3, 1),
        (3, 5, 7, 1),
        (1, 2048, 3, 2048),  # more than fit: the loop stays
        (2, 256, 3, 512),
        (7, 4, 100, 7),  # no two iterations of the outer loop fit
        (4, 1, 300, 4),  # no two instructions fit
    ],
)
def test_as_many_iterations_go_together_as_fit(outer: int, inner: int, width: int, left: int) -> None:
    assert of_windows(outer, inner, 1, width) == (outer * inner, left)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 4), st.integers(1, 40))
def test_windows_that_overlap_may_be_read_together(outer: int, inner: int, step: int, width: int) -> None:
    before, after = of_windows(outer, inner, step, width)
    assert before == outer * inner >= after
    if inner * width <= 512:
        assert after <= outer


@pytest.mark.parametrize("kernel", [carried, overlapping, summed, in_order, scaled])
def test_iterations_that_depend_on_each_other_stay(kernel: Kernel) -> None:
    a = RANDOM.normal(size=(128, 8)).astype(np.float32)
    assert checked(program_of(kernel, a), (a,)) is None


def test_a_row_stands_for_those_that_went_with_it() -> None:
    a, w = np.zeros((128, 66), np.float32), np.zeros((128, 3), np.float32)
    arguments = {"outer": 1, "inner": 64, "step": 1, "width": 3, "target": "trn1"}
    done = nki_lab.profile(windows, *(nki_lab.spec(item.shape, "float32") for item in (a, w)), **arguments)
    assert done.summary["compiler_model"]["instructions that became one with others"] == 126
    stands_for = done.recording.table("changes")["stands_for"][:].tolist()
    assert stands_for.count(64) == 2
    assert done.summary["makespan_ns"] < done.summary["makespan_without_compiler_model_ns"]
