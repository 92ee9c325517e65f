"""Partitions are repeated by products, with the same values."""

from __future__ import annotations

from collections import Counter
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
from nki_lab.kernel_runtime.tensor import psum

RANDOM = np.random.default_rng(0)


@nki.jit
def scaled(a, w, reads: int):
    """Multiply rows by one row, which is read `reads` times."""
    rows, columns = a.shape
    out = nl.ndarray((reads, rows, columns), a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    weights = nl.load(w).broadcast_to((rows, columns))
    for i in nl.affine_range(reads):
        nl.store(out[i], nisa.tensor_tensor(tile, weights, np.multiply))
    return out


@nki.jit
def of_states(a, w):
    """Load and repeat the same rows for each of two tiles: in the inner loop, as the mamba tutorial's version 2 does."""
    out = nl.ndarray((2, 3, 128, 64), a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        tile = nl.load(a[i])
        for j in nl.affine_range(3):
            weights = nl.load(w[j : j + 1, 0:64]).broadcast_to((128, 64))
            nl.store(out[i, j], nisa.tensor_tensor(tile, weights, np.multiply))
    return out


@nki.jit
def of_tiles(a, w):
    """Repeat a row again for each tile of the inner loop, as version 1 does."""
    out = nl.ndarray((2, 3, 128, 64), a.dtype, buffer=nl.shared_hbm)
    for j in nl.affine_range(3):
        for i in nl.affine_range(2):
            tile = nl.load(a[i])
            weights = nl.load(w[j : j + 1, 0:64]).broadcast_to((128, 64))
            nl.store(out[i, j], nisa.tensor_tensor(tile, weights, np.multiply))
    return out


def made(kernel: Callable[..., Any], arrays: tuple[Any, ...], *steps: str, **arguments: Any) -> Compiled:
    """Return what the compiler makes of a kernel, which computes the same."""
    specs = [nki_lab.spec(item.shape, "float32") for item in arrays]
    program = nki_lab.profile(kernel, *specs, **arguments, target="trn1").program
    found = compiled(program, steps or ("broadcasts",))
    assert found is not None
    verify(found.program)
    for mine, other in zip(results(program, arrays), results(found.program, arrays), strict=True):
        np.testing.assert_array_equal(mine, other)
    executed = found.source[found.source >= 0]
    assert len(np.unique(executed)) == len(executed)
    return found


def results(program: Program, arrays: tuple[Any, ...]) -> list[Any]:
    executor = Executor(program, {buffer.id: array for buffer, array in zip(program.inputs, arrays, strict=True)})
    executor.run(final=True)
    return [executor.read(tensor) for tensor in program.outputs]


def counted(found: Compiled) -> Counter[tuple[str, str]]:
    ops = [found.program.op(row) for row in range(len(found.program))]
    return Counter((op.variant.engine, op.variant.instruction.name) for op in ops)


def normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("columns", "reads", "products", "copies"),
    [(512, 1, 1, 0), (512, 2, 1, 1), (513, 1, 2, 2), (1100, 1, 3, 3), (1, 1, 1, 0)],
)
def test_a_result_stays_in_psum_for_one_reader(columns: int, reads: int, products: int, copies: int) -> None:
    found = made(scaled, (normal(128, columns), normal(1, columns)), reads=reads)
    count = counted(found)
    assert count["tensor", "nc_matmul"] == products
    assert count["scalar", "tensor_copy"] == copies
    readers = [op for op in map(found.program.op, range(len(found.program))) if op.variant.instruction.elementwise]
    in_psum = [view for op in readers for view in op.reads if view.buffer.space is psum]
    assert len(in_psum) == copies + (not copies)
    assert found.notes["partitions repeated by products"] == 1


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 128), st.integers(1, 1100), st.integers(1, 3))
def test_products_repeat_rows_of_any_size(rows: int, columns: int, reads: int) -> None:
    made(scaled, (normal(rows, columns), normal(1, columns)), reads=reads)


def test_equal_products_leave_the_loop_around_them_only() -> None:
    arrays = normal(2, 128, 64), normal(3, 64)
    inner = counted(made(of_states, arrays, "repeats", "broadcasts"))
    assert inner["tensor", "nc_matmul"] == 6
    assert inner["scalar", "tensor_copy"] == 0
    outer = counted(made(of_tiles, arrays, "repeats", "broadcasts"))
    assert outer["tensor", "nc_matmul"] == outer["scalar", "tensor_copy"] == 3
