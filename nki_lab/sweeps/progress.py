"""How far a sweep is: for a function of the user's, and as one line on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

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


def reporter(asked: Report | bool | None) -> Report:
    """Return the function that is told about progress: the user's, a line on a terminal, or none."""
    if callable(asked):
        return asked
    if asked is None:
        asked = sys.stderr is not None and sys.stderr.isatty()
    return TerminalLine(sys.stderr) if asked else lambda _: None
