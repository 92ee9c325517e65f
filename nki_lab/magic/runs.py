"""The runs of one cell as they come: the last one is kept whole, of the others one line each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.export import words
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.result import Run
from nki_lab.session import Execution

LINES: Final = 8
"""Runs before the last one that are told of in a line; of more there is a count."""

_FINDINGS: Final = 200


class Runs:
    """Who collects in a cell."""

    def __init__(self, inputs: Callable[[TensorSpec], Any] | None = None) -> None:
        self.inputs = inputs
        self.last: Run | None = None
        self.count = 0
        self.names: set[str] = set()
        self.lines: list[str] = []
        self.findings: dict[Diagnostic, None] = {}
        self.untold = 0
        """Runs of which there is not even a line."""
        self._equal: tuple[str, int] | None = None
        self._lock = threading.Lock()

    def launched(self, name: str, execution: Execution, arguments: tuple[Any, ...]) -> None:
        """Take what a plain call of a kernel left."""
        self.add(Run(execution, name, arguments))

    def add(self, run: Run) -> None:
        """Take a run."""
        with self._lock:
            if self.last is not None:
                self._tell(self.last)
            self.last = run
            self.count += 1
            self.names.add(run.name)
            if len(self.findings) < _FINDINGS:
                self.findings.update(dict.fromkeys(run.diagnostics))

    def _tell(self, run: Run) -> None:
        """Enter a run's line; equal ones in a row are one."""
        said = line(run, timed=False)
        if self._equal and self._equal[0] == said:
            self._equal = (said, self._equal[1] + 1)
            self.lines[-1] = f"{said} · {self._equal[1]} times"
        elif len(self.lines) < LINES:
            self._equal = (said, 1)
            self.lines.append(line(run))
        else:
            self._equal = None
            self.untold += 1

    def is_last(self, value: Any) -> bool:
        """Whether `value` is the run that is shown whole."""
        return value is not None and value is self.last


def line(run: Run, *, timed: bool = True) -> str:
    """A run in a line: "add  trn2 · 4 instructions · 2.71 µs · simulated in 0.02 s", the last with `timed` only."""
    count = len(run.program)
    said = [run.target, f"{words.number(count)} instruction{'s' * (count != 1)}"]
    nanoseconds = run.summary.get("makespan_ns")
    if run.error is not None:
        said.append(f"stopped by {run.error.diagnostics[0].code}")
    elif nanoseconds is not None:
        said.append(f"{words.about(run.summary)}{words.duration(round(nanoseconds * 1000))}")
    if not timed:
        return f"{run.name}  {' · '.join(said)}"
    seconds = sum(run.timings[name] or 0.0 for name in run.timings.keys())  # noqa: SIM118 - no mapping
    said.append(f"{'simulated' if run.outputs or run.error else 'profiled'} in {_seconds(seconds)}")
    return f"{run.name}  {' · '.join(said)}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.01 else f"{value * 1e3:.1f} ms"
