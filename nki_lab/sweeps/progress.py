"""How far a sweep is: for a function of the user's, and as a bar in a notebook and on a terminal."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any, Final, TextIO

_PAUSE: Final = 0.1
"""Seconds between two lines at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is: points that are `done` of `total`, those of them that are not ok, and `reused` ones."""

    name: str
    done: int
    total: int
    failed: int
    reused: int
    seconds: float
    finished: bool = False

    @property
    def remaining(self) -> float | None:
        """Seconds that the other points will take at the pace so far; None before the first one is done."""
        worked = self.done - self.reused
        return self.seconds / worked * (self.total - self.done) if worked > 0 else None

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.done} of {self.total} points"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.reused} known"] if self.reused else []
        parts.append(f"{self.seconds:.0f} s")
        parts += [f"{self.remaining:.0f} s left"] if self.remaining is not None and not self.finished else []
        return ", ".join(parts)


Report = Callable[[Progress], object]


class TerminalLine:
    """Writes the progress over itself in one line of a terminal, and clears it at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._next and not progress.finished:
            return
        self._next = now + _PAUSE
        width = shutil.get_terminal_size().columns - 1
        text = "" if progress.finished else str(progress)[:width]
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()


class TerminalBar:
    """Shows the progress as a bar of tqdm, with the points that failed or were known beside it; it goes at the end."""

    def __init__(self, make: Any, stream: TextIO) -> None:
        make.monitor_interval = 0  # no thread that looks after bars: reports come often enough
        self._make = make
        self._stream = stream
        self._bar: Any = None

    def __call__(self, progress: Progress) -> None:
        if self._bar is None:
            # Points that were on the disk say nothing of the pace.
            self._bar = self._make(
                total=progress.total,
                initial=progress.reused,
                desc=progress.name,
                unit=" points",
                leave=False,
                dynamic_ncols=True,
                file=self._stream,
            )
        counts = {"failed": progress.failed, "known": progress.reused}
        self._bar.set_postfix({name: count for name, count in counts.items() if count}, refresh=False)
        self._bar.update(max(0, progress.done - self._bar.n))
        if progress.finished:
            self._bar.close()
            self._bar = None


class NotebookLine:
    """Shows the progress in the output of a notebook's cell: a bar with the sentence beside it."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._next and not progress.finished:
            return
        self._next = now + _PAUSE
        data = {"text/plain": str(progress), "text/html": self._html(progress)}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def _html(self, progress: Progress) -> str:
        bar = (
            ""
            if progress.finished
            else f'<progress value="{progress.done}" max="{max(progress.total, 1)}"></progress> '
        )
        return f"<div>{bar}{escape(str(progress))}</div>"


def _notebook() -> Callable[..., Any] | None:
    """Return the function that displays something below a notebook's cell; None outside of notebooks."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    display: Callable[..., Any] = importlib.import_module("IPython.display").display
    return display


def reporter(asked: Report | bool | None) -> Report:
    """Return the function that is told about progress: the user's, a bar in a notebook or on a terminal, or none.

    Without tqdm a terminal has a line in place of a bar.
    """
    if callable(asked):
        return asked
    display = None if asked is False else _notebook()
    if display is not None:
        return NotebookLine(display)
    if asked is None:
        asked = sys.stderr is not None and sys.stderr.isatty()
    if not asked:
        return lambda _: None
    make = _tqdm()
    return TerminalLine(sys.stderr) if make is None else TerminalBar(make, sys.stderr)


def _tqdm() -> Any:
    """Return the class of bars; None where it is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm
