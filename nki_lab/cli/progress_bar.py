"""The bar that shows on a terminal how far a run is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from nki_lab.kernel_runtime.progress import Monitor, Phase, Progress, followed_by

_DELAY: Final = 0.5
"""Seconds of a phase before its bar appears: short runs show none."""


class Bar:
    """A bar for each phase of a run, in one line that goes away with the run."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._make.monitor_interval = 0  # no thread that looks after bars: reports come often enough
        self._bar: Any = None
        self._phase: Phase | None = None
        self.monitor = Monitor(self._show, close=self._close)

    def _show(self, progress: Progress) -> None:
        if self._bar is None or progress.phase != self._phase or progress.done < self._bar.n:
            self._close()
            self._phase = progress.phase
            self._bar = self._make(
                total=progress.total,
                desc=f"{self.monitor.kernel}: {progress.phase}",
                unit=" instructions",
                unit_scale=True,
                leave=False,
                delay=_DELAY,
                dynamic_ncols=True,
                file=sys.stderr,
            )
        self._bar.update(progress.done - self._bar.n)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


@contextmanager
def shown(*, quiet: bool = False) -> Iterator[None]:
    """Show a bar for the runs of this thread while this lasts, where errors go to a terminal and tqdm is installed."""
    make = None if quiet or sys.stderr is None or not sys.stderr.isatty() else _tqdm()
    with followed_by(None if make is None else Bar(make).monitor):
        yield


def _tqdm() -> Any:
    """Return the class of bars; None where it is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm
