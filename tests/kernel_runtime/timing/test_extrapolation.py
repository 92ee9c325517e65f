"""Loops that repeat exactly: filled in, with the columns of a walk that takes every op."""

from __future__ import annotations

import dataclasses
import importlib
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.timing import costs_of, extrapolation, walk
from nki_lab.kernel_runtime.timing.counterfactual import makespans_without
from nki_lab.kernel_runtime.timing.machine import machine_of
from nki_lab.kernel_runtime.timing.repeats import repeats_of
from tests.kernel_runtime.drawn_kernels import nisa, nl, small, traced, traced_on_cores
from tests.kernel_runtime.timing.test_walk import options
from tests.scale import scaled
from tests.two_cores import MOVES, Move, kernel_of, specialised

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
        program.begins = list(range(5, len(program), device))
    compare(program, **changed)
    return program


def compare(program: Program, **changed: bool) -> None:
    """Hold the columns, path and sums of a program against those of the walk of all its ops."""
    allocation = allocate(program)
    order = schedule(program, allocation)
    chosen = dataclasses.replace(Options(), **changed)
    some, every = (walk(program, order, chosen, allocation, every_op=whole) for whole in (False, True))
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(some, name), getattr(every, name), err_msg=name)
    for name in ("row", "work", "wait", "reason"):
        np.testing.assert_array_equal(getattr(some.path, name), getattr(every.path, name), err_msg=name)
    assert (some.makespan, some.lanes, some.trust) == (every.makespan, every.lanes, every.trust)


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
LAUNCHED = {"launch_overhead": True, "power_ramp": False}

# An engine that runs ahead of a queue, whose time is not to move with it.
AHEAD = Loop(
    count=107,
    body=(("store", 2, 0, 2), ("act", 3, 4, 3)),
    seldom=(("out", 3, 2, 5), ("matmul", 4, 5, 0), ("act", 2, 0, 1)),
    every=1000,
    kept=2,
    columns=(8, 8),
    last=True,
)


@pytest.mark.usefixtures("short")
@settings(max_examples=scaled(200), deadline=None)
@given(loops(), options(), TARGETS, st.booleans())
@example(AHEAD, LAUNCHED, "trn2", False)
def test_drawn_loops_have_the_columns_of_all_their_ops(
    loop: Loop, chosen: dict[str, bool], target: str, device: bool
) -> None:
    arch = small(sbuf=16384) if target == "small" else target
    compared(loop, (128, 512), (128, 512), target=arch, device=len(loop.body) if device else 0, **chosen)


# -- what engages, and what does not -----------------------------------------------------------------------------------


def matmul(tiles: int, kept: bool = True, last: bool = False) -> Any:
    """A product of `tiles` tiles, eight loads of both operands each; `last` has one more instruction in the end."""

    def kernel(x: Any, y: Any) -> None:
        shapes = ((128, 128), nl.bfloat16), ((128, 512), nl.bfloat16)
        pool = [[nl.ndarray(*shape, buffer=nl.sbuf) for shape in shapes] for _ in range(4)]
        for tile in range(tiles):
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for k in range(8):
                left, right = pool[k % 4] if kept else [nl.ndarray(*shape, buffer=nl.sbuf) for shape in shapes]
                nisa.dma_copy(left, x[:, 0:128])
                nisa.dma_copy(right, x)
                nisa.nc_matmul(acc, left, right)
            out = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(out, acc)
            if last and tile == tiles - 1:
                nisa.activation(out, nl.exp, out)
            nisa.dma_copy(y, out)

    return kernel


def chain(rounds: int, every: int = 0) -> Any:
    """`rounds` of three instructions on one tile, and in each round of a number that `every` divides another one."""

    def kernel(x: Any) -> None:
        a, b = (nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf) for _ in range(2))
        nisa.dma_copy(a, x)
        for number in range(rounds):
            nisa.tensor_copy(b, a)
            nisa.activation(b, nl.exp, b)
            nisa.tensor_tensor(a, a, b, nl.add)
            if every and number % every == 0:
                nisa.memset(b, 0.0)
        nisa.dma_copy(x, a)

    return kernel


@pytest.mark.parametrize("kept", [True, False])
def test_most_of_a_product_is_filled_in(kept: bool, filled: Filled) -> None:
    program = compared(matmul(200, kept), (128, 512), (128, 512))
    # Where SBUF begins anew, so does a stretch.
    assert filled["filled"] > (0.8 if kept else 0.4) * len(program)


def product(x: Any, y: Any) -> None:
    """x.T @ y in fresh tiles, as a first kernel has it: queues take turns with different numbers of transfers."""
    depth, rows = x.shape
    _, columns = y.shape
    out = nl.ndarray((rows, columns), nl.bfloat16, buffer=nl.shared_hbm)
    for m in range(rows // 128):
        for n in range(columns // 512):
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for k in range(depth // 128):
                left, right = (nl.ndarray((128, size), nl.bfloat16, buffer=nl.sbuf) for size in (128, 512))
                nisa.dma_copy(left, x[k * 128 : k * 128 + 128, m * 128 : m * 128 + 128])
                nisa.dma_copy(right, y[k * 128 : k * 128 + 128, n * 512 : n * 512 + 512])
                nisa.nc_matmul(acc, left, right)
            tile = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(tile, acc)
            nisa.dma_copy(out[m * 128 : m * 128 + 128, n * 512 : n * 512 + 512], tile)


def test_half_of_a_product_in_fresh_tiles_is_filled_in(filled: Filled) -> None:
    program = compared(product, (2048, 2048), (2048, 2048))
    assert filled["filled"] > 0.4 * len(program)


def test_nearly_all_of_a_chain_is_filled_in(filled: Filled) -> None:
    program = compared(chain(2000), (128, 512))
    assert filled["filled"] > 0.9 * len(program)


def test_a_loop_within_a_loop_is_filled_in_by_the_outer_one(filled: Filled) -> None:
    program = compared(chain(2000, every=7), (128, 512))
    assert filled["filled"] > 0.8 * len(program)


def test_an_iteration_that_differs_ends_the_stretch(filled: Filled) -> None:
    kernel = matmul(200, last=True)
    program = compared(kernel, (128, 512), (128, 512))
    allocation = allocate(program)
    machine = machine_of(program, schedule(program, allocation), program.options, allocation, costs_of(program), {})
    (other,) = [op.index for op in program.ops() if op.variant.instruction.name == "activation"]
    assert max(repeat.end for repeat in repeats_of(machine, 1000)) <= other
    assert 0 < filled["filled"] < other


@pytest.mark.usefixtures("short")
def test_what_does_not_repeat_is_walked(filled: Filled) -> None:
    chance = np.random.default_rng(3)
    calls = [(NAMES[chance.integers(len(NAMES))], *chance.integers(0, 6, 3).tolist()) for _ in range(400)]

    def kernel(x: Any, y: Any) -> None:
        tiles = [nl.ndarray((128, columns), nl.float32, buffer=nl.sbuf) for columns in (8, 64, 512, 64)]
        banks = [nl.ndarray((128, 512), nl.float32, buffer=nl.psum) for _ in range(3)]
        for call in calls:
            issue(call, tiles, banks, (x, y))

    compared(kernel, (128, 512), (128, 512))
    assert filled["filled"] == 0


# -- two cores ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short")
@settings(max_examples=scaled(100), deadline=None)
@given(loops(most=80), st.sampled_from(("same", "longer", "later")), loops(most=80), options(), TARGETS)
def test_drawn_loops_of_two_cores_have_the_columns_of_all_their_ops(
    loop: Loop, other: str, ahead: Loop, chosen: dict[str, bool], target: str
) -> None:
    """The second core does the same, or goes round more often, or does something else before."""

    def later(x: Any, y: Any) -> None:
        dataclasses.replace(ahead, count=2)(x, y)
        loop(x, y)

    second = {"same": loop, "longer": dataclasses.replace(loop, count=loop.count + 17), "later": later}[other]
    arch = small(sbuf=16384) if target == "small" else target
    compare(traced_on_cores([loop, second], (128, 512), (128, 512), target=arch), **chosen)


def test_most_of_a_product_on_two_cores_is_filled_in(filled: Filled) -> None:
    program = traced_on_cores([matmul(200), matmul(200)], (128, 512), (128, 512))
    compare(program)
    assert filled["filled"] > 0.8 * len(program)


def test_a_core_that_goes_on_alone_is_filled_in(filled: Filled) -> None:
    program = traced_on_cores([matmul(60), matmul(300)], (128, 512), (128, 512))
    compare(program)
    assert filled["filled"] > 0.5 * len(program)


def uneven(rounds: int, core: int) -> Any:
    """Loads and copies, of which one core does more in each iteration."""

    def kernel(x: Any, y: Any) -> None:
        for _ in range(rounds):
            tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(tile, x)
            nisa.activation(tile, nl.exp, tile)
            if core == 0:
                nisa.tensor_copy(tile, tile)
            nisa.dma_copy(y, tile)

    return kernel


def test_iterations_in_which_one_core_does_more_are_filled_in(filled: Filled) -> None:
    program = traced_on_cores([uneven(900, 0), uneven(900, 1)], (128, 512), (128, 512))
    compare(program)
    assert filled["filled"] > 0.5 * len(program)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", ["exchange", "publish"])
def test_loops_in_which_cores_wait_for_each_other_are_filled_in(kind: str, filled: Filled) -> None:
    moves = [Move(kind, 0, 1, 0), Move("add", 1, 1, 0)] * 100
    program, _ = specialised(kernel_of(moves, nl.float32), (128, 64))
    compare(program)
    assert filled["filled"] > 0.5 * len(program)


@pytest.mark.usefixtures("short")
@settings(max_examples=scaled(50), deadline=None)
@given(st.lists(MOVES, min_size=1, max_size=5), st.lists(MOVES, max_size=5))
def test_drawn_loops_of_cores_that_wait_have_the_columns_of_all_their_ops(body: list[Move], before: list[Move]) -> None:
    program, _ = specialised(kernel_of([*before, *body * 40], nl.float32), (128, 64))
    compare(program)


@pytest.mark.usefixtures("short")
@settings(max_examples=scaled(15), deadline=None)
@given(loops(), TARGETS, options())
def test_changed_machines_have_the_makespans_of_all_their_ops(loop: Loop, target: str, chosen: dict[str, bool]) -> None:
    arch = small(sbuf=16384) if target == "small" else target
    program = traced(loop, (128, 512), (128, 512), target=arch)
    program.options = dataclasses.replace(Options(), **chosen)
    allocation = allocate(program)
    order = schedule(program, allocation)
    some = makespans_without(program, order, allocation)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walking, "extrapolation_of", lambda *_: None)
        assert makespans_without(program, order, allocation) == some
