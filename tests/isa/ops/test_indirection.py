"""Tensor indirection: an instruction on a gathered view does what it does on the gathered elements, and scatters."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from tests.calls import kernel_of, traced
from tests.isa.ops.kernels import run

Array = np.ndarray[Any, Any]

# Calls of [P, F] tiles; OUT, IN and REST stand for what is written, read and in the way.
CALLS = {
    "tensor_copy": "nisa.tensor_copy(OUT, IN)",
    "tensor_copy on the Scalar Engine": "nisa.tensor_copy(OUT, IN, engine=nisa.engine.scalar)",
    "tensor_tensor": "nisa.tensor_tensor(OUT, IN, REST, nl.subtract)",
    "tensor_scalar": "nisa.tensor_scalar(OUT, IN, nl.multiply, 3.0)",
    "tensor_scalar on GpSimd": "nisa.tensor_scalar(OUT, IN, nl.power, 2.0, engine=nisa.engine.gpsimd)",
    "tensor_scalar_cumulative": "nisa.tensor_scalar_cumulative(OUT, IN, nl.add, nl.add, 1.0)",
    "tensor_scalar_reduce": "nisa.tensor_scalar_reduce(OUT, IN, nl.add, 1.0, nl.add)",
    "activation": "nisa.activation(OUT, nl.tanh, IN)",
    "activation_reduce": "nisa.activation_reduce(OUT, nl.square, IN, nl.add, nl.ndarray((P, 1), nl.float32))",
    "activate2": "nisa.activate2(OUT, nl.tanh, IN, 2.0, 1.0, nl.multiply, nl.add)",
    "exponential": "nisa.exponential(OUT, IN)",
}
TEXT = """
def kernel(x, i, j, p, r):
    P, N = i.shape[0], p.shape[1]
    data, taken, put = nl.load(x), nl.load(i), nl.load(j)
    REST = nl.load(r)
    first, second = nl.ndarray((P, N), nl.float32), nl.ndarray((P, N), nl.float32)
    wide = nl.zeros((P, data.shape[1]), nl.float32)
    IN, OUT = data.indirect(taken, N), first
    {call}
    IN, OUT = nl.load(p), second
    {call}
    OUT = wide.indirect(put, N)
    {call}
    return first, second, wide
"""


def listed(index: Array, count: int, group: int) -> Array:
    """The column of each element: partitions of a group share a list that runs down the partitions first."""
    rows = index.shape[0]
    out = np.empty((rows, count), np.int64)
    for row in range(rows):
        start, size = row // group * group, min(group, rows - row // group * group)
        out[row] = [index[start + place % size, place // size] for place in range(count)]
    return out


def distinct(rng: np.random.Generator, rows: int, columns: int, width: int, group: int) -> Array:
    """An index whose lists name no column twice."""
    out = np.empty((rows, columns), np.uint16)
    for start in range(0, rows, group):
        part = out[start : start + group]
        part[...] = rng.permutation(width)[: part.size].reshape(part.shape)
    return out


@pytest.mark.parametrize(("rows", "count"), [(16, 16), (128, 40), (40, 24), (8, 7)])
@pytest.mark.parametrize("name", CALLS)
def test_a_gathered_operand_is_the_gathered_elements(name: str, rows: int, count: int) -> None:
    rng = np.random.default_rng(rows + count)
    data = np.round(rng.standard_normal((rows, 64)), 2).astype(np.float32)
    taken = rng.integers(0, 64, (rows, 3)).astype(np.uint16)
    put = distinct(rng, rows, 3, 64, 16)
    picked = np.take_along_axis(data, listed(taken, count, 16), 1)
    rest = np.round(rng.standard_normal((rows, count)), 2).astype(np.float32)
    first, second, wide = run(TEXT.format(call=CALLS[name]), data, taken, put, picked, rest, target="trn3")
    np.testing.assert_array_equal(first, second)
    wanted = np.zeros_like(data)
    np.put_along_axis(wanted, listed(put, count, 16), second, 1)
    np.testing.assert_array_equal(wide, wanted)


MATMUL = """
def kernel(x, y, i, j, k):
    left, right, M, N = nl.load(x), nl.load(y), 32, 48
    first, wide = nl.ndarray((M, N), nl.float32, buffer=nl.psum), nl.ndarray((M, 64), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(first, left.indirect(nl.load(i), M), right.indirect(nl.load(j), N))
    nisa.nc_matmul(first, left.indirect(nl.load(i), M), right.indirect(nl.load(j), N))
    nisa.memset(wide, 0.0)
    nisa.nc_matmul(wide.indirect(nl.load(k), N), left[:, 0:M], right[:, 0:N], accumulate=False)
    return nl.copy(first), nl.copy(wide)
"""


def test_the_tensor_engine_gathers_by_groups_of_32() -> None:
    rng = np.random.default_rng(0)
    left, right = (np.round(rng.standard_normal((64, 64)) * 4).astype(ml_dtypes.bfloat16) for _ in range(2))
    i, j = (rng.integers(0, 64, (64, 2)).astype(np.uint16) for _ in range(2))
    k = distinct(rng, 32, 2, 64, 32)
    first, wide = run(MATMUL, left, right, i, j, k, target="trn3")
    wider = left.astype(np.float32), right.astype(np.float32)
    picked = [np.take_along_axis(wider[0], listed(i, 32, 32), 1), np.take_along_axis(wider[1], listed(j, 48, 32), 1)]
    np.testing.assert_array_equal(first, 2 * (picked[0].T @ picked[1]))
    wanted = np.zeros((32, 64), np.float32)
    np.put_along_axis(wanted, listed(k, 48, 32), wider[0][:, :32].T @ wider[1][:, :48], 1)
    np.testing.assert_array_equal(wide, wanted)


REDUCE = """
def kernel(x, i):
    result = nl.ndarray((x.shape[0], 1), nl.float32)
    nisa.tensor_reduce(result, nl.add, nl.load(x).indirect(nl.load(i), 20), 1)
    return result
"""


def test_a_reduction_reduces_what_is_picked() -> None:
    rng = np.random.default_rng(1)
    data = np.round(rng.standard_normal((32, 50)) * 8).astype(np.float32)
    index = rng.integers(0, 50, (32, 2)).astype(np.uint16)
    (found,) = run(REDUCE, data, index, target="trn3")
    np.testing.assert_array_equal(found, np.take_along_axis(data, listed(index, 20, 16), 1).sum(1, keepdims=True))


SHORT = """
def kernel(x, i):
    count = {count}
    nisa.tensor_copy(nl.ndarray((x.shape[0], count), nl.float32), nl.load(x).indirect(nl.load(i), count))
"""


@pytest.mark.parametrize(("rows", "most"), [(32, 16), (24, 8), (128, 16), (8, 8)])
def test_a_list_that_is_too_short_for_the_engine_is_refused(rows: int, most: int) -> None:
    data, index = np.zeros((rows, 64), np.float32), np.zeros((rows, 1), np.uint16)
    run(SHORT.format(count=most), data, index, target="trn3")
    with pytest.raises(NkiError, match="NKI309"):
        run(SHORT.format(count=most + 1), data, index, target="trn3")


SCATTERED = """
def kernel(x):
    data, moved = nl.ndarray((128, 64), nl.float8_e4m3fn_x4), nl.ndarray((128, 32), nl.float8_e4m3fn_x4)
    scales, factors = nl.ndarray((128, 64), nl.uint8), nl.ndarray((128, 32), nl.uint8)
    total = nl.ndarray((64, 512), nl.float32, buffer=nl.psum).indirect(nl.ndarray((64, 1), nl.uint16), 32)
    k = slice({start}, {start} + 64)
    nisa.nc_matmul_mx(
        total, data[k], moved[k], scales[k], factors[k], tile_position=({start}, 0), tile_size=(64, 128)
    )
"""


@pytest.mark.parametrize("start", [0, 64])
def test_a_scaled_product_is_scattered_from_the_whole_array(start: int) -> None:
    wrong = pytest.raises(NkiError, match=r"dst is scattered with tile_position \(64, 0\)") if start else nullcontext()
    with wrong:
        traced(kernel_of(SCATTERED.format(start=start)), [np.zeros((1, 1), np.float32)], ["float32"], "trn3")
