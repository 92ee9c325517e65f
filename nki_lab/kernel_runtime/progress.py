"""How far a run is: what its stages enter while they work, and what its observers read or are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal

Phase = Literal["checking", "specialising", "timing", "numerics"]
"""The stages of a run: the rules, the trace, addresses and times, the values."""

PAUSE: Final = 0.1
"""Seconds between two reports at least: people do not read faster."""

_SHARE: Final = 60
"""Times the length of a report until the next one: reports take less than 2 % of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is: instructions that are `done` in a phase, of `total`, None where nobody knows how many there
    will be; `elapsed` seconds since the run began. A phase that works in several passes counts anew in each.
    """

    phase: Phase
    done: int
    total: int | None
    elapsed: float


Report = Callable[[Progress], object]


class ReportError(BaseException):
    """The error of a report on its way out of the run: no Exception, since neither a kernel nor we are at fault."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Monitor:
    """The state of a run as its stages tell it, and those who hear of it.

    Stages call `begin`, then `advance` as often as they can afford, in the thread of the run. `report` is called at
    each beginning, and at most once in `PAUSE` seconds; what it raises ends the run. `close` is called when a run has
    ended, well or not. Other threads read the fields: `phase` is None between runs, `subject` is whatever the run shows
    of itself so far. All that is said goes on to `outer`.
    """

    __slots__ = (
        "_close",
        "_due",
        "_outer",
        "_report",
        "done",
        "kernel",
        "phase",
        "started",
        "subject",
        "target",
        "total",
    )

    def __init__(
        self,
        report: Report | None = None,
        *,
        close: Callable[[], object] | None = None,
        outer: Monitor | None = None,
    ) -> None:
        self._report = report
        self._close = close
        self._outer = outer
        self._due = 0.0
        self.started = time.perf_counter()
        self.kernel = self.target = ""
        self.phase: Phase | None = None
        self.done = 0
        self.total: int | None = None
        self.subject: object = None

    @property
    def is_followed(self) -> bool:
        """Whether anybody may look at what is said here."""
        return self is not _NOBODY

    def open(self, kernel: str, target: str) -> None:
        """Begin with a run of a kernel."""
        self.kernel, self.target, self.subject = kernel, target, None
        self.phase, self.done, self.total = None, 0, None
        self.started = time.perf_counter()
        if self._outer is not None:
            self._outer.open(kernel, target)

    def show(self, subject: object) -> None:
        """Say what there is to see so far."""
        self.subject = subject
        if self._outer is not None:
            self._outer.show(subject)

    def begin(self, phase: Phase, total: int | None = None) -> None:
        """Begin a phase, or one more pass of it, of so many instructions."""
        is_new = phase != self.phase
        self.phase, self.done, self.total = phase, 0, total
        if is_new:
            self._due = 0.0
        if self._outer is not None:
            self._outer.begin(phase, total)
        self.advance(0)

    def advance(self, done: int) -> None:
        """Say how many instructions are done."""
        self.done = done
        if self._outer is not None:
            self._outer.advance(done)
        if self._report is not None and time.perf_counter() >= self._due:
            self._tell(self._report)

    def complete(self) -> None:
        """Say that all is done."""
        if self.total is not None:
            self.done = self.total
        if self._outer is not None:
            self._outer.complete()
        if self._report is not None and self.phase is not None:
            self._tell(self._report)

    def leave(self) -> None:
        """Say that the run has ended."""
        self.phase = None
        if self._outer is not None:
            self._outer.leave()
        if self._close is not None:
            self._close()

    def _tell(self, report: Report) -> None:
        start = time.perf_counter()
        assert self.phase is not None  # a phase has begun
        try:
            report(Progress(phase=self.phase, done=self.done, total=self.total, elapsed=start - self.started))
        except Exception as error:
            raise ReportError(error) from error
        end = time.perf_counter()
        self._due = end + max(PAUSE, _SHARE * (end - start))


_NOBODY: Final = Monitor()
_monitor: ContextVar[Monitor] = ContextVar("nki_lab_monitor", default=_NOBODY)


def current_monitor() -> Monitor:
    """Return the monitor of the run in this thread; where nobody follows it, one that tells nobody."""
    return _monitor.get()


@contextmanager
def followed_by(monitor: Monitor | None) -> Iterator[None]:
    """Have the runs of this thread tell `monitor` while this lasts; None changes nothing.

    What its report raises is raised here as it was.
    """
    if monitor is None:
        yield
        return
    token = _monitor.set(monitor)
    try:
        yield
    except ReportError as failed:
        raise failed.error from None
    finally:
        _monitor.reset(token)
