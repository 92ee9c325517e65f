"""What a complete program allows: results at true width, arguments that only slabs read, memory handed out."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.storage import NATIVE, SHADOW
from tests.calls import kernel_of, traced

Array = np.ndarray[Any, Any]

PRODUCT = """
def kernel(left, right):
    K, M = left.shape
    N = right.shape[1]
    out = nl.ndarray((M, N), {dtype}, buffer=nl.shared_hbm)
    for m in range(0, M, 64):
        for n in range(0, N, 32):
            acc = nl.ndarray((64, 32), nl.float32, buffer=nl.psum)
            for k in range(0, K, 128):
                a = nl.ndarray((128, 64), left.dtype)
                b = nl.ndarray((128, 32), right.dtype)
                nisa.dma_copy(a, left[k : k + 128, m : m + 64])
                nisa.dma_copy(b, right[k : k + 128, n : n + 32])
                nisa.nc_matmul(acc, a, b)
            tile = nl.ndarray((64, 32), {dtype})
            nisa.tensor_copy(tile, acc)
            nisa.dma_copy(out[m : m + 64, n : n + 32], tile)
{more}    return out
"""


def operands(dtype: Any = ml_dtypes.bfloat16) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((256, columns), dtype=np.float32).astype(dtype) for columns in (128, 64)]


def executor_of(text: str, arrays: list[Array], dtype: str, **options: Any) -> Executor:
    program, _ = traced(kernel_of(text), arrays, [dtype] * len(arrays), "trn2", **options)
    executor = Executor(program, dict(enumerate(arrays)))
    executor.run(final=True)
    return executor


def test_a_bfloat16_result_lies_at_true_width_and_has_the_bits_of_the_rounded_sums() -> None:
    arrays = operands()
    executor = executor_of(PRODUCT.format(dtype="nl.bfloat16", more=""), arrays, "bfloat16")
    exact = executor_of(PRODUCT.format(dtype="nl.float32", more=""), arrays, "bfloat16")
    (out,) = executor.program.outputs
    assert executor.bound(out._buffer).kind == NATIVE
    wanted = exact.read(exact.program.outputs[0]).astype(ml_dtypes.bfloat16)
    assert executor.read(out).tobytes() == wanted.tobytes()
    assert executor.read(out[3:9, 1:64:3]).tobytes() == wanted[3:9, 1:64:3].tobytes()


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ("    again = nl.ndarray((64, 32), nl.bfloat16)\n    nisa.dma_copy(again, out[0:64, 0:32])\n", {}),
        ("    wide = nl.zeros((64, 32), nl.float32)\n    nisa.dma_copy(out[0:64, 0:32], wide)\n", {}),
        ("", {"precise": False}),
    ],
    ids=["read", "converted", "imprecise"],
)
def test_a_result_that_is_more_than_stored_stays_wide(more: str, options: dict[str, Any]) -> None:
    executor = executor_of(PRODUCT.format(dtype="nl.bfloat16", more=more), operands(), "bfloat16", **options)
    (out,) = executor.program.outputs
    assert executor.bound(out._buffer).kind == SHADOW


def test_payloads_of_nan_are_stored_as_they_came() -> None:
    a = np.arange(2**16, dtype=np.uint16).reshape(128, 512).view(ml_dtypes.bfloat16)
    text = """
def kernel(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(tile, a)
    nisa.dma_copy(out, tile)
    return out
"""
    executor = executor_of(text, [a], "bfloat16")
    assert executor.bound(executor.program.outputs[0]._buffer).kind == NATIVE
    assert executor.read(executor.program.outputs[0]).tobytes() == a.tobytes()


@pytest.mark.parametrize("order", ["slab", "free"])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2])
def test_arguments_that_only_a_slab_reads_are_never_widened_whole(order: str, dtype: Any) -> None:
    arrays = operands(dtype)
    name = np.dtype(dtype).name
    executor = executor_of(PRODUCT.format(dtype="nl.float32", more=""), arrays, name, matmul_order=order)
    assert len(executor.slabs) == 1
    assert not executor._bounds.keys() & {0, 1}
    a, b = (array.astype(np.float64) for array in arrays)
    np.testing.assert_allclose(executor.read(executor.program.outputs[0]), a.T @ b, rtol=1e-5, atol=1e-4)


def test_an_argument_that_something_else_reads_is_widened() -> None:
    more = """
    seen = nl.ndarray((128, 64), left.dtype)
    nisa.dma_copy(seen, left[0:128, 0:64])
    nisa.tensor_copy(tile, seen[0:64, 0:32])
"""
    executor = executor_of(PRODUCT.format(dtype="nl.float32", more=more), operands(), "bfloat16")
    assert len(executor.slabs) == 1
    assert 0 in executor._bounds
    assert 1 not in executor._bounds


COPIED = """
def kernel(table, rows):
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    found = nl.ndarray((128, 1), nl.int32)
    nisa.dma_copy(found, rows)
    total = nl.zeros((128, 64), nl.float32)
    for part in range({parts}):
        tile = nl.ndarray((128, 64), table.dtype)
        nisa.dma_copy(tile, {source})
        nisa.tensor_tensor(total, total, tile, nl.add)
{more}    nisa.dma_copy(out, total)
    return out
"""
WHOLE = "table[128 * part : 128 * part + 128, 0:64]"
EVERY_SECOND = "table[part : part + 256 : 2, 64:128]"
GATHERED = "table.ap([[64, 128], [1, 64]], vector_offset=found, indirect_dim=0)"
ONE = "table.ap([[64, 128], [1, 64]], scalar_offset=found[0:1, 0:1], indirect_dim=0)"
LATER = """        seen = nl.ndarray((128, 64), nl.float32)
        nisa.dma_copy(seen, table[0:128, 0:64])
        nisa.tensor_tensor(total, total, seen, nl.add)
"""


def table(dtype: Any) -> list[Array]:
    rng = np.random.default_rng(3)
    return [
        rng.standard_normal((512, 128), dtype=np.float32).astype(dtype),
        rng.integers(0, 128, (128, 1), dtype=np.int32),
    ]


def wide_and_planned(text: str, arrays: list[Array], dtype: str) -> tuple[int, Array, Array]:
    """How an argument is held in a run of the whole program, and the result there and where all arguments are wide."""
    program, _ = traced(kernel_of(text), arrays, [dtype, "int32"], "trn2")
    found = []
    for final in (True, False):
        executor = Executor(program, dict(enumerate(arrays)))
        executor.run(final=final)
        found.append(executor)
    assert found[1].bound(program.buffers[0]).kind == SHADOW
    return found[0].bound(program.buffers[0]).kind, *(item.read(program.outputs[0]) for item in found)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize(
    ("source", "parts", "kinds"),
    [
        (WHOLE, 4, (NATIVE, NATIVE, NATIVE)),
        (WHOLE.replace("part", "(part % 4)"), 8, (NATIVE, SHADOW, SHADOW)),  # more than half
        (EVERY_SECOND, 4, (NATIVE, NATIVE, NATIVE)),
        (WHOLE.replace("part", "0 * part"), 30, (SHADOW, SHADOW, SHADOW)),  # more than three times
        (GATHERED, 2, (NATIVE, NATIVE, NATIVE)),
        (ONE, 2, (NATIVE, NATIVE, NATIVE)),
    ],
    ids=["half", "whole", "strided", "often", "gathered", "from a register"],
)
def test_arguments_that_only_copies_read_are_never_widened_whole(
    dtype: Any, source: str, parts: int, kinds: tuple[int, ...]
) -> None:
    arrays = table(dtype)
    text = COPIED.format(parts=parts, source=source, more="")
    kind, planned, wide = wide_and_planned(text, arrays, np.dtype(dtype).name)
    assert kind == kinds[[ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2].index(dtype)]
    assert planned.tobytes() == wide.tobytes()
    assert np.isfinite(planned).all()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_arguments_that_copies_convert_are_widened(dtype: Any) -> None:
    kind, planned, wide = wide_and_planned(
        COPIED.format(parts=1, source=WHOLE, more=LATER), table(dtype), np.dtype(dtype).name
    )
    assert kind == SHADOW
    assert planned.tobytes() == wide.tobytes()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_arguments_that_copies_of_a_device_loop_read(dtype: Any) -> None:
    text = """
def kernel(table, rows):
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((128, 64), nl.float32)
    for part in nl.dynamic_range(4):
        tile = nl.ndarray((128, 64), table.dtype)
        nisa.dma_copy(tile, table[nl.ds(part, 128), 0:64])
        nisa.tensor_tensor(total, total, tile, nl.add)
    nisa.dma_copy(out, total)
    return out
"""
    arrays = table(dtype)
    program, _ = traced(kernel_of(text), arrays, [np.dtype(dtype).name, "int32"], "trn2")
    executor = Executor(program, dict(enumerate(arrays)))
    executor.run(final=True)
    assert executor.bound(program.buffers[0]).kind == (NATIVE if dtype is ml_dtypes.bfloat16 else SHADOW)
    sums = np.zeros((128, 64), np.float32)
    for part in range(4):
        sums += arrays[0][part : part + 128, :64].astype(np.float32)
    np.testing.assert_array_equal(executor.read(program.outputs[0]), sums)


@pytest.mark.parametrize("source", [WHOLE, EVERY_SECOND, GATHERED])
def test_a_plan_reads_the_arguments_of_each_call(source: str) -> None:
    kernel = kernel_of(COPIED.format(parts=4, source=source, more=""))
    values, rows = table(ml_dtypes.bfloat16)
    large = np.concatenate([values] * 16)  # what is larger than 64 KiB lies outside
    got = []
    for factor in (1, 2, -4):
        call = (large.astype(np.float32) * factor).astype(ml_dtypes.bfloat16)
        got.append(nki_lab.run(kernel, call, rows, target="trn2").outputs[0].copy())
        call[...] = 0
    for factor, other in zip((2, -4), got[1:], strict=True):
        np.testing.assert_array_equal(other, got[0] * factor)
    assert np.abs(got[0]).max() > 1


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_a_result_is_the_callers_alone(dtype: str) -> None:
    kind = {"float32": np.float32, "int32": np.int32, "bfloat16": ml_dtypes.bfloat16}[dtype]
    text = """
def kernel(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, a.shape[1]), a.dtype)
    for i in range(0, a.shape[0], 128):
        nisa.dma_copy(tile, a[i : i + 128])
        nisa.dma_copy(out[i : i + 128], tile)
    return out, out
"""
    kernel = kernel_of(text)
    a = np.arange(1024 * 600).reshape(1024, 600) % 128
    first, twin = nki_lab.run(kernel, a.astype(kind), target="trn2").outputs
    second, _ = nki_lab.run(kernel, (a + 1).astype(kind), target="trn2").outputs
    np.testing.assert_array_equal(first, a.astype(kind))
    np.testing.assert_array_equal(second, (a + 1).astype(kind))
    first[...] = 0
    np.testing.assert_array_equal(twin, a.astype(kind))
    np.testing.assert_array_equal(second, (a + 1).astype(kind))
