"""The first NaN or infinity: who made it, and that masks are none."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError

ONES = np.ones((128, 64), np.float32)


def copied(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def logs(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    data = nl.load(x)
    shifted = nl.ndarray(x.shape, x.dtype)
    nisa.tensor_scalar(dst=shifted, data=data, op0=nl.subtract, operand0=1.0)
    scores = nl.ndarray(x.shape, x.dtype)
    nisa.activation(dst=scores, op=nl.log, data=shifted)
    nl.store(out, scores)
    return out


@nki.jit
def masked(x, then):
    """A softmax under a mask of infinities; `then` subtracts them from themselves."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    data = nl.load(x)
    nisa.affine_select(
        dst=data, pattern=[[-1, 64]], offset=0, channel_multiplier=1, cmp_op=nl.greater_equal, on_true_tile=data,
        on_false_value=float("-inf"),
    )  # fmt: skip
    top = nl.ndarray((128, 1), nl.float32)
    nisa.memset(dst=top, value=float("-inf"))
    if then:
        nisa.tensor_tensor(dst=data, data1=data, data2=data, op=nl.subtract)
    else:
        nisa.activation(dst=data, op=nl.exp, data=data)
    nl.store(out, data)
    return out


@nki.jit
def overflows(x):
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    narrow = nl.ndarray(x.shape, nl.float16)
    nisa.activation(dst=narrow, op=nl.copy, data=nl.load(x), scale=70000.0)
    nl.store(out, nl.copy(narrow, dtype=nl.float32))
    return out


@nki.jit
def unwritten(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    data = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=data[:, 0:32], src=x[:, 0:32])
    nisa.tensor_scalar(dst=data, data=data, op0=nl.add, operand0=1.0)
    nl.store(out, data)
    return out


def first(kernel: Any, *arguments: Any) -> Any:
    return nki_lab.run(kernel, *arguments, target="trn2").first_nonfinite()


def test_what_was_created_names_its_instruction() -> None:
    x = ONES + 1
    x[5, 9] = 1.0
    found = first(logs, x)
    assert found.instruction.name == "activation"
    assert found.tensor == "scores"
    assert found.index == (5, 9)
    assert found.value == -np.inf
    assert found.count == 1
    assert found.created
    assert found.inputs == ()
    assert "all its inputs were finite" in str(found)


def test_an_argument_with_nan_is_inherited_by_the_first_that_reads_it() -> None:
    x = ONES.copy()
    x[2, 3] = np.nan
    found = first(logs, x)
    assert found.instruction.name == "dma_copy"
    assert found.step == 0
    assert not found.created
    assert found.inputs == ("src",)
    assert "read NaN from src" in str(found)


def test_infinities_of_masks_are_no_finding() -> None:
    assert first(masked, ONES, False) is None


def test_nan_made_of_infinities_is_one() -> None:
    found = first(masked, ONES, True)
    assert found.instruction.name == "tensor_tensor"
    assert np.isnan(found.value)
    assert found.created
    assert set(found.inputs) == {"data1", "data2"}
    assert "had infinities" in str(found)


def test_an_overflow_is_created() -> None:
    found = first(overflows, ONES)
    assert (found.tensor, found.value, found.count) == ("narrow", np.inf, ONES.size)


def test_an_argument_with_an_infinity_passes() -> None:
    x = ONES.copy()
    x[0, 0] = np.inf
    assert first(nki.jit(copied), x) is None


def test_memory_that_nothing_wrote_is_inherited() -> None:
    found = first(unwritten, ONES)
    assert found.instruction.name == "tensor_scalar"
    assert not found.created


def test_a_search_without_time_says_how_far_it_came() -> None:
    run = nki_lab.run(logs, ONES + 1, target="trn2")
    with pytest.raises(NkiError, match="NKI028"):
        run.first_nonfinite(seconds=-1)
    assert run.first_nonfinite() is None
