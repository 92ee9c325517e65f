"""A text that is asked about again and again, as an editor's is: what has not changed is not worked out again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nki_lab.diagnostic import Diagnostic, NkiError, Span
from nki_lab.query.evaluation_cache import EvaluationCache, Examination
from nki_lab.query.kernels import EvaluationRequest, evaluated
from nki_lab.rules import check_syntax
from nki_lab.source import SyntaxFacts, syntax_facts
from nki_lab.source.noqa import apply_noqa


class Document:
    """One file or notebook over its versions. Nothing of it is executed or imported."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.facts: SyntaxFacts | None = None
        self._syntax: list[Diagnostic] = []
        self._cache = EvaluationCache()

    def update(
        self, source: str | bytes | Sequence[str], kernel_names: Iterable[str] | None = None
    ) -> list[Diagnostic]:
        """Take a new text, or the cells of a notebook; gives the findings on its syntax.

        Lines that keep it from parsing are read around.
        """
        before, self.facts = self.facts, None
        try:
            self.facts = syntax_facts(source, self.file, kernel_names, as_typed=True, before=before)
        except NkiError as error:
            self._syntax = list(error.diagnostics)
        else:
            self._syntax = apply_noqa(check_syntax(self.facts), self.file, self.facts.lines)
        return self._syntax

    def examine(self, request: EvaluationRequest) -> Examination:
        """Evaluate the kernels of the text; all findings, and what is known of its variables and calls."""
        if self.facts is None:
            return Examination(findings=in_order(self._syntax))
        return examine(self.facts, self._syntax, request, self._cache)


def examine(
    facts: SyntaxFacts, syntax: Iterable[Diagnostic], request: EvaluationRequest, cache: EvaluationCache
) -> Examination:
    """Evaluate the kernels of a parsed text; `syntax` are its other findings."""
    examined = evaluated(facts, request, cache)
    unread = facts.parsed.unread
    found = [item for item in examined.findings if item.file != facts.file or item.line not in unread]
    first = [item for item in syntax if not _is_explained(item, found, facts)]
    return replace(examined, findings=tuple(apply_noqa(in_order([*found, *first]), facts.file, facts.lines)))


def _is_explained(item: Diagnostic, found: Iterable[Diagnostic], facts: SyntaxFacts) -> bool:
    """Return whether the evaluation found the first fault of the call that a fault of its syntax is in."""
    lines = {other.line for other in found if other.outcome == "fault" and other.file == facts.file}
    if item.outcome != "fault" or not lines or item.span is None:
        return False
    calls = [facts.span(call) for call in facts.parsed.calls.calls.values() if call.lineno <= item.line]
    around = [call for call in calls if _holds(call, item.span)]
    call = max(around, key=lambda span: (span.line, span.column), default=None)
    return call is not None and any(
        other.span is not None and other.outcome == "fault" and other.span != item.span and _holds(call, other.span)
        for other in found
    )


def _holds(outer: Span, inner: Span) -> bool:
    start, end = (outer.line, outer.column), (outer.end_line, outer.end_column)
    same = outer.file == inner.file
    return same and start <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= end


def in_order(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return findings in the order of the source, each code once at each place."""
    first: dict[tuple[str, Span | str], Diagnostic] = {}
    for item in found:
        first.setdefault((item.code, item.span or item.message), item)
    return tuple(sorted(first.values(), key=lambda item: (item.line, item.column, item.code)))
