"""The runs of one cell as they come: the last one is kept whole, each other one as a line.

`keep` takes each other one, for comparisons.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import astuple
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.export import formatting
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.result import Run
from nki_lab.session import Execution
from nki_lab.session.outcome import INTERRUPTED

LINES: Final = 8
"""Runs before the last one that get a line; further ones are counted."""

_FINDINGS: Final = 200


class Runs:
    """The collector of a cell's runs."""

    timed = interactive = True

    def __init__(
        self,
        inputs: Callable[[TensorSpec], object] | None = None,
        keep: Callable[[Run], None] | None = None,
    ) -> None:
        self.inputs = inputs
        self._keep = keep
        self.last: Run | None = None
        self.names: set[str] = set()
        self.lines: list[str] = []
        self.findings: dict[Diagnostic, None] = {}
        self.unlisted = 0
        """Runs without even a line."""
        self._equal: tuple[str, int] | None = None
        self._lock = threading.Lock()

    def launched(self, name: str, execution: Execution, arguments: tuple[object, ...]) -> None:
        """Take the result of a plain call of a kernel."""
        self.add(Run(execution, name, arguments))

    def add(self, run: Run) -> None:
        """Take a run."""
        with self._lock:
            if self.last is not None:
                self._add_line(self.last)
                if self._keep is not None:
                    self._keep(self.last)
            self.last = run
            self.names.add(run.name)
            if len(self.findings) < _FINDINGS:
                self.findings.update(dict.fromkeys(item for item in run.diagnostics if item.code != INTERRUPTED))

    def _add_line(self, run: Run) -> None:
        """Enter a run's line; equal ones in a row are one."""
        text = line(run, timed=False)
        if self._equal and self._equal[0] == text:
            self._equal = (text, self._equal[1] + 1)
            self.lines[-1] = f"{text} · {self._equal[1]} times"
        elif len(self.lines) < LINES:
            self._equal = (text, 1)
            self.lines.append(line(run))
        else:
            self._equal = None
            self.unlisted += 1

    def is_last(self, value: object) -> bool:
        """Return whether `value` is the run that is drawn."""
        return value is not None and value is self.last


def line(run: Run, *, timed: bool = True) -> str:
    """Return a run in a line: "add  trn2 · 4 instructions · 2.71 µs · simulated in 0.02 s", the last if `timed`."""
    count = len(run.program)
    parts = [run.target, f"{formatting.number(count)} instruction{'s' * (count != 1)}"]
    nanoseconds = run.summary.get("makespan_ns")
    if run.error is not None and run.error.diagnostics[0].code == INTERRUPTED:
        parts.append("cancelled")
    elif run.error is not None:
        parts.append(f"stopped by {run.error.diagnostics[0].code}")
    elif nanoseconds is not None:
        parts.append(formatting.makespan(run.summary, round(nanoseconds * 1000)))
    if timed:
        seconds = sum(filter(None, astuple(run.timings)))
        took = f"{seconds:.2f} s" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"
        parts.append(f"{'simulated' if run.outputs or run.error else 'profiled'} in {took}")
    return f"{run.name}  {' · '.join(parts)}"
