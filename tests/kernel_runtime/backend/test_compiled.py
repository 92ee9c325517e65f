"""The compiler model changes when and where instructions run, never what they compute."""

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
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.backend import COMPILER_STEPS, DEAD, STEPS, Compiled, compiled
from nki_lab.kernel_runtime.ir import Program, verify
from nki_lab.kernel_runtime.numerics.executor import Executor

Kernel = Callable[..., Any]
RANDOM = np.random.default_rng(0)
WIDE = RANDOM.normal(size=(4, 128, 512)).astype(np.float32)
MANY = RANDOM.normal(size=(60, 128, 1024)).astype(np.float32)
SQUARE = RANDOM.normal(size=(128, 128)).astype(np.float32)


@nki.jit
def repeated(a):
    """Load the same tiles in each iteration, and compute the same of them."""
    out = nl.ndarray((3, 4, 128, 512), a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(3):
        for j in nl.affine_range(4):
            tile = nl.load(a[j])
            nl.store(out[i, j], nl.multiply(nl.exp(tile), tile))
    return out


@nki.jit
def dropped(a):
    """Drop other elements of one tile in each iteration."""
    out = nl.ndarray((3, 128, 512), a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a[0])
    for i in nl.affine_range(3):
        nl.store(out[i], nl.dropout(tile, 0.5))
    return out


@nki.jit
def rewritten(a):
    """Load what the kernel writes in between."""
    out = nl.ndarray((128, 512), a.dtype, buffer=nl.shared_hbm)
    for i in nl.sequential_range(3):
        tile = nl.load(a[0] if i == 0 else out)
        nl.store(out, nl.add(tile, 1.0))
    return out


@nki.jit
def transposed(a, w):
    """Transpose the same tiles for each product; results leave PSUM."""
    out = nl.ndarray((2, 4, 128, 128), a.dtype, buffer=nl.shared_hbm)
    weights = nl.load(w)
    for i in nl.affine_range(2):
        for j in nl.affine_range(4):
            turned = nl.ndarray((nl.par_dim(128), 4, 128), a.dtype, buffer=nl.sbuf)
            tile = nl.load(a[j])
            for k in nl.affine_range(4):
                turned[:, k, :] = nl.copy(nisa.nc_transpose(tile[:, nl.ds(k * 128, 128)]))
            total = nl.zeros((128, 128), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(4):
                total += nisa.nc_matmul(turned[:, k, :], weights)
            nl.store(out[i, j], nl.copy(total))
    return out


@nki.jit
def overfull(a):
    """Keep 60 loaded tiles of 4 KiB a partition, of which each half is read in turn."""
    out = nl.ndarray((2, 128, 512), a.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((60, nl.par_dim(128), 1024), a.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(60):
        kept[i] = nl.load(a[i])
    for half in nl.affine_range(2):
        total = nl.zeros((128, 512), a.dtype, buffer=nl.sbuf)
        for i in nl.affine_range(60):
            total += kept[i][:, nl.ds(512 * half, 512)]
        nl.store(out[half], total)
    return out


@nki.jit
def overflowing(a):
    """Keep 60 computed tiles of 4 KiB a partition."""
    out = nl.ndarray((60, 128, 1024), a.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((60, nl.par_dim(128), 1024), a.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(60):
        kept[i] = nl.exp(nl.load(a[i]))
    for i in nl.affine_range(60):
        nl.store(out[i], nl.add(kept[i], kept[59 - i]))
    return out


@nki.jit
def softmax(a):
    """Divide exponentials by their sums, which other instructions add up; the second sum is of an earlier state."""
    out = nl.ndarray((2, 128, 512), a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        power = nisa.activation(nl.exp, data=nl.load(a[i]), scale=0.1)
        total = nisa.tensor_reduce(np.add, data=power, axis=(1,))
        if i:
            power[...] = nl.add(power, 1.0)
            total = nl.add(total, nisa.tensor_reduce(np.add, data=power, axis=(1,)))
        nl.store(out[i], nl.divide(power, total))
    return out


CASES = (
    (repeated, (WIDE,)),
    (rewritten, (WIDE,)),
    (transposed, (WIDE, SQUARE)),
    (overfull, (MANY,)),
    (overflowing, (MANY,)),
)


def program_of(kernel: Kernel, *arrays: Any, **options: Any) -> Program:
    return nki_lab.profile(
        kernel, *(nki_lab.spec(a.shape, "float32") for a in arrays), target="trn1", **options
    ).program


def results(program: Program, arrays: tuple[Any, ...]) -> list[Any]:
    executor = Executor(program, {buffer.id: array for buffer, array in zip(program.inputs, arrays, strict=True)})
    executor.run(final=True)
    return [executor.read(tensor) for tensor in program.outputs]


def made(program: Program, *steps: str) -> Compiled:
    found = compiled(program, steps or COMPILER_STEPS)
    assert found is not None
    return found


@pytest.mark.parametrize(("kernel", "arrays"), CASES, ids=lambda item: getattr(item, "__name__", ""))
def test_the_compiled_rows_compute_the_same(kernel: Kernel, arrays: tuple[Any, ...]) -> None:
    program = program_of(kernel, *arrays)
    found = compiled(program)
    if found is None:
        assert kernel is rewritten
        return
    verify(found.program)
    for mine, other in zip(results(program, arrays), results(found.program, arrays), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize(("kernel", "arrays"), CASES, ids=lambda item: getattr(item, "__name__", ""))
def test_each_row_of_the_program_is_executed_or_accounted_for(kernel: Kernel, arrays: tuple[Any, ...]) -> None:
    program = program_of(kernel, *arrays)
    found = compiled(program)
    if found is None:
        return
    executed = found.source[found.source >= 0]
    assert len(np.unique(executed)) == len(executed)
    left_out = np.setdiff1d(np.arange(len(program)), executed)
    assert (found.stand_in[executed] == executed).all()
    assert np.isin(found.stand_in[left_out], np.append(executed, DEAD)).all()


def test_repeated_tiles_are_loaded_and_computed_once() -> None:
    found = made(program_of(repeated, WIDE), "repeats")
    names = [found.program.variant_of(row).instruction.name for row in range(len(found.program))]
    assert names.count("activation") == 4  # the exponential of each of four tiles
    assert sum(name == "dma_copy" for name in names) == 4 + 12  # as many loads, and all stores


def test_random_numbers_are_drawn_anew_each_time() -> None:
    assert compiled(program_of(dropped, WIDE), ("repeats",)) is None


def test_a_tensor_that_the_kernel_writes_is_loaded_each_time() -> None:
    assert compiled(program_of(rewritten, WIDE), ("repeats",)) is None


def test_what_is_too_large_is_loaded_where_it_is_read() -> None:
    program = program_of(overfull, MANY)
    found = made(program, "spills")
    assert allocate(program).sbuf_peak > program.arch.sbuf_usable_bytes
    assert allocate(found.program).sbuf_peak <= program.arch.sbuf_usable_bytes
    halves = [op for op in found.program.ops() if any(view.buffer in program.inputs for view in op.reads)]
    assert len(halves) == 2 * 60  # only the half that is read
    assert {op.reads[0].type.shape for op in halves} == {(128, 512)}


def test_what_is_computed_waits_in_hbm() -> None:
    program = program_of(overflowing, MANY)
    found = made(program, "spills")
    assert allocate(found.program).sbuf_peak <= program.arch.sbuf_usable_bytes
    assert found.notes["tiles saved to HBM"] > 0
    assert (
        len(found.program)
        == len(program) + found.notes["tiles saved to HBM"] + found.notes["tiles loaded from HBM again"]
    )


def test_a_sum_of_what_an_activation_wrote_is_a_part_of_it() -> None:
    program = program_of(softmax, WIDE)
    found = made(program, "sums")
    verify(found.program)
    assert found.notes == {"sums merged into activations": 1}  # the other tile is written twice
    assert len(found.program) == len(program) - 1
    (left_out,) = np.flatnonzero(found.stand_in != np.arange(len(program))).tolist()
    assert program.variant_of(left_out).instruction.name == "tensor_reduce"
    assert program.variant_of(int(found.stand_in[left_out])).instruction.name == "activation"
    for mine, other in zip(results(program, (WIDE,)), results(found.program, (WIDE,)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)


def test_copies_that_name_no_engine_leave_the_vector_engine() -> None:
    program = program_of(transposed, WIDE, SQUARE)
    found = made(program, "engines")
    moved = [found.program.op(int(row)) for row in np.flatnonzero(found.moved)]
    assert {(op.variant.instruction.role, op.variant.engine) for op in moved} == {("copy", "scalar")}


def test_a_step_has_evidence_and_dialects() -> None:
    assert tuple(STEPS) == COMPILER_STEPS
    assert all(step.run.__doc__ and step.dialects == ("beta1",) for step in STEPS.values())


def test_the_current_dialect_keeps_its_program() -> None:
    program = program_of(repeated, WIDE)
    program.dialect = "current"
    assert compiled(program) is None


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(
        ValueError, match=f"compiler_model names guesses; choose all, none, or {', '.join(COMPILER_STEPS)}"
    ):
        nki_lab.Options(compiler_model="engines,guesses")


@settings(max_examples=15, deadline=None)
@given(st.sets(st.sampled_from(COMPILER_STEPS)), st.sampled_from(CASES))
def test_any_steps_compute_the_same(steps: set[str], case: tuple[Kernel, tuple[Any, ...]]) -> None:
    kernel, arrays = case
    program = program_of(kernel, *arrays)
    found = compiled(program, tuple(steps))
    if found is not None:
        verify(found.program)
        for mine, other in zip(results(program, arrays), results(found.program, arrays), strict=True):
            np.testing.assert_array_equal(mine, other)
