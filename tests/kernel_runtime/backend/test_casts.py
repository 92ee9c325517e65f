"""Copies to another dtype, and sums in columns of one tile, become part of the instruction before them."""

from __future__ import annotations

from collections import Counter

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from neuronxcc import nki

from nki_lab.kernel_runtime.backend import compiled
from nki_lab.kernel_runtime.ir import verify
from tests.kernel_runtime.backend.test_compiled import Kernel, made, program_of, results

RANDOM = np.random.default_rng(0)
TILES = RANDOM.normal(size=(4, 128, 256)).astype(np.float32)


@nki.jit
def cast(a):
    """Compute in float32, and store what a copy casts."""
    out = nl.ndarray((4, 128, 256), nl.bfloat16, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        power = nisa.activation(nl.exp, data=nl.load(a[i]))
        nl.store(out[i], nl.copy(power, dtype=nl.bfloat16))
    return out


@nki.jit
def read_twice(a):
    """Store the results in both dtypes."""
    out = nl.ndarray((4, 128, 256), nl.bfloat16, buffer=nl.shared_hbm)
    whole = nl.ndarray((4, 128, 256), nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        power = nisa.activation(nl.exp, data=nl.load(a[i]))
        nl.store(out[i], nl.copy(power, dtype=nl.bfloat16))
        nl.store(whole[i], power)
    return out, whole


@nki.jit
def in_parts(a):
    """Cast halves of results, each by itself."""
    out = nl.ndarray((4, 128, 256), nl.bfloat16, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        power = nisa.activation(nl.exp, data=nl.load(a[i]))
        half = nl.ndarray((128, 256), nl.bfloat16, buffer=nl.sbuf)
        for part in (0, 128):
            half[:, nl.ds(part, 128)] = nl.copy(power[:, nl.ds(part, 128)], dtype=nl.bfloat16)
        nl.store(out[i], half)
    return out


@nki.jit
def columns(a):
    """Add exponentials up into the columns of one tile, one of which is read before the next ones are written."""
    out = nl.ndarray((128, 4), nl.float32, buffer=nl.shared_hbm)
    first = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray((128, 4), nl.float32, buffer=nl.sbuf)
    for i in range(4):
        power = nisa.activation(nl.exp, data=nl.load(a[i]))
        if i == 2:
            nl.store(first, nl.copy(sums[:, 0:1]))
        sums[:, i : i + 1] = nisa.tensor_reduce(np.add, data=power, axis=(1,))
    nl.store(out, sums)
    return out, first


def counts(kernel: Kernel, step: str) -> tuple[Counter[str], int]:
    """The instructions that are left, and how many there were."""
    program = program_of(kernel, TILES)
    found = made(program, step)
    verify(found.program)
    names = (found.program.variant_of(row).instruction.name for row in range(len(found.program)))
    for mine, other in zip(results(program, (TILES,)), results(found.program, (TILES,)), strict=True):
        np.testing.assert_allclose(
            mine.astype(np.float64), other.astype(np.float64), rtol=0 if step == "casts" else 1e-6
        )
    return Counter(names), len(program)


def test_a_copy_to_another_dtype_is_left_out() -> None:
    names, before = counts(cast, "casts")
    assert "tensor_copy" not in names
    assert sum(names.values()) == before - 4


@pytest.mark.parametrize("kernel", [read_twice, in_parts])
def test_a_copy_stays_where_more_is_read_or_less_is_written(kernel: Kernel) -> None:
    assert compiled(program_of(kernel, TILES), ("casts",)) is None


def test_sums_go_to_the_columns_of_a_tile_that_others_read() -> None:
    names, _ = counts(columns, "sums")
    assert "tensor_reduce" not in names
