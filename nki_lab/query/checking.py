"""The findings in a file, a text or a function: `check`, and documents that are checked version by version."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nki_lab.diagnostic import Diagnostic, NkiError, Span, diagnose
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.kernel_runtime.interpreter import Budget, ModuleFinder, Signature, modest
from nki_lab.kernel_runtime.issue.target import choice
from nki_lab.kernel_runtime.options import Options
from nki_lab.query.configuration import NONE, configuration_of
from nki_lab.query.estimate import Estimate
from nki_lab.query.evaluation_cache import EvaluationCache, Examination
from nki_lab.query.kernels import evaluated
from nki_lab.query.one_kernel import EvaluationRequest
from nki_lab.query.recorded import Calls
from nki_lab.rules import RightCalls, check_syntax, known_syntax_findings
from nki_lab.source import ModuleSource, SyntaxFacts, facts_of, known_facts, syntax_facts
from nki_lab.source.callables import code_of, plain_function
from nki_lab.source.nesting import Nesting
from nki_lab.source.noqa import apply_noqa
from nki_lab.source.trees import first_line
from nki_lab.source_files import LIMIT, UnsuitableFileError, lines_of, read_again, read_source


class Document:
    """One file or notebook over its versions, or read `once`. Nothing of it is executed or imported."""

    def __init__(self, file: str, *, once: bool = False) -> None:
        self.file = file
        self._once = once
        self.facts: SyntaxFacts | None = None
        self._syntax: list[Diagnostic] = []
        self._right: RightCalls = {}
        self._cache = EvaluationCache()

    @property
    def results(self) -> EvaluationCache:
        """Return what is remembered of its kernels."""
        return self._cache

    def update(
        self, source: str | bytes | Sequence[str], kernel_names: Iterable[str] | None = None
    ) -> list[Diagnostic]:
        """Take a new text, or the cells of a notebook; gives the findings on its syntax.

        Lines that keep it from parsing are read around.
        """
        before, self.facts = self.facts, None
        try:
            self.facts = syntax_facts(source, self.file, kernel_names, as_typed=True, once=self._once, before=before)
        except NkiError as error:
            self._syntax = list(error.diagnostics)
        else:
            self._syntax = apply_noqa(check_syntax(self.facts, self._right), self.file, self.facts.lines)
        return self._syntax

    def examine(self, request: EvaluationRequest) -> Examination:
        """Evaluate the kernels of the text; all findings, and what is known of its variables and calls."""
        if self.facts is None:
            return Examination(findings=in_order(self._syntax))
        return examine(self.facts, self._syntax, request, self._cache)

    def estimate(self, kernel: str, request: EvaluationRequest) -> Estimate | None:
        """Return the predicted cost of a kernel of the text; None where it has none of that name."""
        from nki_lab.query.estimates import estimated  # few ask for it, and it brings the models of time

        return None if self.facts is None else estimated(self.facts, kernel, request, self._cache)


def examine(
    facts: SyntaxFacts, syntax: Iterable[Diagnostic], request: EvaluationRequest, cache: EvaluationCache
) -> Examination:
    """Evaluate the kernels of a parsed text; `syntax` are its other findings."""
    syntax, early = list(syntax), request.early
    if early is not None:
        request = replace(request, early=lambda found: early(_merged(facts, syntax, found)))
    examined = evaluated(facts, request, cache)
    return replace(examined, findings=tuple(_merged(facts, syntax, examined.findings)))


def _merged(facts: SyntaxFacts, syntax: Sequence[Diagnostic], evaluated: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the findings on syntax and of evaluations, once they are read."""
    unread = facts.parsed.unread
    found = [item for item in evaluated if item.file != facts.file or item.line not in unread]
    explained = _explained(syntax, found, facts)
    first = [item for item in syntax if id(item) not in explained]
    yield from apply_noqa(in_order([*found, *first]), facts.file, facts.lines)


def _explained(syntax: Iterable[Diagnostic], found: Iterable[Diagnostic], facts: SyntaxFacts) -> frozenset[int]:
    """Return the ids of the faults of syntax in a call of which the evaluation found the first fault."""
    spans = {item.span for item in found if item.outcome == "fault" and item.file == facts.file}
    faults = sorted((span for span in spans if span is not None), key=_ends)
    wanted = [item for item in syntax if item.outcome == "fault" and item.span is not None]
    if not faults or not wanted:
        return frozenset()
    calls = _calls_on(sorted({item.line for item in wanted}), facts)
    explained = set()
    for item in wanted:
        assert item.span is not None
        around = [call for call in calls.around((item.line, item.column)) if _holds(call, item.span)]
        call = max(around, key=lambda span: (span.line, span.column), default=None)
        if call is not None and any(span != item.span and _holds(call, span) for span in _starting(faults, call)):
            explained.add(id(item))
    return frozenset(explained)


def _starting(faults: Sequence[Span], call: Span) -> Iterator[Span]:
    """Yield those of the sorted faults that begin in a call."""
    start, end = _ends(call)
    for i in range(bisect_left(faults, start, key=lambda span: (span.line, span.column)), len(faults)):
        if (faults[i].line, faults[i].column) > end:
            break
        yield faults[i]


def _calls_on(lines: Sequence[int], facts: SyntaxFacts) -> Nesting[Span, tuple[int, int]]:
    """Return the calls of a module that are on some of the sorted lines."""
    found = [
        facts.span(node)
        for node in facts.parsed.calls.calls.values()
        if bisect_left(lines, node.lineno) < bisect_right(lines, node.end_lineno or node.lineno)
    ]
    found.sort(key=lambda span: (span.end_line, span.end_column), reverse=True)  # of those with one start, too
    return Nesting(found, _ends)


def _ends(span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where a stretch begins and ends."""
    return (span.line, span.column), (span.end_line, span.end_column)


def _holds(outer: Span, inner: Span) -> bool:
    start, end = _ends(outer)
    same = outer.file == inner.file
    return same and start <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= end


def in_order(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return findings in the order of the source, each code once at each place."""
    first: dict[tuple[str, Span | str], Diagnostic] = {}
    for item in found:
        first.setdefault((item.code, item.span or item.message), item)
    return tuple(sorted(first.values(), key=lambda item: (item.line, item.column, item.code)))


def check(
    path: str | Path | None = None,
    *,
    source: str | bytes | ModuleSource | None = None,
    function: Callable[..., object] | str | None = None,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    grid: tuple[int, ...] = (),
    target: str | Arch | None = None,
    options: Options | None = None,
    budget: Budget | None = None,
    library: ModuleFinder | None = None,
    judged: bool = True,
    recorded: Calls | None = None,
    possible: bool = False,
) -> list[Diagnostic]:
    """Return the findings in a file, a source text or a function, in the order of the source; nothing of it is run.

    With `source`, `path` only names it; a parsed module has its own name. `function` is a function or kernel object,
    whose file is read, or the name of one in the text; then other kernels are left out. `args` and `kwargs` are what it
    is called with: `spec`s, arrays of which only the shape counts, or constants, launched on `grid`.
    Without them shapes come from `nki.typing` annotations and from calls in the text, at most four signatures a kernel.
    A file that cannot be read is NKI018; what is no Python is NKI101, and the rest of the file is checked. Modules
    that it imports are read where the interpreter would find them, or where `library` does. Unless `judged`, programs
    are not judged as a whole: a run will. `recorded` are calls of earlier runs, by the names of functions.
    With `possible`, what is wrong for some arguments of functions without shapes is information, with such a value.
    """
    arch = arch_of(target if target is not None else choice.outside())
    try:
        text, file, name, line = _source_of(path, source, function)
        kernels = [name] if name else []
        with gc_relaxed():
            facts = facts_of(text, kernels) if isinstance(text, ModuleSource) else known_facts(text, file, kernels)
    except NkiError as error:
        return list(error.diagnostics)
    if name:
        facts = _limited(facts, name, line)
    explicit = None
    if args is not None or kwargs is not None:
        named = {name: modest(value)[0] for name, value in (kwargs or {}).items()}
        explicit = Signature(args=tuple(modest(value)[0] for value in args or ()), kwargs=named, grid=grid)
    request = EvaluationRequest(
        arch=arch,
        options=options,
        explicit=explicit,
        budget=budget or Budget(),
        library=library or _library_of(file),
        judged=judged,
        possible=possible,
        alone=bool(name),
        describes=False,
        recorded=recorded or {},
    )
    with gc_relaxed():
        return list(examine(facts, known_syntax_findings(facts), request, EvaluationCache()).findings)


def _source_of(
    path: str | Path | None, source: str | bytes | ModuleSource | None, function: Callable[..., object] | str | None
) -> tuple[str | bytes | ModuleSource, str, str, int]:
    """Text, file name, function name and line of what is to be checked; NKI018 where it cannot be read."""
    name = function if isinstance(function, str) else ""
    if isinstance(source, ModuleSource):
        return source, source.file, name, 0
    if source is not None:
        return source, str(path) if path is not None else "<source>", name, 0
    if path is not None:
        try:
            return read_source(path), str(path), name, 0
        except (OSError, ValueError) as error:
            raise NkiError((unreadable(str(path), error),)) from None
    code = code_of(function)
    if code is None:
        label = str(getattr(function, "__name__", function))
        raise NkiError((unreadable(label, OSError("it is no function, and no path or source is given")),))
    read_again(code.co_filename)
    lines = lines_of(code.co_filename, getattr(plain_function(function), "__globals__", None))
    if not lines:
        raise NkiError((unreadable(code.co_filename, OSError("its source is not at hand")),))
    return "".join(lines), code.co_filename, code.co_name, code.co_firstlineno


def _library_of(file: str) -> ModuleFinder:
    """Return the modules that a file can import, as its project says; without one, as Python finds them."""
    try:
        return (configuration_of(Path(file)) if Path(file).is_file() else NONE).library()
    except (NkiError, OSError, ValueError):
        return NONE.library()


def unreadable(file: str, error: Exception) -> Diagnostic:
    """Return the NKI018 diagnostic of a file that cannot be read, with the reason that the system gives."""
    name = file.replace("\0", "\\0")
    reason = getattr(error, "strerror", None) or str(error)
    limit, remedy = "", "check the path and its rights"
    if isinstance(error, UnsuitableFileError):
        limit, remedy = LIMIT, "move it elsewhere, or exclude it in [tool.nki-lab]"
    return diagnose("NKI018", f"{name}: {reason}", span=Span(name, 1, 1, 1, 2), limit=limit, help=remedy)


def _limited(facts: SyntaxFacts, name: str, line: int) -> SyntaxFacts:
    """Return the facts of one kernel (the one at `line`, where that is given) and of what it reaches."""
    entries = [item for item in facts.functions if item.is_entry and item.node.name == name]
    at = [item for item in entries if line and first_line(item.node) <= line <= (item.node.end_lineno or line)]
    kernel = (at or entries)[-1:]
    return facts.of(item for item in facts.functions if kernel and item.kernel is kernel[0].node)
