"""Matmuls on parts of the Tensor Engine's array: those that share no rows and columns run side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.timing import walk
from tests.kernel_runtime.drawn_kernels import traced
from tests.kernel_runtime.timing.test_walk import checked, path_checked
from tests.kernel_runtime.timing.timed import PLAIN, nisa, nl, timed, without

Tile = tuple[int, int, int, int]
"""Row, column, rows, columns."""

Call = tuple[Tile | None, int]
"""The tile (None: the whole array) and the columns of the moving operand."""


def matmuls(calls: list[Call]) -> Callable[[], None]:
    """A kernel of independent matmuls over tiles that are there."""

    def kernel() -> None:
        a = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
        b = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
        nisa.memset(a, 0.0)
        nisa.memset(b, 0.0)
        banks = [nl.ndarray((128, 512), nl.float32, buffer=nl.psum) for _ in range(8)]
        for number, (tile, columns) in enumerate(calls):
            row, column, rows, wide = tile or (0, 0, 128, 128)
            where: dict[str, Any] = {} if tile is None else {"tile_position": (row, column), "tile_size": (rows, wide)}
            nisa.nc_matmul(
                banks[number % 8][column : column + wide, 0:columns],
                a[row : row + rows, 0:wide],
                b[row : row + rows, 0:columns],
                **where,
            )

    return kernel


def cadence(tiles: list[Tile | None], columns: int, **options: bool) -> float:
    """Nanoseconds from a matmul to the next, taking tiles in turn."""
    calls: list[Call] = [(tile, columns) for tile in tiles * (64 // len(tiles))]
    steps = timed(matmuls(calls), power_ramp=False, **options).steps("nc_matmul")
    return float(np.mean(steps[16:32]))


HALVES: list[Tile | None] = [(0, 0, 64, 128), (64, 0, 64, 128)]
QUARTERS: list[Tile | None] = [(0, 32 * number, 128, 32) for number in range(4)]
SIXTEENTHS: list[Tile | None] = [(32 * row, 32 * column, 32, 32) for row in range(4) for column in range(4)]


@pytest.mark.parametrize(
    ("tiles", "columns", "expected"),
    [
        (HALVES, 512, 512 / 2 / 2.4),
        (QUARTERS, 512, 512 / 4 / 2.4),
        (SIXTEENTHS, 512, 512 / 16 / 2.4),
        # Each takes the sequencer the least interval of a matmul, of the columns of its stationary tile up to 64.
        (QUARTERS, 64, 32 / 2.4),
        (HALVES, 64, 64 / 2.4),
        (HALVES[:1], 512, 512 / 2.4),
        ([HALVES[0], (0, 0, 128, 64)], 512, 512 / 2.4),
        ([None], 512, 512 / 2.4),
    ],
)
def test_matmuls_on_disjoint_tiles_share_the_time(tiles: list[Tile | None], columns: int, expected: float) -> None:
    assert cadence(tiles, columns) == pytest.approx(expected, rel=0.05)
    assert cadence(tiles, columns, array_tiles=False) == pytest.approx(columns / 2.4, rel=0.05)


def test_the_array_is_busy_as_long_as_one_of_its_tiles() -> None:
    calls: list[Call] = [(HALVES[0], 512), (HALVES[1], 64)]
    found = timed(matmuls(calls), power_ramp=False)
    first, second = found.rows("nc_matmul")
    timing = found.timing
    assert timing.start[second] - timing.start[first] == pytest.approx(64 / 2.4 * 1000, abs=2)
    assert found.lane("tensor").busy == pytest.approx(512 / 2.4 * 1000, abs=2)
    assert timing.ready[first] > timing.ready[second]


@st.composite
def tiles(draw: st.DrawFn) -> Tile | None:
    rows, wide = draw(st.sampled_from((32, 64, 128))), draw(st.sampled_from((32, 64, 128)))
    row, column = draw(st.integers(0, 128 // rows - 1)) * rows, draw(st.integers(0, 128 // wide - 1)) * wide
    return draw(st.sampled_from((None, (row, column, rows, wide))))


CALLS = st.lists(st.tuples(tiles(), st.sampled_from((1, 32, 64, 200, 512))), min_size=1, max_size=14)


def overlap(one: Tile | None, other: Tile | None) -> bool:
    (r, c, h, w), (r2, c2, h2, w2) = (tile or (0, 0, 128, 128) for tile in (one, other))
    return r < r2 + h2 and r2 < r + h and c < c2 + w2 and c2 < c + w


@given(CALLS, st.booleans(), st.booleans())
def test_tiles_keep_the_books(calls: list[Call], ramp: bool, reuse: bool) -> None:
    found = timed(matmuls(calls), power_ramp=ramp, stationary_reuse=reuse)
    checked(found)
    path_checked(found.timing)
    timing, rows = found.timing, found.rows("nc_matmul")
    tail = round(found.program.arch.matmul_latency_cycles / 2.4 * 1000)
    streaming = [(int(timing.start[row]), int(timing.ready[row]) - tail) for row in rows]
    for later, (tile, _) in enumerate(calls):
        for earlier in range(later):
            assert streaming[later][0] > streaming[earlier][0]
            if overlap(tile, calls[earlier][0]):
                assert streaming[later][0] >= streaming[earlier][1] - 2


@given(CALLS)
def test_side_by_side_is_never_slower(calls: list[Call]) -> None:
    kernel = matmuls(calls)
    together, apart = (timed(kernel, power_ramp=False, array_tiles=tiled).timing for tiled in (True, False))
    assert together.makespan <= apart.makespan
    assert (together.ready <= apart.ready).all()


@given(CALLS, st.data())
def test_a_matmul_more_shortens_nothing(calls: list[Call], data: st.DataObject) -> None:
    program = traced(matmuls(calls))
    allocation = allocate(program)
    order = schedule(program, allocation)
    whole = walk(program, order, PLAIN, allocation)
    row = data.draw(st.integers(0, len(program) - 1))
    less, shorter = without(program, order, row)
    part = walk(less, shorter, PLAIN, allocation)
    assert part.makespan <= whole.makespan
    assert (part.start <= np.delete(whole.start, row)).all()
