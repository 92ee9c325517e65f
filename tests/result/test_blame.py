"""Numeric blame: it finds what was planted, and nothing in kernels that keep their precision."""

from __future__ import annotations

import dataclasses
import html
import linecache
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.result import Run
from nki_lab.result.blame import default_tolerance, prevailing_dtype
from nki_lab.result.tensors import Instruction
from nki_lab.testing import tolerance
from tests.result.precision_kernels import SUBJECTS, Subject, gather, matmul_by_k

NAMED = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)


@nki.jit
def compares(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    data = nl.load(x)
    nisa.tensor_scalar(dst=data, data=data, op0=nl.greater, operand0=0.1, op1=nl.multiply, operand1=3.0)
    nl.store(out, data)
    return out


def run_of(subject: Subject, low: Any, seed: int = 3) -> Run:
    arguments = subject.arguments(np.random.default_rng(seed))
    return nki_lab.run(subject.kernel, *arguments, low, target="trn2", **subject.keywords)


def source_line(instruction: Instruction) -> str:
    return linecache.getline(instruction.file, instruction.line)


@NAMED
def test_the_planted_instruction_is_blamed(subject: Subject) -> None:
    run = run_of(subject, subject.coarse)
    blame = run.blame()
    assert blame
    assert "# planted" in source_line(blame.instruction), str(blame)
    assert blame.blamed is not None
    assert blame.blamed.introduced > blame.tolerance
    # The path leads from it to a result. Its last error is of the rows that one instruction writes, not of whole rows.
    assert blame.path[0].instruction == blame.instruction
    (out,) = run.program.outputs
    assert blame.path[-1].tensor == run._tensors.labels[out._buffer.id]
    assert blame.path[-1].error == pytest.approx(max(item.error for item in blame.outputs), rel=0.3)
    assert blame.total[blame.step] == pytest.approx(blame.path[0].error)
    assert blame.introduced[blame.step] == pytest.approx(blame.blamed.introduced)
    assert str(blame.instruction) in str(blame)


@NAMED
@pytest.mark.parametrize("seed", [3, 4])
def test_nothing_is_blamed_where_nothing_was_planted(subject: Subject, seed: int) -> None:
    blame = run_of(subject, subject.fine, seed).blame()
    assert not blame, str(blame)
    assert blame.complete
    assert blame.path == ()
    assert not np.isnan(blame.introduced).any()
    assert max(item.error for item in blame.outputs) < 4 * blame.tolerance


# -- what it says ------------------------------------------------------------------------------------------------------


def subject(name: str) -> Subject:
    return next(item for item in SUBJECTS if item.name == name)


def test_a_rounding_is_told_from_an_amplification() -> None:
    rounded, amplified = (
        run_of(item, item.coarse).blame() for item in (subject("softmax, exp in bfloat16"), subject("large shift"))
    )
    assert "rounded to bfloat16" in str(rounded)
    assert "makes the rounding errors of its inputs larger" in str(amplified)


def test_the_error_of_an_instruction_is_told_from_that_of_its_inputs() -> None:
    item = subject("chain, a link in float16")
    blame = run_of(item, item.coarse).blame()
    step = blame.step
    assert step is not None
    later = blame.path[-1].instruction.step
    assert blame.blamed is not None
    assert blame.blamed.inherited < 1e-6 < blame.introduced[step]
    assert blame.total[later] > 1e-4
    assert blame.introduced[later] < 1e-7  # a transfer rounds nothing but its exact input to float32
    assert not (blame.introduced[: step - 1] > blame.tolerance).any()


def test_a_tolerance_of_ones_own_is_used() -> None:
    item = subject("softmax, exp in bfloat16")
    run = run_of(item, item.coarse)
    assert not run.blame(tolerance=0.1)
    assert run.blame(tolerance=1e-3)
    assert run.blame(tolerance=1e-12).step <= run.blame().step
    assert "that of" not in str(run.blame(tolerance=0.1))


def test_numbers_that_need_no_rounding_have_no_error() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((4, 128, 64), (4, 128, 128)))
    blame = nki_lab.run(matmul_by_k, a, b, np.float32, target="trn2").blame()
    assert not blame.total.any()
    assert not blame.introduced.any()
    assert [item.error for item in blame.outputs] == [0.0]


def test_a_reference_that_exact_arithmetic_misses_is_no_matter_of_rounding() -> None:
    item = subject("sum in bfloat16")
    run = run_of(item, item.coarse)
    (x,) = item.arguments(np.random.default_rng(3))
    right, wrong = x.sum(axis=0), x.sum(axis=0) * 1.5
    good = run.blame(against=right)
    assert not good.algorithm_differs
    assert "rounded to bfloat16" in good.headline
    (result,) = good.outputs
    assert result.to_reference == pytest.approx(result.error, rel=1e-3)
    assert result.exact_to_reference < good.tolerance
    bad = run.blame(against=lambda *_: wrong)
    assert bad.algorithm_differs
    assert "rounding is not the cause" in bad.headline
    assert "rounding: tensor_tensor" in str(bad)


def test_a_reference_that_is_rounded_itself_leaves_the_blame_with_the_run() -> None:
    item = subject("softmax, exp in bfloat16")
    run = run_of(item, item.coarse)
    exact = run.values.shadow(len(run.program), run.program.outputs[0])
    assert exact is not None
    coarse = exact * (1 + 2e-5 * np.sin(np.arange(exact.size)).reshape(exact.shape))
    blame = run.blame(against=coarse)
    assert blame.outputs[0].exact_to_reference > blame.tolerance
    assert not blame.algorithm_differs


def test_a_failed_check_names_the_cause() -> None:
    item = subject("sum in bfloat16")
    run = run_of(item, item.coarse)
    (x,) = item.arguments(np.random.default_rng(3))
    with pytest.raises(AssertionError, match=r"cause: tensor_tensor #\d+, line \d+"):
        run.check(x.sum(axis=0))
    with pytest.raises(AssertionError, match="rounding is not the cause"):
        run.check(x.sum(axis=0) + 1)
    with pytest.raises(AssertionError, match="shapes differ"):
        run.check(x)
    run_of(item, item.fine).check(x.sum(axis=0))


def test_a_search_without_time_is_not_complete() -> None:
    item = subject("chain, a link in float16")
    blame = run_of(item, item.coarse).blame(seconds=-1)
    assert not blame
    assert not blame.complete
    assert np.isnan(blame.introduced).all()
    assert "0 of" in str(blame)


def test_html_shows_the_same_and_escapes_names() -> None:
    item = subject("chain, a link in float16")
    blame = run_of(item, item.coarse).blame()
    page = dataclasses.replace(blame, kernel="<b>k</b>")._repr_html_()
    assert "<b>k</b>" not in page
    assert "&lt;b&gt;k&lt;/b&gt;" in page
    assert html.escape(str(blame.instruction)) in page
    assert "<svg role=" in page
    empty = dataclasses.replace(blame, introduced=np.full(3, np.nan), total=np.full(3, np.nan), complete=False)
    assert "<svg" not in empty._repr_html_()


def test_where_exact_values_begin_again_is_said() -> None:
    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    blame = nki_lab.run(compares, x, target="trn2").blame()
    assert not blame
    assert len(blame.restarts) == 1
    assert "tensor_scalar #2" in blame.restarts[0]
    assert "jumps" in blame.restarts[0]
    assert "exact values begin again" in str(blame)


def test_runs_without_values_say_why() -> None:
    profile = nki_lab.profile(compares, nki_lab.spec((128, 64), "float32"), target="trn2")
    for ask in (profile.blame, profile.first_nonfinite, lambda: profile.tile("x")):
        with pytest.raises(NkiError, match=r"NKI028.*profile"):
            ask()
    x = np.ones((128, 64), np.float32)
    small = nki_lab.run(compares, x, target="trn2", replay_bytes=x.nbytes)
    with pytest.raises(NkiError, match="NKI028"):
        small.blame()
    with pytest.raises(NkiError, match="replay_bytes"):
        small.values.shadow(len(small.program), small.program.outputs[0])


def test_a_kernel_that_failed_is_blamed_up_to_its_fault() -> None:
    table = np.ones((300, 64), np.float32)
    rows = np.full((128, 1), 1000, np.int32)
    run = nki_lab.run(gather, table, rows, np.float32, target="trn2", on_error="report")
    assert run.error is not None
    blame = run.blame()
    assert not blame
    assert not blame.complete
    assert run.first_nonfinite() is None


# -- memory and dtypes that several tensors share ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["matmul, fp8 in bfloat16", "causal attention, scores in fp8", "sum in bfloat16"])
def test_tensors_at_their_addresses_are_blamed_alike(name: str) -> None:
    item = subject(name)
    arguments = item.arguments(np.random.default_rng(3))
    virtual = run_of(item, item.coarse).blame()
    physical = nki_lab.run(item.kernel, *arguments, item.coarse, target="trn2", memory="physical").blame()
    assert physical.instruction == virtual.instruction
    np.testing.assert_allclose(physical.total, virtual.total, rtol=0.05, atol=1e-6)
    assert not nki_lab.run(item.kernel, *arguments, item.fine, target="trn2", memory="physical").blame()


@nki.jit
def through_another_tensor(x):
    """Rounds in one tensor, and reads the bytes through another one at the same address."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    first = nl.ndarray(x.shape, nl.float32, address=(0, 0))
    nisa.dma_copy(dst=first, src=x)
    nisa.tensor_scalar(dst=first, data=first, op0=nl.multiply, operand0=1 / 3)
    second = nl.ndarray(x.shape, nl.float32, address=(0, 0))
    nisa.tensor_scalar(dst=second, data=second, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=second)
    return out


@nki.jit
def through_bits(x):
    """Clears the lower half of each number, as a conversion to bfloat16 that does not round would."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    data = nl.load(x)
    nisa.tensor_scalar(dst=data, data=data, op0=nl.multiply, operand0=1 / 3)
    bits = data.view(nl.int32)
    nisa.tensor_scalar(dst=bits, data=bits, op0=nl.bitwise_and, operand0=-65536)
    nisa.tensor_scalar(dst=data, data=data, op0=nl.add, operand0=1.0)
    nl.store(out, data)
    return out


@pytest.mark.parametrize("kernel", [through_another_tensor, through_bits])
def test_bytes_that_come_another_way_are_exact_as_they_are(kernel: Any) -> None:
    x = np.random.default_rng(0).standard_normal((128, 32)).astype(np.float32)
    run = nki_lab.run(kernel, x, target="trn2")
    exact = run.values.shadow(len(run.program), run.program.outputs[0])
    third = x * np.float32(1 / 3)
    if kernel is through_bits:
        third = (third.view(np.int32) & -65536).view(np.float32)
    assert np.array_equal(exact, third.astype(np.float64) + 1)
    assert not run.blame()


def test_a_rank_is_blamed_on_its_own() -> None:
    item = subject("chain, a link in float16")
    arguments = (*item.arguments(np.random.default_rng(3)), item.coarse)
    for run in nki_lab.run_ranks(item.kernel, [arguments, arguments], target="trn2"):
        assert "# planted" in source_line(run.blame().instruction)


@pytest.mark.parametrize(
    ("inputs", "output", "prevailing"),
    [
        (("float32",), "float32", "float32"),
        (("float32", "bfloat16"), "float32", "bfloat16"),
        (("float32", "int32"), "float16", "float16"),
        (("float8_e4m3", "float32"), "bfloat16", "float8_e4m3"),
        (("int32",), "int32", "float32"),
    ],
)
def test_the_coarsest_dtype_that_comes_or_goes_prevails(inputs: Any, output: str, prevailing: str) -> None:
    @nki.jit
    def moves(*tensors):
        out = nl.ndarray((128, 8), getattr(nl, output), buffer=nl.shared_hbm)
        for tensor in tensors:
            nisa.dma_copy(dst=out, src=nl.load(tensor))
        return out

    specs = [nki_lab.spec((128, 8), dtype) for dtype in inputs]
    program = nki_lab.compile(moves, *specs, target="trn2")
    kind = prevailing_dtype(program)
    assert kind.name == prevailing
    assert default_tolerance(kind) >= max(tolerance(kind), 4 * 2.0 ** -(kind.mantissa_bits + 1))
