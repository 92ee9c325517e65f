"""Constants are left out where nothing can see them, and nowhere else."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from neuronxcc import nki

import nki_lab
from nki_lab.kernel_runtime.backend import DEAD, compiled
from nki_lab.kernel_runtime.ir import verify
from nki_lab.kernel_runtime.numerics.executor import Executor

COLUMNS = 16


@nki.jit
def written_in_parts(a, parts: tuple[tuple[int, int], ...], before: tuple[int, int]):
    """Copy parts of a tile over zeros, of which `before` columns are read before the last part is written."""
    tile = nl.load(a)
    result = nl.zeros((nl.par_dim(128), COLUMNS), a.dtype, buffer=nl.sbuf)
    seen = nl.ndarray((nl.par_dim(128), 1), a.dtype, buffer=nl.sbuf)
    for number, (begin, size) in enumerate(parts):
        if before[0] == number:
            seen[:, :] = nisa.tensor_copy(result[:, nl.ds(before[1], 1)])
        result[:, nl.ds(begin, size)] = nisa.tensor_copy(tile[:, nl.ds(begin, size)])
    out = nl.ndarray((2, 128, COLUMNS), a.dtype, buffer=nl.shared_hbm)
    nl.store(out[0], result)
    if 0 <= before[0] < len(parts):
        nl.store(out[1, :, 0:1], seen)
    return out


def left_out(parts: tuple[tuple[int, int], ...], before: tuple[int, int] = (-1, 0)) -> bool:
    """Return whether the zeros are left out, after a look at the results."""
    a = np.random.default_rng(0).normal(size=(128, COLUMNS)).astype(np.float32)
    spec = nki_lab.spec(a.shape, "float32")
    program = nki_lab.profile(written_in_parts, spec, parts=parts, before=before, target="trn1").program
    found = compiled(program, ("fills",))
    if found is None:
        return False
    verify(found.program)
    mine, other = ([read(item, a)] for item in (program, found.program))
    np.testing.assert_array_equal(mine, other)
    assert (found.stand_in == DEAD).sum() == 1
    return True


def read(program: Any, a: Any) -> Any:
    executor = Executor(program, {buffer.id: a for buffer in program.inputs})
    executor.run(final=True)
    return executor.read(program.outputs[0])[0]


@pytest.mark.parametrize(
    ("parts", "before", "expected"),
    [
        (((0, 16),), (-1, 0), True),
        (((0, 8), (8, 8)), (-1, 0), True),
        (((4, 12), (0, 5)), (-1, 0), True),
        (((0, 8), (9, 7)), (-1, 0), False),  # one column stays
        (((0, 16),), (0, 3), False),
        (((0, 8), (8, 8)), (1, 12), False),
        ((), (-1, 0), False),
    ],
)
def test_zeros_that_nothing_reads_are_left_out(parts: Any, before: tuple[int, int], expected: bool) -> None:
    assert left_out(parts, before) == expected


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(1, 16)), max_size=5))
def test_exactly_zeros_that_are_covered_are_left_out(drawn: list[tuple[int, int]]) -> None:
    parts = tuple((begin, min(size, COLUMNS - begin)) for begin, size in drawn)
    covered = {column for begin, size in parts for column in range(begin, begin + size)}
    assert left_out(parts) == (len(covered) == COLUMNS)
