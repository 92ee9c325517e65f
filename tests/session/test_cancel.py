"""Runs that the user stops: at any time, in any phase, they say so once and leave everything usable."""

from __future__ import annotations

import _thread
import gc
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.kernel_runtime.issue.context import local
from nki_lab.kernel_runtime.progress import Progress
from nki_lab.result import Run
from nki_lab.session import plans, programs

X = np.linspace(0, 1, 128 * 256, dtype=np.float32).reshape(128, 256)
MOST = 0.5
"""Seconds in which an interrupt takes effect on a quiet machine."""


@nki.jit
def chain(a, n):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    for _ in range(n):
        tile = nl.multiply(tile, 0.5)
    nl.store(out, tile)
    return out


@nki.jit
def product(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    for m in range(a.shape[1] // 128):
        for n in range(b.shape[1] // 512):
            acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(a.shape[0] // 128):
                rows = slice(k * 128, (k + 1) * 128)
                left, right = nl.load(a[rows, m * 128 : (m + 1) * 128]), nl.load(b[rows, n * 512 : (n + 1) * 512])
                nisa.nc_matmul(dst=acc, stationary=left, moving=right)
            nl.store(out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], nl.copy(acc))
    return out


@nki.jit
def doubled_in_place(a):
    nl.store(a, nl.multiply(nl.load(a), 2.0))
    return a


class Interrupt:
    """Interrupts the main thread once, at a progress report: as Ctrl-C does, at the next instruction of Python's."""

    def __init__(self, phase: str, done: int = 0) -> None:
        self._phase, self._done = phase, done
        self.sent = 0.0

    def __call__(self, progress: Progress) -> None:
        if not self.sent and progress.phase == self._phase and progress.done >= self._done:
            self.sent = time.perf_counter()
            _thread.interrupt_main()


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Interrupt the main thread after some time, if it is still in the block."""
    is_open = threading.Event()
    lock = threading.Lock()

    def send() -> None:
        with lock:
            if not is_open.is_set():
                _thread.interrupt_main()

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        yield
    finally:
        with lock:
            is_open.set()
        timer.join()


def _is_usable() -> None:
    assert local.builder is None
    assert (nki_lab.run(chain, X, 2, target="trn2").outputs[0] == X * 0.25).all()


@pytest.mark.parametrize("phase", ["specialising", "timing", "checking", "numerics"])
def test_an_interrupt_stops_every_phase(phase: str) -> None:
    interrupt = Interrupt(phase)
    done = nki_lab.run(chain, X, 1500, target="trn2", on_error="report", progress=interrupt)
    assert time.perf_counter() - interrupt.sent < MOST
    assert done.error is not None
    assert [item.code for item in done.diagnostics] == ["NKI008"]
    assert "was cancelled after" in str(done.error)
    if phase in ("timing", "checking"):
        assert f"after {len(done.program):,} instructions were issued" in str(done.error)
    assert ": cancelled; 1 error>" in repr(done)
    _is_usable()


def test_an_interrupt_stays_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        nki_lab.run(chain, X, 1500, target="trn2", progress=Interrupt("numerics"))
    with pytest.raises(KeyboardInterrupt):
        nki_lab.profile(chain, nki_lab.spec((128, 256), "float32"), 1500, target="trn2", progress=Interrupt("timing"))
    _is_usable()


def test_what_was_done_until_then_is_recorded() -> None:
    done = nki_lab.run(chain, X, 40_000, target="trn2", on_error="report", progress=Interrupt("numerics", 1))
    summary = done.recording.summary
    executed, until = summary["cancelled"], summary["cancelled_ps"]
    assert isinstance(executed, int)
    assert isinstance(until, int)
    assert 0 < executed < len(done.program) == 40_002
    starts = done.recording.rows["start"][:]
    assert (starts[:executed] < until).sum() == executed
    assert (starts[executed:] >= until).all()
    said = f"cancelled after {executed:,} of {len(done.program):,} instructions"
    assert said in str(done.report())
    assert said in str(done.error)


def test_a_run_that_is_cancelled_before_its_first_instruction_is_one_without_any() -> None:
    done = nki_lab.run(chain, X, 3, target="trn2", on_error="report", progress=Interrupt("specialising"))
    assert len(done.program) == 0
    assert not done.has_recording
    assert "after 0 instructions were issued" in str(done.error)


def test_a_few_instructions_are_drawn_though_their_times_were_unknown() -> None:
    class Stop:
        @staticmethod
        def now() -> None:
            raise KeyboardInterrupt

    def kernel(a, n):
        tile = nl.load(a)
        for i in range(n):
            tile = nl.multiply(tile, 0.5)
            if i == 20:
                Stop.now()
        return tile

    done = nki_lab.run(kernel, X, 50, target="trn2", on_error="report")
    assert len(done.recording) == done.recording.summary["cancelled"] == 22


def test_products_as_large_as_a_second_are_left_in_time() -> None:
    a, b = np.ones((2048, 2048), np.float32), np.ones((2048, 4096), np.float32)
    interrupt = Interrupt("numerics", 1)
    done: Run = nki_lab.run(product, a, b, target="trn2", on_error="report", progress=interrupt)
    assert done.error is not None
    assert time.perf_counter() - interrupt.sent < MOST
    _is_usable()


def test_arguments_are_changed_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from nki_lab.session import arrays

    changed = arrays.changed
    calls: list[int] = []

    def once(*given: Any) -> None:
        changed(*given)
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(arrays, "changed", once)
    x = X.copy()
    with pytest.raises(KeyboardInterrupt):
        nki_lab.run(doubled_in_place, x, target="trn2")
    assert (x == 2 * X).all()
    assert len(calls) == 2


@pytest.fixture
def without_callbacks() -> Iterator[None]:
    """Take away what other packages do at collections: an interrupt that meets it is lost, and not raised."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = callbacks


# One that meets a callback of a weak reference is lost too: Python can only print it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("without_callbacks")
def test_an_interrupt_at_any_time_leaves_everything_usable() -> None:
    draw = random.Random(16)
    threshold = gc.get_threshold()
    start = time.perf_counter()
    nki_lab.run(chain, X, 600, target="trn2")
    whole = time.perf_counter() - start

    for number in range(25):
        at = draw.random() * 1.2
        x = X.copy()
        try:
            with interrupted_after(at * whole):
                if number % 5:
                    done = nki_lab.run(chain, x, 600 + number, target="trn2")
                else:
                    done = nki_lab.run(doubled_in_place, x, target="trn2")
            assert done.ok
        except KeyboardInterrupt:
            pass
        assert (x == X).all() or (x == 2 * X).all(), at
        assert gc.get_threshold() == threshold, at
        _is_usable()


class Interrupting:
    """A part of a key that is interrupted when it is hashed for the time that `left` counts to."""

    left = -1

    def __hash__(self) -> int:
        Interrupting.left -= 1
        if Interrupting.left == 0:
            raise KeyboardInterrupt
        return 1


@pytest.mark.parametrize("number", range(1, 12))
def test_an_interrupt_while_a_key_is_hashed_is_one(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done = nki_lab.run(chain, X, 3, target="trn2")
    plan: Any = SimpleNamespace(nbytes=1, busy=False, dropped=False)
    cache = plans.PlanCache()
    cache.add((Interrupting(),), plan)
    monkeypatch.setattr(programs, "_kept", type(programs._kept)())
    programs.keep((Interrupting(),), done.program, None, [])
    for keep in (lambda: programs.keep((1,), done.program, None, []), lambda: cache.add((1,), plan)):
        Interrupting.left = number
        with suppress(KeyboardInterrupt):
            keep()
        Interrupting.left = -1
    assert len(programs._kept) <= 2


@pytest.mark.parametrize("phase", ["specialising", "timing", "checking", "numerics"])
def test_what_a_progress_function_raises_ends_the_run(phase: str) -> None:
    def refuse(progress: Progress) -> None:
        if progress.phase == phase:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        nki_lab.run(chain, X, 700, target="trn2", progress=refuse, on_error="report")
    _is_usable()


def test_progress_says_phase_and_instructions() -> None:
    told: list[Progress] = []
    run = nki_lab.run(chain, X, 300, target="trn2", progress=told.append)
    assert list(dict.fromkeys(item.phase for item in told)) == ["specialising", "timing", "checking", "numerics"]
    assert told[-1].done == told[-1].total == len(run.program)
    told.clear()
    nki_lab.profile(chain, nki_lab.spec((128, 256), "float32"), 300, target="trn2", progress=told.append)
    assert "numerics" not in {item.phase for item in told}


def test_progress_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(nki_lab.NkiError, match="NKI012 progress is 3"):
        nki_lab.run(chain, X, 2, target="trn2", progress=3)  # type: ignore[arg-type]
