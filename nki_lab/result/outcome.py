"""The result of a call of a kernel: outputs, findings, seconds, and the recording of what ran when."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from nki_lab import quantities, session
from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, render
from nki_lab.dialects.environment import resolve_target
from nki_lab.export import formatting
from nki_lab.export.findings import counts
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.protocols import ErrorGrowth, ValueSource
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.printable import escape
from nki_lab.result.blame import Blame, default_tolerance, described, output_errors, prevailing_dtype
from nki_lab.result.growth import error_growth
from nki_lab.result.nonfinite import FirstNonfinite
from nki_lab.result.nonfinite import described as described_nonfinite
from nki_lab.result.recorded import Recorded
from nki_lab.result.tensors import Tensors
from nki_lab.session.arrays import Array
from nki_lab.session.outcome import INTERRUPTED
from nki_lab.session.tiles import checked_outputs, tiles_of
from nki_lab.testing import assert_close, plain_array
from nki_lab.timeline.summary import Summary, summarise
from nki_lab.wire import compact
from nki_lab.wire.values import FEW_CELLS, ValuesAsked, encode_values

_MOST_BLAMED: Final = 20_000
"""Instructions up to which a failed check looks for the cause."""
_SECONDS: Final = 3.0
"""Seconds that the search for a cause may take."""

PINNED_BYTES: Final = 512 * 1024
"""Bytes that the pictures of pinned tiles may take, in the zlib format."""


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
        self._fault_after = execution.fault_after
        self._cancelled = execution.cancelled
        self._values = execution.values
        self._on_target = execution.on_target
        self._references: Mapping[int, Array] = {}
        self._pins: dict[tuple[int, int], bytes] = {}

    @property
    def executed(self) -> int | None:
        """How many instructions were executed, or issued, until the user stopped the run; None where nobody did."""
        return None if self._cancelled < 0 else self._cancelled

    @cached_property
    def summary(self) -> Summary:
        """Counts, times and shares of the run, by name; times in nanoseconds. A failed run's go up to the fault."""
        return summarise(self.program) if self._timeline is None else self._timeline.summary

    @cached_property
    def recording(self) -> Recording:
        """The instructions of the run with lanes and times, as tables for views; NKI023 where the run has no times.

        That of a failed run has the instructions issued until then; its summary's `fault` is the one that failed, or,
        where `fault_after` is true, the last one before it. Of one that the user stopped, `cancelled` has the number of
        executed instructions, and `cancelled_ps` the time until which the recording shows executed ones only.
        """
        if self._timeline is None:
            untimed = self.error is None
            raise coded_error(
                "NKI023",
                f"the run of {self.name} has no recording",
                limit="a kernel that issued instructions, all of which have a cost, has a recording",
                help="its diagnostics name what has no cost yet" if untimed else "run it again without the fault",
            )
        # That it was cancelled is told by its summary.
        found = [item for item in self.diagnostics if self._cancelled < 0 or item.code != INTERRUPTED]
        return self._timeline.record(found, self._fault, fault_after=self._fault_after, cancelled=self._cancelled)

    @property
    def values(self) -> ValueSource:
        """The content of memory at each step: `run.values.at(step, run.program.buffers[3])`, None where it is unknown.

        Nothing is kept but the arguments as they were; values are worked out when they are asked for, within the
        options `replay_bytes` and `replay_instructions`. `values.reason` says why there are none, as of a profile.
        """
        return self._values

    def _growth(self) -> ErrorGrowth:
        found = self.blame(seconds=_SECONDS)
        return error_growth(found)

    @property
    def _checked(self) -> Mapping[int, Array]:
        return self._references

    @property
    def has_recording(self) -> bool:
        """Whether there are times to show, save and export."""
        return self._timeline is not None

    @property
    def ok(self) -> bool:
        """Whether the kernel ran and nothing of severity error was found."""
        return self.error is None and not any(item.severity == "error" for item in self.diagnostics)

    def on(self, target: str) -> Run:
        """Return a profile of the same call on another target: its times, without values.

        NKI023 of a run that ended with a fault; whatever the target refuses is raised, as by `nki_lab.profile`.
        """
        if self._on_target is None:
            raise coded_error(
                "NKI023",
                f"the run of {self.name} did not come to its end",
                limit="a call that ends well is timed on another target",
                help="run it again without the fault",
            )
        return Run(self._on_target(resolve_target(target)), self.name, self._arguments)

    def tile(self, name: object, *, step: int | None = None) -> Array:
        """Return the values of a tensor: an array of its shape and dtype, at the end of the run or at a `step`.

        `name` is what the views show (`acc`, `acc[2]`, `tile 12`), a buffer's number, or a buffer, tensor or view of
        the program. Steps are those of `values.at`: the values are what had been written when the step's instruction
        started. NKI027 where the name fits no tensor or several, or there is no such step; NKI028 where there are no
        values.
        """
        self._computed()
        what = self._tensors.find(name, step)
        count = len(self._tensors.program)
        if step is not None and not 0 <= step <= count:
            raise coded_error(
                "NKI027",
                f"the run has no step {step}",
                operand="step",
                limit=f"0 <= step <= {count}, the end of the run",
                help="run.recording has the steps",
            )
        values = self._values.at(count if step is None else step, what)
        if values is None:
            raise coded_error(
                "NKI028",
                f"the values of {name!r} are not known{'' if step is None else f' at step {step}'}",
                limit="values are known up to the fault of a run",
                help="ask for a step before it: run.fault is the instruction that failed",
            )
        return values

    def pin(self, name: object, *, step: int | None = None) -> Run:
        """Keep a picture of a tensor's values, at the end of the run or after a `step`; return this run.

        Notebooks, pages and folders that are written from now on have it, and show it where there is no kernel to ask:
        a heat map of at most 16,384 cells, with counts and a histogram. `name` is as for `tile`. NKI028 where there are
        no values, or all pictures of the run would take more than 512 KiB.
        """
        self._computed()
        buffer = self._tensors.find(name, step)
        number = getattr(getattr(buffer, "_buffer", getattr(buffer, "buffer", buffer)), "id", -1)
        self._pinned(number, len(self._tensors.program) - 1 if step is None else step)
        return self

    def _pinned(self, number: int, step: int) -> bytes:
        """Keep a picture of a buffer after a step, and return it."""
        tiles = tiles_of(self._computed())
        content = tiles.content(step, number, after=True)
        if content is None:
            name = self._tensors.labels[number]
            raise coded_error(
                "NKI028", f"the values of {name!r} are not known", limit="values are known up to the fault of a run"
            )
        asked = ValuesAsked(request=0, step=step, buffer=number)
        indices = tiles.index_uses(step, number)
        picture = encode_values(asked, content, indices=indices, most_cells=FEW_CELLS)
        others = {place: item for place, item in self._pins.items() if place != (number, step)}
        size = sum(len(compact(item)) for item in (*others.values(), picture))
        if size > PINNED_BYTES:
            raise coded_error(
                "NKI028",
                f"the pinned tiles of {self.name} take {size:,} bytes",
                limit=f"pictures of at most {PINNED_BYTES:,} bytes",
                help="pin fewer tiles",
            )
        self._pins[number, step] = picture
        return picture

    @property
    def _pin(self) -> Callable[[int, int], bytes] | None:
        return self._pinned if isinstance(self._values, session.RunValues) and self.has_recording else None

    @property
    def pins(self) -> tuple[bytes, ...]:
        """The pictures of pinned tiles, as messages."""
        return tuple(self._pins.values())

    def blame(self, tolerance: float | None = None, *, against: object = None, seconds: float = math.inf) -> Blame:
        """Find the first instruction that introduces a relative error of more than `tolerance`.

        The program is executed again in float64 beside its own arithmetic. An error is *introduced* by an instruction
        where it computes something else than float64 does from the same inputs, rounded to its operands' dtypes; what
        its inputs lack in precision is *inherited*. An element's error is relative to its size and the scale of its
        row. The default tolerance is that of `nki_lab.testing`, at least four roundings, for the coarsest dtype among
        arguments and results.

        `against` is a reference for the results, as for `check`. After about `seconds` the search ends. NKI028 where
        the run has no values, or the float64 ones take more than `replay_bytes`.
        """
        values = self._computed()
        kind = prevailing_dtype(self._tensors.program)
        allowed = default_tolerance(kind) if tolerance is None else float(tolerance)
        errors = values.rounding_errors(allowed, seconds=seconds)
        wanted = None if against is None else [plain_array(item) for item in self.expected(against)]
        actual = [plain_array(item) for item in self.outputs]
        return described(
            errors,
            self._tensors,
            kernel=self.name,
            target=self.target,
            tolerance=allowed,
            prevailing=kind.name if tolerance is None else "",
            outputs=output_errors(errors, actual, wanted) if len(actual) == len(errors.outputs) else (),
        )

    def first_nonfinite(self, *, seconds: float = math.inf) -> FirstNonfinite | None:
        """Find the first instruction that writes NaN, or an infinity from finite numbers; None without one.

        Infinities that a call names or copies, as for masks, do not count. The program is executed again up to there,
        for about `seconds` at most: NKI028 where that is not enough. NKI028 too where the run has no values.
        """
        found, ops = self._computed().first_nonfinite(seconds=seconds)
        if found is None and ops < len(self._tensors.program):
            raise coded_error(
                "NKI028",
                f"{ops:,} of {len(self._tensors.program):,} instructions were searched in {seconds:g} s",
                limit="the search executes the program again",
                help="give it more seconds",
            )
        return None if found is None else described_nonfinite(found, self._tensors)

    def check(self, reference: object, *, rtol: float | None = None, atol: float | None = None) -> Run:
        """Compare the outputs with a reference; AssertionError where one is too far off, else this run.

        `reference` is an array, a sequence with one array for each output, or a function of the kernel's arguments
        that gives those (it gets the arguments as they are now). Tolerances are those of `nki_lab.testing`. The message
        names the instruction that `blame` finds, where that takes no more than a few seconds.
        """
        __tracebackhide__ = True
        if self.error is not None:
            raise self.error
        expected = self.expected(reference)
        self._references = checked_outputs(self.program, expected)
        for number, (actual, want) in enumerate(zip(self.outputs, expected, strict=True)):
            try:
                assert_close(actual, want, rtol=rtol, atol=atol)
            except AssertionError as error:
                cause = self.cause(expected)
                parts = [f"output {number} of {self.name}: {error}", *([f"  cause: {cause}"] if cause else [])]
                raise AssertionError("\n".join(parts)) from None
        return self

    def expected(self, reference: object) -> list[Any]:
        """Return a reference array for each output; AssertionError where their number differs."""
        wanted = reference(*self._arguments) if callable(reference) else reference
        expected = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
        if len(expected) != len(self.outputs):
            raise AssertionError(f"{self.name} has {len(self.outputs)} outputs, the reference {len(expected)}")
        return expected

    def cause(self, expected: list[Any]) -> str:
        """Return a sentence on where an error by reference arrays comes from; empty where that is not known, or would
        take more than a few seconds.
        """
        if not isinstance(self._values, session.RunValues) or len(self.program) > _MOST_BLAMED:
            return ""
        try:
            return self.blame(against=expected, seconds=_SECONDS).headline
        except (NkiError, ValueError):  # shapes that differ, or too little memory: the message stands without it
            return ""

    @cached_property
    def _tensors(self) -> Tensors:
        """The tensors and instructions of the run by name; NKI023 where the run has no times."""
        recording = self.recording
        assert self._timeline is not None
        return Tensors(self._timeline.program, recording)

    def _computed(self) -> session.RunValues:
        """Return the values of the run; NKI028 where there are none."""
        if isinstance(self._values, session.RunValues):
            return self._values
        raise coded_error(
            "NKI028",
            f"{self.name}: {self._values.reason}",
            limit="a run that computed values answers questions about them",
            help="call nki_lab.run with arrays; replay_bytes limits the copies of the arguments",
        )

    def __repr__(self) -> str:
        ended = "cancelled" if self._cancelled >= 0 else "failed" if self.error else ""
        state = ended or ", ".join(_shape(item) for item in self.outputs) or "no outputs"
        found = counts(self.diagnostics)
        return f"<run of {self.name} on {self.target}: {state}{f'; {found}' if found else ''}>"

    def __str__(self) -> str:
        lines = [f"{self.name} on {self.target}"]
        lines += [f"  {label:<15}{value}" for label, value in self._rows()]
        lines += [f"\n{item.severity}: {render(item)}" for item in self.diagnostics]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        left = 'style="text-align:left"'
        rows = "".join(
            f"<tr><th {left}>{escape(label)}</th><td {left}>{escape(value)}</td></tr>" for label, value in self._rows()
        )
        title = escape(f"{self.name} on {self.target}")
        found = "".join(f"<pre>{escape(f'{item.severity}: {render(item)}')}</pre>" for item in self.diagnostics)
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
        if self.has_recording:
            work = quantities.share(quantities.ratio(self.summary.critical_path_ns, self.summary.makespan_ns))
            taken = formatting.makespan(self.summary, round(1000 * self.summary.makespan_ns))
            yield "makespan", f"{taken}; {work} of it work on the critical path"
            yield "80 % interval", formatting.interval_basis(self.summary)
        yield "specialize", f"{self.timings.specialize * 1e3:.2f} ms"
        if self.timings.timing is not None:
            yield "timing", f"{self.timings.timing * 1e3:.2f} ms"
        yield "numeric", f"{self.timings.numeric * 1e3:.2f} ms"
        yield "findings", counts(self.diagnostics) or "none"


def _shape(array: Any) -> str:
    return f"{str(array.dtype).removeprefix('torch.')}{list(array.shape)}"
