"""The result of a call of a kernel: outputs, findings, seconds, and the recording of what ran when."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from nki_lab import session
from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, render
from nki_lab.export import formatting
from nki_lab.export.findings import counts
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.protocols import ValueSource
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.result.recorded import Recorded
from nki_lab.session.arrays import Array
from nki_lab.session.tiles import checked_outputs
from nki_lab.session.timeline import Summary, summarise
from nki_lab.testing import assert_close


class Run(Recorded):
    """The result of one call of a kernel, or of a profile, which has no outputs.

    `outputs` are the returned arrays in order, of the library that the arguments came from; `output` is what the kernel
    returned, in its own structure. `diagnostics` are the findings, `timings` seconds of this computer (`specialize`,
    `numeric`, `timing`), `program` the specialised kernel, `summary` its counts and times. With `on_error="report"`,
    `error` is the fault that ended the run; then there are no outputs, and the recording goes as far as the run did.
    """

    def __init__(self, execution: session.Execution, name: str, arguments: tuple[object, ...]) -> None:
        self.name = name
        self.output: Any = execution.outputs
        self.outputs = execution.flat
        self.diagnostics: tuple[Diagnostic, ...] = execution.diagnostics
        self.timings = execution.timings
        self.program: Program = execution.program
        self.target = execution.program.arch.target
        self.error: NkiError | None = execution.error
        self._arguments = arguments
        self._timeline = execution.timeline
        self._fault = execution.fault
        self._values = execution.values
        self._expected: Mapping[int, Array] = {}

    @cached_property
    def summary(self) -> Summary:
        """Counts, times and shares of the run, by name; times in nanoseconds. A failed run's go up to the fault."""
        return summarise(self.program) if self._timeline is None else self._timeline.summary

    @cached_property
    def recording(self) -> Recording:
        """The instructions of the run with lanes and times, as tables for views; NKI023 where the run has no times.

        That of a failed run has the instructions issued until then; its summary's `fault` is the one that failed, or
        the last one before it.
        """
        if self._timeline is None:
            untimed = self.error is None
            raise coded_error(
                "NKI023",
                f"the run of {self.name} has no recording",
                limit="a kernel that issued instructions, all of which have a cost, has a recording",
                help="its diagnostics name what has no cost yet" if untimed else "run it again without the fault",
            )
        return self._timeline.record(self.diagnostics, self._fault)

    @property
    def values(self) -> ValueSource:
        """The content of memory at each step: `run.values.at(step, run.program.buffers[3])`, None where it is unknown.

        Nothing is kept but the arguments as they were; values are worked out when they are asked for, within the
        options `replay_bytes` and `replay_instructions`. `values.reason` says why there are none, as of a profile.
        """
        return self._values

    @property
    def _checked(self) -> Mapping[int, Array]:
        return self._expected

    @property
    def has_recording(self) -> bool:
        """Whether there are times to show, save and export."""
        return self._timeline is not None

    @property
    def ok(self) -> bool:
        """Whether the kernel ran and nothing of severity error was found."""
        return self.error is None and not any(item.severity == "error" for item in self.diagnostics)

    def check(self, reference: object, *, rtol: float | None = None, atol: float | None = None) -> Run:
        """Compare the outputs with a reference; AssertionError where one is too far off, else this run.

        `reference` is an array, a sequence with one array for each output, or a function of the kernel's arguments
        that gives those (it gets the arguments as they are now). Tolerances are those of `nki_lab.testing`.
        """
        if self.error is not None:
            raise self.error
        wanted = reference(*self._arguments) if callable(reference) else reference
        expected = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
        self._expected = checked_outputs(self.program, expected)
        if len(expected) != len(self.outputs):
            raise AssertionError(f"{self.name} has {len(self.outputs)} outputs, the reference {len(expected)}")
        for number, (actual, want) in enumerate(zip(self.outputs, expected, strict=True)):
            try:
                assert_close(actual, want, rtol=rtol, atol=atol)
            except AssertionError as error:
                raise AssertionError(f"output {number} of {self.name}: {error}") from None
        return self

    def __repr__(self) -> str:
        state = "failed" if self.error else ", ".join(_shape(item) for item in self.outputs) or "no outputs"
        found = counts(self.diagnostics)
        return f"<run of {self.name} on {self.target}: {state}{f'; {found}' if found else ''}>"

    def __str__(self) -> str:
        lines = [f"{self.name} on {self.target}"]
        lines += [f"  {label:<13}{value}" for label, value in self._rows()]
        lines += [f"\n{item.severity}: {render(item)}" for item in self.diagnostics]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        left = 'style="text-align:left"'
        rows = "".join(
            f"<tr><th {left}>{html.escape(label)}</th><td {left}>{html.escape(value)}</td></tr>"
            for label, value in self._rows()
        )
        title = html.escape(f"{self.name} on {self.target}")
        found = "".join(f"<pre>{html.escape(f'{item.severity}: {render(item)}')}</pre>" for item in self.diagnostics)
        return f"<table><caption>{title}</caption>{rows}</table>{found}"

    def _rows(self) -> Iterator[tuple[str, str]]:
        if self.error is not None:
            yield "error", self.error.diagnostics[0].code
        for number, array in enumerate(self.outputs):
            yield ("output" if len(self.outputs) == 1 else f"output {number}"), _shape(array)
        yield "instructions", f"{self.summary.instructions:,}"
        flops = self.summary.get("flops")
        if flops:
            yield "flops", f"{flops:,}"
        moved = self.summary.get("dma_bytes")
        if moved:
            yield "dma bytes", f"{moved:,}"
        if self._timeline is not None:
            work = formatting.share(formatting.ratio(self.summary.critical_path_ns, self.summary.makespan_ns))
            yield "makespan", f"{self.summary.makespan_ns / 1e3:,.2f} us, {work} of it work on the critical path"
        yield "specialize", f"{self.timings.specialize * 1e3:.2f} ms"
        if self.timings.timing is not None:
            yield "timing", f"{self.timings.timing * 1e3:.2f} ms"
        yield "numeric", f"{self.timings.numeric * 1e3:.2f} ms"
        yield "findings", counts(self.diagnostics) or "none"


def _shape(array: Any) -> str:
    return f"{str(array.dtype).removeprefix('torch.')}{list(array.shape)}"
