"""Sums of slabs go straight to results where nothing else is done with them, and with the bits of copies by tiles."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nki_lab.kernel_runtime.numerics.executor import Executor
from tests.calls import kernel_of, traced

Array = np.ndarray[Any, Any]

PRODUCT = """
def kernel(left, right):
    K, M = left.shape
    N = right.shape[1]
    out = nl.ndarray({shape}, {dtype}, buffer=nl.shared_hbm)
    more = nl.ndarray((M, N), {dtype}, buffer=nl.shared_hbm)
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
            {copied}
            nisa.dma_copy({place}, tile)
            {then}
    {after}
    return out, more
"""
COPIED = "nisa.tensor_copy(tile, acc)"
PLACE = "out[m : m + 64, n : n + 32]"


def executed(
    dtype: str,
    copied: str = COPIED,
    place: str = PLACE,
    then: str = "",
    after: str = "",
    shape: str = "(M, N)",
    **options: Any,
) -> tuple[Executor, Array]:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((256, columns), dtype=np.float32).astype(ml_dtypes.bfloat16) for columns in (128, 64)]
    text = PRODUCT.format(dtype=f"nl.{dtype}", copied=copied, place=place, then=then, after=after, shape=shape)
    program, _ = traced(kernel_of(text), arrays, ["bfloat16"] * 2, "trn2", **options)
    executor = Executor(program, dict(enumerate(arrays)))
    executor.run(final=True)
    return executor, executor.read(program.outputs[0])


def test_a_float32_result_is_computed_in_its_place() -> None:
    executor, out = executed("float32")
    (place,) = executor._evacuation.in_place.values()
    assert (place.offset, place.pitch) == (0, 64)
    assert len(executor._evacuation.ops) == 2 * 2 * 2
    _, stored_twice = executed("float32", then="nisa.dma_copy(more[0:64, 0:32], tile)")
    assert out.tobytes() == stored_twice.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("order", ["tile", "slab", "free"])
def test_results_in_blocks_of_their_own_take_each_its_tile(dtype: str, order: Any) -> None:
    blocks = {"shape": "(M // 64, N // 32, 64, 32)", "place": "out[m // 64, n // 32]"}
    _, plain = executed(dtype, matmul_order=order)
    _, out = executed(dtype, matmul_order=order, **blocks)
    assert out.transpose(0, 2, 1, 3).reshape(plain.shape).tobytes() == plain.tobytes()


def test_a_bfloat16_result_takes_the_sums_and_rounds_them_once() -> None:
    executor, out = executed("bfloat16")
    assert len(executor._evacuation.in_place) == 1 and len(executor._evacuation.ops) == 2 * 2 * 2
    _, sums = executed("float32")
    assert out.tobytes() == sums.astype(ml_dtypes.bfloat16).tobytes()
    twice, stored_twice = executed("bfloat16", then="nisa.dma_copy(more[0:64, 0:32], tile)")
    assert not twice._evacuation.in_place and len(twice._evacuation.carriers) == 4
    assert out.tobytes() == stored_twice.tobytes()


ALTERED = {
    "scaled": {"copied": f"{COPIED}; nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)"},
    "in parts": {"copied": "nisa.tensor_copy(tile[:, 0:16], acc[:, 0:16]); nisa.tensor_copy(tile[:, 16:], acc[:, 16:])"},
    "read by others": {"then": "sums = nl.ndarray((64, 1), nl.float32); nisa.tensor_reduce(sums, nl.add, tile, axis=1)"},
}  # fmt: skip


@pytest.mark.parametrize("how", ALTERED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_tile_with_which_more_is_done_is_a_tile(how: str, dtype: str) -> None:
    executor, _ = executed(dtype, **ALTERED[how])
    assert not executor._evacuation.carriers and not executor._evacuation.ops


@pytest.mark.parametrize(
    "changes",
    [
        {"place": "out[64 - m : 128 - m, n : n + 32]"},
        {"then": "nisa.dma_copy(out[0:64, 0:32], tile)"},
        {"after": "nl.store(more[0:64, 0:32], nl.load(out[0:64, 0:32]))"},
        {"then": "again = nl.ndarray((64, 1), nl.float32); nisa.tensor_reduce(again, nl.add, acc, axis=1)"},
    ],
    ids=["elsewhere", "overwritten", "read again", "sums read"],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_that_are_put_together_otherwise_are_stored(changes: dict[str, str], dtype: str) -> None:
    executor, out = executed(dtype, **changes)
    assert not executor._evacuation.in_place
    _, by_tile = executed(dtype, matmul_order="tile", **changes)
    np.testing.assert_allclose(out.astype(np.float32), by_tile.astype(np.float32), rtol=2e-2, atol=1e-4)
