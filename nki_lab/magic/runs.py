"""The runs of one cell as they come: the last one is kept whole, those before it as drawings, older ones as lines.

Equal ones in a row are one. `keep` takes each but the last, for comparisons.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import astuple
from typing import Final

from nki_lab import quantities
from nki_lab.diagnostic import Diagnostic
from nki_lab.export import formatting
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.result import Run
from nki_lab.result.notebook import Drawn
from nki_lab.session import Execution
from nki_lab.session.outcome import INTERRUPTED

LINES: Final = 8
"""Runs without a drawing that get a line; further ones are counted."""

TABS: Final = 12
"""Runs of a cell that are drawn, the last one included."""

_FINDINGS: Final = 200


class Runs:
    """The collector of a cell's runs."""

    timed = interactive = True

    def __init__(
        self,
        inputs: Callable[[TensorSpec], object] | None = None,
        keep: Callable[[Run], None] | None = None,
        *,
        tabs: int = TABS,
    ) -> None:
        self.inputs = inputs
        self._keep = keep
        self._tabs = tabs
        self.last: Run | None = None
        self.times = 1
        """How many equal runs in a row the last one stands for."""
        self.names: set[str] = set()
        self.drawn: list[Drawn] = []
        """Runs before the last one that are drawn beside it, in order."""
        self.lines: list[str] = []
        self.findings: dict[Diagnostic, None] = {}
        self.unlisted = 0
        """Runs without even a line."""
        self._text = ""
        self._lock = threading.Lock()

    def launched(self, name: str, execution: Execution, arguments: tuple[object, ...]) -> None:
        """Take the result of a plain call of a kernel."""
        self.add(Run(execution, name, arguments))

    def add(self, run: Run) -> None:
        """Take a run."""
        with self._lock:
            text = line(run, timed=False)
            if self.last is not None:
                if self._keep is not None:
                    self._keep(self.last)
                if text == self._text:
                    self.times += 1
                else:
                    self._set_aside(self.last)
            self.last, self._text = run, text
            self.names.add(run.name)
            if len(self.findings) < _FINDINGS:
                self.findings.update(dict.fromkeys(item for item in run.diagnostics if item.code != INTERRUPTED))

    def _set_aside(self, run: Run) -> None:
        """Keep a run that another one follows, as a drawing or, where there is none or no more room, as a line."""
        text, self.times, times = self.line_of(run), 1, self.times
        if self._tabs <= 1 or not run.has_recording:
            self._enter(text)
            return
        self.drawn.append(Drawn(run.recording, run.fault, run.pins, text, times))
        while len(self.drawn) >= self._tabs:
            self._enter(self.drawn.pop(0).line)

    def _enter(self, text: str) -> None:
        if len(self.lines) < LINES:
            self.lines.append(text)
        else:
            self.unlisted += 1

    def line_of(self, run: Run) -> str:
        """Return the line of a run, with the number of equal ones in a row."""
        return line(run) if self.times == 1 else f"{line(run, timed=False)} · {self.times} times"

    @property
    def is_cancelled(self) -> bool:
        """Whether the user stopped the last run."""
        return self.last is not None and _is_cancelled(self.last)

    @property
    def executed(self) -> int | None:
        """How many instructions of the last run were executed, or issued, when the user stopped it; None of others."""
        return self.last.executed if self.last is not None and _is_cancelled(self.last) else None

    def is_last(self, value: object) -> bool:
        """Return whether `value` is the run that is drawn."""
        return value is not None and value is self.last


def line(run: Run, *, timed: bool = True) -> str:
    """Return a run in a line: "add  trn2 · 4 instructions · 2.71 µs · simulated in 0.02 s", the last if `timed`."""
    count = len(run.program)
    parts = [run.target, f"{quantities.number(count)} instruction{'s' * (count != 1)}"]
    if _is_cancelled(run):
        parts.append("cancelled")
    elif run.error is not None:
        parts.append(f"stopped by {run.error.diagnostics[0].code}")
    elif (nanoseconds := run.summary.get("makespan_ns")) is not None:
        parts.append(formatting.makespan(run.summary, round(nanoseconds * 1000)))
    if timed and not _is_cancelled(run):
        seconds = sum(filter(None, astuple(run.timings)))
        took = f"{seconds:.2f} s" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"
        parts.append(f"{'simulated' if run.outputs or run.error else 'profiled'} in {took}")
    return f"{run.name}  {' · '.join(parts)}"


def _is_cancelled(run: Run) -> bool:
    return run.error is not None and run.error.diagnostics[0].code == INTERRUPTED
