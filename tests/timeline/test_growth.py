"""What is drawn of a run that is still being worked out."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.progress import Monitor, followed_by
from nki_lab.kernel_runtime.timing import Walk
from nki_lab.timeline import growth
from nki_lab.timeline.growth import BINS, ROWS, Clock, Growth, Order, Steps
from nki_lab.timeline.timeline import made

SOURCE = """
import nki, nki.language as nl

@nki.jit
def chain(a, n):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    kept = nl.load(a)
    for i in range(n):
        t = nl.load(a)
        u = nl.multiply(nl.exp(t), 0.5)
        nl.store(out, nl.add(u, kept))
    return out

@nki.jit
def halves(a, n):
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.load(a)
    for i in range(n):
        t = nl.exp(t) if nl.program_id(0) == 0 else nl.add(t, t)
        nl.store(out[nl.program_id(0)], t)
    return out
"""


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    space: dict[str, Any] = {}
    nki_lab.activate()
    exec(SOURCE, space)
    return space


@pytest.fixture(scope="module")
def chain(kernels: dict[str, Any]) -> Any:
    return kernels["chain"]


@pytest.fixture(scope="module")
def program(chain: Any) -> Program:
    compiled: Program = nki_lab.compile(chain, nki_lab.spec((128, 512), "float32"), 4000, target="trn2")
    assert len(compiled) > ROWS
    return compiled


def _rows(curves: Any) -> dict[str, np.ndarray]:
    shares = np.frombuffer(curves.shares, np.uint8).reshape(len(curves.names), curves.count)
    return dict(zip(curves.names, shares, strict=True))


def test_steps_do_not_depend_on_when_their_bins_became_wide() -> None:
    chance = np.random.default_rng(5)
    begins = np.sort(chance.integers(0, 20_000, 500))
    ends = begins + chance.integers(1, 4_000, 500)
    at_once, one_by_one = Steps(1), Steps(1)
    at_once.reach(int(ends.max()))
    rows = np.zeros(1, np.int64)
    for begin, end in zip(begins, ends, strict=True):
        one_by_one.add(rows, np.array([begin]), 3.0)
        one_by_one.add(rows, np.array([end]), -3.0)
    at_once.add(np.zeros(500, np.int64), begins, 3.0)
    at_once.add(np.zeros(500, np.int64), ends, -3.0)
    assert one_by_one.width == at_once.width
    until = int(ends.max())
    found = one_by_one.means(until)
    np.testing.assert_allclose(found, at_once.means(until), atol=1e-9)
    exact = np.zeros(-(-until // at_once.width) * at_once.width)
    for begin, end in zip(begins, ends, strict=True):
        exact[begin:end] += 3
    exact = exact[:until]
    means = [exact[first : first + at_once.width].mean() for first in range(0, until, at_once.width)]
    np.testing.assert_allclose(found[0], means, atol=1e-9)


def test_the_last_bin_counts_as_far_as_is_known() -> None:
    steps = Steps(1, width=100)
    steps.add(np.zeros(1, np.int64), np.array([0]), 1.0)
    np.testing.assert_allclose(steps.means(130), [[1.0, 1.0]])


def test_lanes_have_their_shares_of_the_instructions(program: Program) -> None:
    order = Order(program)
    assert order.advance()
    curves = order.lanes()
    assert curves.over == "program"
    assert curves.until == len(program) - 1  # the last one might be being written
    rows = _rows(curves)
    assert rows.keys() == {"vector", "scalar", "dma"}
    assert curves.count <= BINS
    # Of the five instructions of an iteration two are transfers, two of the Vector Engine.
    assert [round(float(rows[name].mean()) / 255, 1) for name in ("vector", "scalar", "dma")] == [0.4, 0.2, 0.4]


def test_memories_are_as_full_as_the_tiles_that_are_used_again(program: Program, monkeypatch: Any) -> None:
    monkeypatch.setattr(growth, "ROWS", len(program))
    order = Order(program)
    order.advance()
    curves = order.memories()
    assert curves.until == len(program) - 1
    exact = _live(program, len(program) - 1)
    width = curves.end // BINS
    means = [exact[at : at + width].mean() for at in range(0, curves.until, width)]
    found = _rows(curves)["sbuf"] / 255 * program.arch.sbuf_usable_bytes
    step = program.arch.sbuf_usable_bytes / 255
    assert np.abs(found - np.array(means))[:-1].max() <= step


def _live(program: Program, rows: int) -> np.ndarray:
    """The bytes of a partition of SBUF that are in use at each of the first rows."""
    first, last = np.full(len(program.buffers), -1), np.full(len(program.buffers), -1)
    for row in range(rows):
        for view in program.views_of(row):
            number = view.buffer.id
            first[number] = row if first[number] < 0 else first[number]
            last[number] = row
    exact = np.zeros(rows)
    for buffer in program.buffers:
        if buffer.on_chip and first[buffer.id] >= 0:
            exact[first[buffer.id] : last[buffer.id] + 1] += buffer.partition_bytes
    return exact


def test_of_a_fast_trace_memories_are_looked_at_in_pieces(program: Program) -> None:
    class Growing:
        """A program of which so many rows are there."""

        def __init__(self, rows: int) -> None:
            self.rows = rows

        def __getattr__(self, name: str) -> Any:
            found = getattr(program, name)
            return found[: self.rows + 1] if name == "op_access" else found

    growing: Any = Growing(6000)
    order = Order(growing)
    for rows in (6000, 7000, 19_000):
        growing.rows = rows
        order.advance()
    curves = order.memories()
    assert curves.until == 19_000
    assert curves.count == order.lanes().count
    # The kernel does the same all the time: so it shows, also in what nobody looked at.
    found = _rows(curves)["sbuf"][2:-1]
    assert found.max() - found.min() <= 2
    assert found.min() / 255 * program.arch.sbuf_usable_bytes >= 2048  # the tile that is kept


def test_times_are_those_of_the_timeline(program: Program) -> None:
    line = made(program)
    clock = Clock(line)
    curves = clock.lanes()
    assert (curves.over, curves.until) == ("time", line.timing.makespan)
    busy = {name: line.busy[name] * 1000 / line.timing.makespan for name in ("vector", "scalar")}
    rows = _rows(curves)
    for name, share in busy.items():
        assert float(rows[name].mean()) / 255 == pytest.approx(share, abs=0.02)


def test_a_walk_is_seen_while_it_goes_on(program: Program) -> None:
    """The monitor's thread is the run's here: it looks each time that the walk tells how far it is."""
    drawing = Growth()
    seen: list[dict[str, Any]] = []

    class Looking(Monitor):
        def advance(self, done: int) -> None:
            super().advance(done)
            found = drawing.look(self.subject)
            if isinstance(self.subject, Walk) and found is not None:
                seen.append(found)

    with followed_by(Looking()):
        line = made(program)
    assert len(seen) >= 3
    reached = [item["lanes"]["until"] for item in seen]
    assert reached == sorted(reached)
    assert 0 < reached[0] < 0.6 * line.timing.makespan
    assert {item["lanes"]["over"] for item in seen} == {"time"}


def test_a_walk_of_two_cores_is_seen_with_the_times_of_its_ops(kernels: dict[str, Any]) -> None:
    kernel = kernels["halves"][2]
    program = nki_lab.compile(kernel, nki_lab.spec((128, 512), "float32"), 3000, target="trn2")
    clocks: list[Clock] = []

    class Looking(Monitor):
        def advance(self, done: int) -> None:
            super().advance(done)
            if isinstance(self.subject, Walk):
                if not clocks:
                    clocks.append(Clock(self.subject))
                clocks[0].advance()

    with followed_by(Looking()):
        line = made(program)
    curves = clocks[0].lanes()
    assert curves.until > 0.9 * line.timing.makespan
    seen, known = _rows(curves), _rows(Clock(line).lanes())
    for name in ("scalar", "vector"):
        assert known[name].mean() > 20
        assert float(seen[name].mean()) == pytest.approx(float(known[name].mean()), rel=0.1)


def test_a_run_shows_its_program_then_its_walk_then_its_times(chain: Any) -> None:
    subjects: list[type] = []

    class Noting(Monitor):
        def show(self, subject: object) -> None:
            subjects.append(type(subject))
            super().show(subject)

    with followed_by(Noting()):
        nki_lab.run(chain, np.ones((128, 64), np.float32), 7, target="trn2")
    names = [kind.__name__ for kind in subjects]
    assert names[0] == "Program"
    assert names[-1] == "Timeline"
    assert "Walk" in names


def test_looking_at_a_program_that_is_traced_in_another_thread_hinders_nothing(chain: Any) -> None:
    monitor, drawing = Monitor(lambda _: None), Growth()
    over, failed = threading.Event(), []

    def look() -> None:
        while not over.is_set():
            try:
                drawing.look(monitor.subject)
            except Exception as error:  # noqa: BLE001 - told below
                failed.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    with followed_by(monitor):
        run = nki_lab.profile(chain, nki_lab.spec((128, 64), "float32"), 3001, target="trn2")
    over.set()
    thread.join()
    assert failed == []
    assert run.summary["instructions"] == len(run.program)


def test_what_did_not_change_is_not_drawn_again(program: Program) -> None:
    drawing = Growth()
    found = drawing.look(program)
    assert found is not None and found["memories"] is not None
    while drawing.look(program) is not None:
        pass
    assert drawing.look(program) is None
    assert drawing.look(None) is None
