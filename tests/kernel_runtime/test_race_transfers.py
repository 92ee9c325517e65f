"""DMAs whose own parts meet: found where a count of all elements finds them, and nowhere else."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.race import races
from nki_lab.kernel_runtime.race.findings import writes_twice
from tests.kernel_runtime.drawn_kernels import nisa, nl, traced

PATTERNS = st.lists(st.tuples(st.integers(1, 4), st.integers(-6, 6)), min_size=1, max_size=4)


@given(PATTERNS)
def test_a_pattern_writes_twice_where_two_elements_have_one_place(dims: list[tuple[int, int]]) -> None:
    shape, strides = zip(*dims, strict=True)
    places = [sum(i * step for i, step in zip(index, strides, strict=True)) for index in product(*map(range, shape))]
    assert writes_twice(shape, strides) == (len(set(places)) < math.prod(shape))


def codes_of(kernel: Any, *shapes: tuple[int, ...]) -> list[str]:
    return [item.code for item in races(traced(kernel, *shapes))]


@given(st.integers(0, 8), st.integers(0, 8), st.integers(1, 8), st.sampled_from([(1, 1), (2, 2), (1, 2), (2, 1)]))
def test_a_move_within_a_tensor_is_found_where_it_reads_what_it_writes(
    first: int, second: int, count: int, steps: tuple[int, int]
) -> None:
    def kernel(t: Any) -> None:
        nisa.dma_copy(t.ap([[steps[0], count]], offset=first), t.ap([[steps[1], count]], offset=second))

    target = first + steps[0] * np.arange(count)
    source = second + steps[1] * np.arange(count)
    meets = bool(np.intersect1d(target, source).size) and not np.array_equal(target, source)
    assert codes_of(kernel, (32,)) == (["NKI410"] if meets else [])


def square(t: Any) -> None:
    tile = nl.ndarray((32, 32), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(tile, t)
    nisa.dma_transpose(tile, tile)


def summed(t: Any) -> None:
    other = nl.ndarray((32, 32), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(other, [other, t], nl.add)


def summed_from_the_side(t: Any) -> None:
    nisa.dma_compute(t[0:16], [t[0:16], t[8:24]], nl.add)


@pytest.mark.parametrize(("kernel", "found"), [(square, ["NKI410"]), (summed, []), (summed_from_the_side, ["NKI410"])])
def test_transposes_and_sums(kernel: Any, found: list[str]) -> None:
    assert codes_of(kernel, (32, 32)) == found


def test_a_place_of_the_source_is_named_once_whatever_the_number_of_transfers() -> None:
    def kernel(t: Any) -> None:
        for number in range(4):
            nisa.dma_copy(t[number + 1 : number + 3], t[number : number + 2])

    (found,) = races(traced(kernel, (8, 8)))
    assert found.code == "NKI410"
    assert found.note == "bytes 32 to 63 of (8, 8)"


def test_transfers_that_are_too_large_to_count_are_left_alone() -> None:
    def kernel(t: Any) -> None:
        nisa.dma_copy(t.ap([[3, 1 << 12], [5, 1 << 12]]), t.ap([[3, 1 << 12], [5, 1 << 12]]))

    assert not writes_twice((1 << 12, 1 << 12), (3, 5)) or codes_of(kernel, (1 << 16,)) == ["NKI411"]


@pytest.mark.parametrize(
    ("dst", "src", "found"),
    [
        ((0, 128, 1, 512), (0, 128, 0, 511), ["NKI422"]),
        ((0, 128, 64, 512), (0, 128, 0, 448), ["NKI422"]),
        ((0, 128, 0, 511), (0, 128, 1, 512), []),  # each is read before its place is written
        ((0, 128, 0, 512), (0, 128, 0, 512), []),
        ((0, 128, 256, 512), (0, 128, 0, 256), []),
        ((32, 64, 0, 512), (0, 32, 0, 512), []),
    ],
)
def test_an_engine_that_writes_what_it_has_yet_to_read_is_found(
    dst: tuple[int, int, int, int], src: tuple[int, int, int, int], found: list[str]
) -> None:
    def kernel(x: Any) -> None:
        tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.tensor_copy(tile[dst[0] : dst[1], dst[2] : dst[3]], tile[src[0] : src[1], src[2] : src[3]])

    assert codes_of(kernel, (128, 512)) == found
