"""Runs of kernels and what they leave: `run`, `compile`, `check`, and the `Run` that shows results and findings."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from nki_lab import session
from nki_lab.diagnostic import Diagnostic, NkiError, diagnose, error_of, render
from nki_lab.dialects.environment import default_options, resolve_target
from nki_lab.dialects.kernel import Kernel, as_kernel, results
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.frontend.arguments import TensorSpec, spec
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.options import Options, option_names, with_changes
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.session.summary import Summary, summarise
from nki_lab.testing import assert_close


class Run:
    """What one call of a kernel left.

    `outputs` are the returned arrays in order, of the library that the arguments came from; `output` is what the kernel
    returned, in its own structure. `diagnostics` are the findings, `timings` seconds of this computer (`specialize`,
    `numeric`, `timing`), `program` the specialised kernel, `summary` its counts. With `on_error="report"`, `error` is
    the fault that ended the run, and there are no outputs.
    """

    def __init__(self, execution: session.Execution, name: str, arguments: tuple[Any, ...]) -> None:
        self.name = name
        self.output: Any = None if execution.error else results(execution)
        self.outputs: tuple[Any, ...] = tuple(_leaves(self.output, execution))
        self.diagnostics: tuple[Diagnostic, ...] = execution.diagnostics
        self.timings = execution.timings
        self.program: Program = execution.program
        self.target: str = execution.arch.target
        self.error: NkiError | None = execution.error
        self._arguments = arguments
        self._timeline = execution.timeline

    @cached_property
    def summary(self) -> Summary:
        """Counts, times and shares of the run, by name; times in nanoseconds. Without times where the run failed."""
        return summarise(self.program) if self._timeline is None else self._timeline.summary

    @cached_property
    def recording(self) -> Recording:
        """What ran where and when, as tables that views and exports read; NKI023 where the run has no times."""
        if self._timeline is None:
            raise error_of(
                diagnose(
                    "NKI023",
                    f"the run of {self.name} has no recording",
                    limit="a kernel that came to its end has a recording",
                    help="run it again without the fault, or with nki_lab.run instead of a plain call",
                )
            )
        return self._timeline.record(self.diagnostics)

    def save(self, path: str | Path) -> Path:
        """Write the recording into a folder, by custom called something.nkirec; what was there is replaced whole."""
        self.recording.save(path)
        return Path(path)

    @property
    def ok(self) -> bool:
        """Whether the kernel ran and nothing of severity error was found."""
        return self.error is None and not any(item.severity == "error" for item in self.diagnostics)

    def check(self, reference: Any, *, rtol: float | None = None, atol: float | None = None) -> Run:
        """Compare the outputs with a reference; AssertionError where one is too far off, else this run.

        `reference` is an array, a sequence with one array for each output, or a function of the kernel's arguments
        that gives those (it gets the arguments as they are now). Tolerances are those of `nki_lab.testing`.
        """
        if self.error is not None:
            raise self.error
        wanted = reference(*self._arguments) if callable(reference) else reference
        expected = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
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
        found = _counts(self.diagnostics)
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
        yield "instructions", f"{len(self.program):,}"
        flops = self.summary.get("flops")
        if flops:
            yield "flops", f"{flops:,}"
        moved = self.summary.get("dma_bytes")
        if moved:
            yield "dma bytes", f"{moved:,}"
        if self._timeline is not None:
            yield "makespan", f"{self.summary.makespan_ns / 1e3:,.2f} us"
            yield "critical path", f"{self.summary.critical_path_ns / 1e3:,.2f} us of work"
        yield "specialize", f"{self.timings.specialize * 1e3:.2f} ms"
        yield "numeric", f"{self.timings.numeric * 1e3:.2f} ms"
        yield "findings", _counts(self.diagnostics) or "none"


def _leaves(value: Any, execution: session.Execution) -> Iterator[Any]:
    """The arrays in a returned structure, in order."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item, execution)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item, execution)
    elif hasattr(value, "shape"):
        yield value


def _shape(array: Any) -> str:
    return f"{str(array.dtype).removeprefix('torch.')}{list(array.shape)}"


def _counts(diagnostics: Sequence[Diagnostic]) -> str:
    """Findings by severity: "1 error, 2 warnings"."""
    counts: dict[str, int] = {}
    for item in diagnostics:
        counts[item.severity] = counts.get(item.severity, 0) + 1
    order = ("error", "warning", "information", "hint")
    return ", ".join(
        f"{counts[kind]} {kind}{'s' if counts[kind] > 1 and kind != 'information' else ''}"
        for kind in order
        if kind in counts
    )


def run(
    kernel: Callable[..., Any],
    *args: Any,
    target: str | Arch | None = None,
    on_error: session.OnError = "raise",
    strict: bool | None = None,
    grid: Any = None,
    options: Options | None = None,
    **keywords: Any,
) -> Run:
    """Run a kernel on arrays and give its outputs with all that was found.

    `kernel` is a function, with or without `@nki.jit`. `args` and `keywords` go to it; a keyword that names an option
    (`matmul_order`, `precise`, `max_instructions`, `slab_bytes`) sets the option instead, unless the kernel has a
    parameter of that name: then pass the option as `options=nki_lab.Options(...)`. A kernel's own parameter called
    target, on_error, strict, grid or options is passed by position.

    `target` is trn1, trn2 or trn3. `grid` launches as `kernel[grid]`. A fault raises an NkiError, or is kept in
    `Run.error` with `on_error="report"`. What the device compiler would reject is an error in `Run.diagnostics`, and
    raises with `strict`.
    """
    if on_error not in ("raise", "report"):
        raise error_of(diagnose("NKI012", f"on_error is {on_error!r}", operand="on_error", limit='"raise" or "report"'))
    plain = as_kernel(kernel)
    chosen, mine = _options(plain, options, strict, keywords)
    if grid is not None:
        plain = plain[grid]
    execution = plain.execute(args, mine, target=target, options=chosen, on_error=on_error, timed=True)
    return Run(execution, plain.__name__, (*args, *mine.values()))


def compile(  # noqa: A001 - the contract's name
    kernel: Callable[..., Any],
    *specs: Any,
    target: str | Arch | None = None,
    strict: bool | None = None,
    grid: Any = None,
    options: Options | None = None,
    **keywords: Any,
) -> Program:
    """The program of a kernel for arguments of which only shape and dtype are known.

    `specs` are what `nki_lab.spec` gives, arrays of which only the shape counts, or constants; keywords as for `run`.
    Faults raise; what was found besides is in the program's `diagnostics`.
    """
    plain = as_kernel(kernel)
    chosen, mine = _options(plain, options, strict, keywords)
    if grid is not None:
        plain = plain[grid]
    arch = plain.target(target)
    plain.check_grid(arch)
    program, _ = session.specialise(
        plain.function, specs, mine, target=arch, options=chosen, grid=plain.grid, dialect=plain.dialect
    )
    return program


def _options(
    kernel: Kernel, options: Options | None, strict: bool | None, keywords: Mapping[str, Any]
) -> tuple[Options, dict[str, Any]]:
    """The options of a call, and the keywords that are the kernel's."""
    try:
        own = set(kernel.__signature__.parameters)
    except (TypeError, ValueError):
        own = set()
    changes = {name: keywords[name] for name in option_names() if name in keywords and name not in own}
    mine = {name: value for name, value in keywords.items() if name not in changes}
    if strict is not None:
        changes["strict"] = strict
    base = options if options is not None else default_options(kernel.dialect)
    try:
        return (with_changes(base, changes) if changes else base), mine
    except (TypeError, ValueError) as error:
        raise error_of(diagnose("NKI012", str(error), limit=f"options: {', '.join(option_names())}")) from None


def check(
    path: str | Path | None = None,
    *,
    source: str | None = None,
    function: Callable[..., Any] | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    target: str | Arch | None = None,
) -> list[Diagnostic]:
    """The findings in a file, a source text or a function, of which nothing is run.

    `args` and `kwargs` are arguments of the function by which shapes become known: specs, arrays or constants.
    """
    from nki_lab import query  # the evaluator is loaded by those who check

    if isinstance(function, Kernel):
        arch, function = function.target(target), function.function
    else:
        arch = resolve_target(target)
    return query.check(path, source=source, function=function, args=args, kwargs=kwargs, target=arch)


__all__ = ["Run", "TensorSpec", "check", "compile", "run", "spec"]
