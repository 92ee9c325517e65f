"""Loops that repeat exactly: filled in, with the columns of a walk that takes every op."""

from __future__ import annotations

import dataclasses
import importlib
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.timing import costs_of, extrapolation, walk
from nki_lab.kernel_runtime.timing.machine import machine_of
from nki_lab.kernel_runtime.timing.repeats import repeats_of
from tests.kernel_runtime.drawn_kernels import nisa, nl, small, traced
from tests.kernel_runtime.timing.test_walk import options
from tests.scale import scaled

COLUMNS = ("start", "duration", "ready", "wait", "setup", "served", "busy", "critical_pred", "stall", "setup_reason",
           "throttle_reason")  # fmt: skip

walking = importlib.import_module("nki_lab.kernel_runtime.timing.walk")


class Filled(Counter[str]):
    """How many ops were filled in, of all that were walked."""


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> Filled:
    """Counts of the ops of walks from here on."""
    found = Filled()
    take = extrapolation.Extrapolation._filled

    def counted(self: Any, relation: Any) -> bool:
        before = self.filled
        done = take(self, relation)
        found["filled"] += self.filled - before
        return done

    monkeypatch.setattr(extrapolation.Extrapolation, "_filled", counted)
    return found


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks also at short loops, and after few ops."""
    monkeypatch.setattr(walking, "_LOOKS", (12, 60))
    monkeypatch.setattr(walking, "_COMPILED_LOOKS", (12, 60))


def compared(
    kernel: Any, *shapes: tuple[int, ...], target: str | Arch = "trn2", device: int = 0, **changed: bool
) -> Any:
    """The program of a kernel, whose columns, path and sums are those of the walk of all its ops.

    After each `device` ops an iteration of a loop on the device begins; 0: there is none.
    """
    program = traced(kernel, *shapes, target=target)
    if device:
        program.begins = array("I", range(5, len(program), device))
    allocation = allocate(program)
    order = schedule(program, allocation)
    chosen = dataclasses.replace(Options(), **changed)
    some, every = (walk(program, order, chosen, allocation, every_op=whole) for whole in (False, True))
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(some, name), getattr(every, name), err_msg=name)
    for name in ("row", "work", "wait", "reason"):
        np.testing.assert_array_equal(getattr(some.path, name), getattr(every.path, name), err_msg=name)
    assert (some.makespan, some.lanes, some.trust) == (every.makespan, every.lanes, every.trust)
    return program


# -- drawn loops -------------------------------------------------------------------------------------------------------

ENGINES = ("vector", "scalar", "gpsimd")
SIZES = (8, 64, 512)


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop of `count` iterations with `body`, and in every so many iterations `seldom` too.

    Tiles below `kept` are made once, the others in each iteration; every call is (instruction, tile, tile, how).
    """

    count: int
    body: tuple[tuple[str, int, int, int], ...]
    seldom: tuple[tuple[str, int, int, int], ...]
    every: int
    kept: int
    columns: tuple[int, ...]
    last: bool

    def __call__(self, x: Any, y: Any) -> None:
        kept = [self.tile(number) for number in range(self.kept)]
        banks = [nl.ndarray((128, 512), nl.float32, buffer=nl.psum) for _ in range(2)]
        for tile in kept:
            nisa.memset(tile, 0.0)
        for number in range(self.count):
            tiles = [*kept, *(self.tile(number) for number in range(self.kept, len(self.columns)))]
            calls = self.body + (self.seldom if number % self.every == 0 else ())
            if self.last and number == self.count - 1:
                calls = (*calls, *self.body[:1])
            for call in calls:
                issue(call, tiles, [*banks, nl.ndarray((128, 512), nl.float32, buffer=nl.psum)], (x, y))
        for call in self.body[:2]:
            issue(call, tiles, banks, (x, y))

    def tile(self, number: int) -> Any:
        return nl.ndarray((128, self.columns[number]), nl.float32, buffer=nl.sbuf)


def issue(call: tuple[str, int, int, int], tiles: list[Any], banks: list[Any], hbm: tuple[Any, Any]) -> None:
    """Issue one call of a body."""
    name, first, second, how = call
    a, b = tiles[first % len(tiles)], tiles[second % len(tiles)]
    width = min(a.shape[1], b.shape[1])
    bank = banks[how % len(banks)]
    if name == "load":
        nisa.dma_copy(a, hbm[how % 2][:, 0 : a.shape[1]], dge_mode=MODES[how % 3])
    elif name == "store":
        nisa.dma_copy(hbm[how % 2][:, 0 : a.shape[1]], a, dge_mode=MODES[how % 3])
    elif name == "move":
        nisa.dma_copy(a[:, 0:width], b[:, 0:width])
    elif name == "copy":
        nisa.tensor_copy(a[:, 0:width], b[:, 0:width], engine=getattr(nisa.engine, ENGINES[how % 3]))
    elif name == "matmul":
        nisa.nc_matmul(bank[0:8, 0 : b.shape[1]], a[:, 0:8], b)
    elif name == "part":
        row, column = 32 * (how % 4), 32 * (first % 4)
        rows = slice(row, row + 32)
        where = {"tile_position": (row, column), "tile_size": (32, 32)}
        nisa.nc_matmul(bank[column : column + 8, 0 : b.shape[1]], a[rows, 0:8], b[rows], **where)
    elif name == "out":
        nisa.tensor_copy(a, bank[:, 0 : a.shape[1]], engine=getattr(nisa.engine, ENGINES[how % 2]))
    elif name == "iota":
        nisa.iota(a, pattern=[[1, a.shape[1]]])
    else:
        nisa.activation(a[:, 0:width], getattr(nl, ("exp", "tanh", "relu")[how % 3]), b[:, 0:width])


MODES = (nisa.dge_mode.unknown, nisa.dge_mode.swdge, nisa.dge_mode.hwdge)
NAMES = ("load", "load", "store", "move", "copy", "copy", "matmul", "matmul", "part", "out", "iota", "act")
CALLS = st.tuples(st.sampled_from(NAMES), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@st.composite
def loops(draw: Any, least: int = 30, most: int = 120) -> Loop:
    columns = tuple(draw(st.lists(st.sampled_from(SIZES), min_size=2, max_size=6)))
    return Loop(
        count=draw(st.integers(least, most)),
        body=tuple(draw(st.lists(CALLS, min_size=1, max_size=9))),
        seldom=tuple(draw(st.lists(CALLS, max_size=3))),
        every=draw(st.sampled_from((1, 2, 3, 5, 1000))),
        kept=draw(st.integers(0, len(columns))),
        columns=columns,
        last=draw(st.booleans()),
    )


TARGETS = st.sampled_from(("trn2", "trn3", "small"))


@pytest.mark.usefixtures("short")
@settings(max_examples=scaled(60), deadline=None)
@given(loops(), options(), TARGETS, st.booleans())
def test_drawn_loops_have_the_columns_of_all_their_ops(
    loop: Loop, chosen: dict[str, bool], target: str, device: bool
) -> None:
    arch = small(sbuf=16384) if target == "small" else target
    compared(loop, (128, 512), (128, 512), target=arch, device=len(loop.body) if device else 0, **chosen)
