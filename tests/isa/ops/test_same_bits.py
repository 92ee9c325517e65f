"""Instructions that go through an array as a whole give the bits of the plain algorithm, element by element."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from nki_lab.isa.alu import ALU, AluOp
from nki_lab.isa.ops import scan, search
from nki_lab.isa.ops.masks import blend
from nki_lab.isa.ops.random import seeded, xorwow
from nki_lab.isa.spec import TABLE
from tests.reference import random as reference

Array = NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def drawn(case: str, rows: int, columns: int, dtype: Any = np.float32) -> Array:
    """Numbers, or what makes operators depend on which side is which: zeros of both signs, several NaN, infinities."""
    rng = np.random.default_rng(rows * columns)
    values = rng.standard_normal((rows, columns)).astype(dtype)
    if case == "zeros":
        values[rng.random(values.shape) < 0.6] = -0.0
        values[rng.random(values.shape) < 0.4] = 0.0
    elif case == "odd":
        values[rng.random(values.shape) < 0.02] = np.nan
        values[rng.random(values.shape) < 0.02] = -np.nan
        values[rng.random(values.shape) < 0.05] = -np.inf
    return values


def same_bits(actual: Array, expected: Array) -> None:
    assert actual.dtype == expected.dtype
    kind = np.dtype(f"u{actual.itemsize}")
    assert_array_equal(np.ascontiguousarray(actual).view(kind), np.ascontiguousarray(expected).view(kind))


def one_by_one(op: AluOp, given: Array, start: Array) -> Array:
    result = np.empty(given.shape, given.dtype)
    former = start.astype(given.dtype)
    for at in range(given.shape[1]):
        former = result[:, at] = op.apply(given[:, at].copy(), former, np.empty_like(former))
    return result


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("case", ["numbers", "zeros", "odd"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 2, 77])
def test_a_running_reduction_has_the_bits_of_one_element_after_the_other(
    name: str, case: str, dtype: Any, columns: int
) -> None:
    given, start = drawn(case, 24, columns, dtype), drawn(case, 24, 1)[:, 0]
    same_bits(scan._running(ALU[name], given.copy(), start), one_by_one(ALU[name], given, start))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.uint16, np.bool_])
@pytest.mark.parametrize("mask_shape", [(40, 1000), (40, 1), (1, 1000)])
@pytest.mark.parametrize("other_shape", [(40, 1000), (40, 1), ()])
def test_a_blend_has_the_bits_of_where(dtype: Any, mask_shape: tuple[int, ...], other_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    chosen = drawn("odd", 40, 1000).astype(dtype)
    other = np.asarray(np.float32(-0.0) if other_shape == () else rng.random(other_shape) * 7).astype(dtype)
    mask = rng.random(mask_shape) < 0.5
    expected = np.where(mask, chosen, other)
    out = np.zeros((40, 2000), dtype)[:, ::2]
    blend(mask, chosen, other, out)
    same_bits(out, expected)
    blend(mask, chosen, other, chosen)  # in place
    same_bits(chosen, expected)


def test_a_blend_of_several_dimensions_or_dtypes_has_the_bits_of_where() -> None:
    mask = np.random.default_rng(2).random((3, 4, 5)) < 0.5
    chosen, out = drawn("odd", 3, 20).reshape(3, 4, 5), np.empty((3, 4, 5), np.float32)
    blend(mask, chosen, np.float64(0.1), out)
    same_bits(out, np.where(mask, chosen, np.float64(0.1)).astype(np.float32))
    blend(mask[0, 0, 0], chosen[:0], np.float32(0), out[:0])  # of nothing


def found(data: Array, values: Array, order: list[int]) -> Array:
    places = np.full((len(data), 8), search._ABSENT, np.int64)
    for row, own in enumerate(data):
        taken: set[int] = set()
        for number in order:
            equal = [at for at in np.flatnonzero(own == values[row, number]).tolist() if at not in taken]
            if equal:
                places[row, number] = equal[0]
                taken.add(equal[0])
    return places


@pytest.mark.parametrize("order", [list(range(8)), list(range(7, -1, -1))])
def test_places_of_equal_values_are_taken_once(order: list[int]) -> None:
    rng = np.random.default_rng(3)
    data = rng.integers(0, 9, (30, 20)).astype(np.float32)
    data[rng.random(data.shape) < 0.2] = np.nan
    before = data.copy()
    values = rng.integers(0, 12, (30, 8)).astype(np.float32)
    values[::3, 2] = np.nan
    actual = np.empty((30, 8), np.int64)
    for number, places in search._places(data, values, order):
        actual[:, number] = places
    assert_array_equal(actual, found(data, values, order))
    assert_array_equal(data, before)


@pytest.mark.parametrize("lanes", [1, 5, 128])
@pytest.mark.parametrize("count", [1, 4, 5, 6, 33])
def test_random_numbers_are_those_of_the_recurrence(lanes: int, count: int) -> None:
    words = seeded(11, lanes, "gpsimd")
    own = words.tolist()
    expected = [[reference.step(row) for _ in range(count)] for row in own]
    assert_array_equal(xorwow(words, count), np.array(expected, np.uint32))
    assert_array_equal(words, np.array(own, np.uint32))


@pytest.mark.parametrize("elements", [1, 6, 64])
@pytest.mark.parametrize(("engine", "streams"), [("vector", 4), ("gpsimd", 1)])
def test_generators_of_a_lane_take_turns(engine: str, streams: int, elements: int) -> None:
    state = SimpleNamespace(random={engine: seeded(3, 128, engine)}, vector_accumulators=np.zeros(128, np.float32))
    words = state.random[engine].reshape(128, streams, 6).tolist()
    view = SimpleNamespace(start_partition=32, shape=(64, elements), free_size=elements)
    use = SimpleNamespace(engine=engine, types={"dst": view})
    dst = np.empty((64, elements), np.uint32)
    TABLE["rng"].numerics(SimpleNamespace(dst=dst), SimpleNamespace(), use, state)
    expected = np.empty((64, elements), np.uint32)
    for lane in range(64):
        for step in range(-(-elements // streams)):
            numbers = [reference.step(words[32 + lane][stream]) for stream in range(streams)]
            expected[lane, step * streams : step * streams + streams] = numbers[: elements - step * streams]
    assert_array_equal(dst, expected)
    assert_array_equal(state.random[engine].reshape(128, streams, 6), np.array(words, np.uint32))
