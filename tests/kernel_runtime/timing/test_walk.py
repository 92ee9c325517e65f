"""The walk: what holds for every kernel, whatever it costs."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.isa.spec import Unmodelled
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.timing import STALL_REASONS, Timing, walk
from nki_lab.kernel_runtime.timing.costs import VariantCost, costs_of
from tests.kernel_runtime.drawn_kernels import Drawn, drawn_kernels, traced
from tests.kernel_runtime.timing.timed import PLAIN, Timed, nisa, nl, timed, without

TARGETS = st.sampled_from(("trn1", "trn2", "trn3"))
NAMES = ("bandwidth_sharing", "port_conflicts", "table_loads", "stationary_reuse", "power_ramp", "launch_overhead")


_SIMPLER = {("copy", "scalar"): "vector", ("dma", "sync"): "unknown", ("dma", "scalar"): "unknown"}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A drawn kernel with activations, transposes and reductions between its calls."""

    drawn: Drawn
    extra: tuple[tuple[int, str, int], ...]

    def on(self, target: str) -> Kernel:
        """The same kernel where NeuronCore-v2 has no copies on the Scalar Engine and no descriptor hardware."""
        if target != "trn1":
            return self
        calls = [(name, parts, _SIMPLER.get((name, engine), engine)) for name, parts, engine in self.drawn.calls]
        return dataclasses.replace(self, drawn=dataclasses.replace(self.drawn, calls=tuple(calls)))

    def __call__(self) -> None:
        self.drawn()
        tiles = [nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf) for _ in range(3)]
        bank = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
        bias = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        for number, name, other in self.extra:
            tile, source = tiles[number], tiles[other]
            if name == "matmul":
                nisa.nc_matmul(bank[0:64, 0:64], tile, source)
            elif name == "out":
                nisa.tensor_copy(tile, bank[:, 0:64])
            elif name == "sum":
                nisa.tensor_reduce(bias, nl.add, source, axis=1)
            elif name == "iota":
                nisa.iota(tile, pattern=[[1, 64]])
            else:
                nisa.activation(tile, getattr(nl, name), source, bias=bias)


@st.composite
def kernels(draw: Any, most_calls: int = 12) -> Kernel:
    names = st.sampled_from(("matmul", "out", "sum", "iota", "exp", "tanh", "relu"))
    extra = st.tuples(st.integers(0, 2), names, st.integers(0, 2))
    return Kernel(draw(drawn_kernels(most_calls=most_calls)), tuple(draw(st.lists(extra, max_size=8))))


@st.composite
def options(draw: Any) -> dict[str, bool]:
    return {name: draw(st.booleans()) for name in NAMES}


def checked(found: Timed) -> None:
    """What must hold of any walk."""
    timing, order = found.timing, found.schedule
    start, end = timing.start, timing.start + timing.duration
    assert (timing.ready >= 0).all()
    assert (timing.busy >= 0).all()
    assert (timing.busy <= timing.duration).all()
    assert (timing.setup <= timing.wait).all()
    assert ((timing.wait == 0) | (timing.stall > 0) | (timing.wait == timing.setup)).all()
    assert timing.makespan >= timing.ready.max(initial=0)
    for number, lane in enumerate(timing.lanes):
        rows = order.order[number].astype(np.int64)
        assert (start[rows][1:] >= end[rows][:-1]).all(), "rows of a lane overlap"
        assert lane.busy == timing.duration[rows].sum() <= timing.makespan
        assert lane.busy - sum(lane.slowed.values()) == timing.busy[rows].sum()
        assert lane.busy + sum(lane.stalls.values()) + lane.empty == timing.makespan
        assert min((*lane.stalls.values(), lane.empty)) >= 0
    hop = round(found.program.arch.semaphore_ns * 1000)
    for op in range(len(order)):
        for pred in order.pred[order.start[op] : order.start[op + 1]].tolist():
            assert start[op] >= timing.ready[pred] + hop
        if (flow := int(order.lane_flow[op])) >= 0:
            assert start[op] >= timing.ready[flow] + hop
        assert timing.critical_pred[op] != op


def path_checked(timing: Timing) -> None:
    path = timing.path
    assert path.length == timing.makespan
    assert (path.work >= 0).all()
    assert (path.wait >= 0).all()
    rows = [row for row in dict.fromkeys(path.row.tolist()) if row >= 0]
    for before, row in pairwise(rows):
        assert timing.critical_pred[row] == before
    assert not rows or timing.critical_pred[rows[0]] == -1
    assert set(path.waits) <= set(range(1, len(STALL_REASONS)))
    assert sum(timing.trust.values()) == pytest.approx(1.0 if timing.makespan else 0.0)


@given(kernels(), TARGETS, options())
def test_every_walk_keeps_its_books(kernel: Kernel, target: str, chosen: dict[str, bool]) -> None:
    found = timed(kernel.on(target), target=target, **chosen)
    checked(found)
    path_checked(found.timing)


@given(kernels(), TARGETS, options())
def test_equal_input_gives_equal_columns(kernel: Kernel, target: str, chosen: dict[str, bool]) -> None:
    first, second = (timed(kernel.on(target), target=target, **chosen).timing for _ in range(2))
    for name in (
        "start",
        "duration",
        "ready",
        "wait",
        "setup",
        "busy",
        "critical_pred",
        "stall",
        "setup_reason",
        "throttle_reason",
    ):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert (first.makespan, first.lanes, first.trust) == (second.makespan, second.lanes, second.trust)


@given(kernels(most_calls=10), TARGETS, st.data())
def test_an_added_op_shortens_nothing(kernel: Kernel, target: str, data: st.DataObject) -> None:
    program = traced(kernel.on(target), target=target)
    allocation = allocate(program)
    order = schedule(program, allocation)
    whole = walk(program, order, PLAIN, allocation)
    if not len(program):
        return
    row = data.draw(st.integers(0, len(program) - 1))
    less, shorter = without(program, order, row)
    part = walk(less, shorter, PLAIN, allocation)
    assert part.makespan <= whole.makespan
    assert (part.start <= np.delete(whole.start, row)).all()


@given(kernels(most_calls=10), TARGETS, st.data())
def test_a_raised_cost_shortens_nothing(kernel: Kernel, target: str, data: st.DataObject) -> None:
    program = traced(kernel.on(target), target=target)
    allocation = allocate(program)
    order = schedule(program, allocation)
    before = walk(program, order, PLAIN, allocation)
    costs = costs_of(program)
    raised = [_raised(cost, data) if data.draw(st.booleans()) else cost for cost in costs]
    after = walk(program, order, PLAIN, allocation, raised)
    assert after.makespan >= before.makespan
    assert (after.ready >= before.ready).all()


def _raised(cost: VariantCost, data: st.DataObject) -> VariantCost:
    more = data.draw(st.integers(0, 2_000_000))
    tail = data.draw(st.integers(0, 500_000))
    return dataclasses.replace(cost, interval=cost.interval + more, latency=cost.latency + more + tail)


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 2)), min_size=1, max_size=12), st.sampled_from((2, 3)))
def test_sharing_never_speeds_up_a_lone_queue(copies: list[tuple[int, int]], generation: int) -> None:
    def kernel(*inputs: Any) -> None:
        for columns, number in copies:
            tile = nl.ndarray((128, columns), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(tile, inputs[number][:, 0:columns], dge_mode=nisa.dge_mode.swdge)

    target = f"trn{generation - 1}"
    alone, shared = (
        timed(kernel, *[(128, 300)] * 3, target=target, bandwidth_sharing=sharing).timing for sharing in (False, True)
    )
    assert len([lane for lane in alone.lanes if lane.ops]) == 1
    assert shared.makespan >= alone.makespan


@given(kernels(), TARGETS)
def test_sharing_never_speeds_up_an_engine_alone(kernel: Kernel, target: str) -> None:
    calls = tuple(call for call in kernel.drawn.calls if call[0] == "memset")
    lone = Kernel(dataclasses.replace(kernel.drawn, calls=calls), ())
    alone, shared = (
        timed(lone.on(target), target=target, bandwidth_sharing=sharing).timing for sharing in (False, True)
    )
    assert shared.makespan >= alone.makespan


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_an_empty_kernel_takes_no_time_but_its_launch(target: str) -> None:
    def kernel() -> None:
        return None

    assert timed(kernel, target=target).timing.makespan == 0
    found = timed(kernel, target=target, launch_overhead=True)
    arch = found.program.arch
    assert found.timing.makespan == round((arch.launch_ns + arch.teardown_ns) * 1000)
    path_checked(found.timing)
    checked(found)


def test_the_launch_shifts_everything_and_nothing_else() -> None:
    kernel = pipeline(3)
    plain, launched = timed(kernel), timed(kernel, launch_overhead=True)
    arch = plain.program.arch
    assert (launched.timing.start - plain.timing.start == round(arch.launch_ns * 1000)).all()
    assert launched.timing.makespan - plain.timing.makespan == round((arch.launch_ns + arch.teardown_ns) * 1000)
    used = [lane for lane in launched.timing.lanes if lane.ops]
    assert all(lane.stalls[STALL_REASONS.index("launch")] == round(arch.launch_ns * 1000) for lane in used)


def pipeline(count: int) -> Any:
    """Load, multiply, copy out, for some tiles."""

    def kernel() -> None:
        source = nl.ndarray((128, 512 * count), nl.bfloat16, buffer=nl.shared_hbm)
        weight = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
        nisa.memset(weight, 0.0)
        for i in range(count):
            tile = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
            nisa.dma_copy(tile, source[:, 512 * i : 512 * (i + 1)])
            acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(acc, weight, tile)
            out = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(out, acc)
            nisa.dma_copy(source[:, 512 * i : 512 * (i + 1)], out)

    return kernel


def test_waits_are_called_by_what_is_waited_for() -> None:
    found = timed(pipeline(1))
    load, store = found.rows("dma_copy")
    (product,), (copy,) = found.rows("nc_matmul"), found.rows("tensor_copy")
    assert [found.stall(row) for row in (load, product, copy, store)] == [
        "none", "data from dma", "data from tensor", "data from vector",
    ]  # fmt: skip
    assert STALL_REASONS[found.timing.setup_reason[load]] == "dma start"
    assert found.timing.critical_pred[[product, copy, store]].tolist() == [load, product, copy]


def test_a_writer_waits_for_readers_and_writers() -> None:
    def kernel() -> None:
        a, b = (nl.ndarray((128, 2048), nl.float32, buffer=nl.sbuf) for _ in range(2))
        nisa.memset(a, 0.0)
        nisa.activation(b, nl.relu, a)
        nisa.memset(a[:, 0:8], 1.0)  # after the activation has read it

    def rewriting() -> None:
        a, b = (nl.ndarray((128, 2048), nl.float32, buffer=nl.sbuf) for _ in range(2))
        nisa.memset(a, 0.0)
        nisa.activation(b, nl.relu, a)
        nisa.memset(b[:, 0:8], 1.0)  # after the activation has written it

    for body, reason in ((kernel, "anti-dependency"), (rewriting, "output order")):
        found = timed(body)
        last = found.rows("memset")[1]
        assert found.stall(last) == reason
        assert found.timing.start[last] == found.timing.ready[1] + 27_000


def test_a_tensor_waits_for_the_one_whose_bytes_it_gets() -> None:
    def kernel(x: Any) -> None:
        for _ in range(3):
            tile = nl.ndarray((128, 40000), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(tile, x)
            nisa.activation(tile, nl.relu, tile)

    found = timed(kernel, (128, 40000))
    assert [found.stall(row) for row in found.rows("dma_copy")[1:]] == ["memory reuse"] * 2


def test_a_result_of_the_same_engine_is_waited_for_too() -> None:
    def kernel(chained: bool) -> Any:
        def body() -> None:
            a, b = (nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf) for _ in range(2))
            nisa.memset(a, 0.0)
            for _ in range(4):
                nisa.tensor_copy(b if chained else nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf), a)
                a, b = (b, a) if chained else (a, b)

        return body

    free, chained = timed(kernel(False)), timed(kernel(True))
    arch = free.program.arch
    latency = (32 + arch.vector_start_cycles) / arch.vector_ghz + arch.semaphore_ns
    assert chained.steps("tensor_copy") == pytest.approx([latency] * 3, abs=0.002)
    assert max(free.steps("tensor_copy")) < 0.6 * latency
    assert chained.stall(3) == "data from vector"


def test_an_instruction_without_cost_is_refused_by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    program = traced(pipeline(1))
    allocation = allocate(program)
    order = schedule(program, allocation)
    victim = program.variants[0]
    bare = dataclasses.replace(victim.instruction, cost=Unmodelled("nobody measured it"))
    monkeypatch.setattr(victim, "instruction", bare)
    with pytest.raises(NkiError, match=r"NKI010.*nobody measured it"):
        walk(program, order, Options(), allocation)


def test_ops_that_wait_for_each_other_do_not_hang_the_walk() -> None:
    program = traced(pipeline(1))
    allocation = allocate(program)
    order = schedule(program, allocation)
    rows = np.arange(len(program))
    circle = dataclasses.replace(
        order,
        start=np.array([*range(len(rows)), len(rows)]),
        pred=np.roll(rows, 1).astype(np.uint32),
        kind=np.zeros(len(rows), np.uint8),
    )
    with pytest.raises(AssertionError, match="wait for each other"):
        walk(program, circle, Options(), allocation)


def test_the_options_are_those_of_the_program_unless_given() -> None:
    program = traced(pipeline(2))
    program.options = dataclasses.replace(Options(), launch_overhead=True)
    allocation = allocate(program)
    order = schedule(program, allocation)
    assert walk(program, order).makespan > walk(program, order, Options()).makespan
