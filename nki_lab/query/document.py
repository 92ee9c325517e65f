"""A text that is asked about again and again, as an editor's is: what has not changed is not worked out again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.query.issued import Issued
from nki_lab.query.kernels import Question, evaluated
from nki_lab.query.memory import Memory, Operation, Place
from nki_lab.rules import check_syntax
from nki_lab.source import SyntaxFacts, syntax_facts
from nki_lab.source.noqa import heard


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What is known of a text.

    `findings` are in the order of the source. `variables` tells what names stood for where they were bound, `issued`
    what calls turned into, both by 1-based line and 0-based UTF-8 byte column; `expressions` what calls and
    subscripts were, by where they end. Of the `operations` of NKI that
    evaluation came to, those that are `unknown` could not be evaluated.
    """

    findings: tuple[Diagnostic, ...] = ()
    variables: Mapping[Place, Variable] = field(default_factory=dict)
    issued: Mapping[Place, Issued] = field(default_factory=dict)
    expressions: Mapping[Place, Variable] = field(default_factory=dict)
    operations: frozenset[Operation] = frozenset()
    unknown: frozenset[Operation] = frozenset()


class Document:
    """One file or notebook over its versions. Nothing of it is executed or imported."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.facts: SyntaxFacts | None = None
        self._syntax: list[Diagnostic] = []
        self._memory = Memory()

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
            self._syntax = heard(check_syntax(self.facts), self.file, self.facts.lines)
        return self._syntax

    def examine(self, question: Question) -> Examination:
        """Evaluate the kernels of the text; all findings, and what is known of its variables and calls."""
        if self.facts is None:
            return Examination(findings=in_order(self._syntax))
        return examine(self.facts, self._syntax, question, self._memory)


def examine(facts: SyntaxFacts, syntax: Iterable[Diagnostic], question: Question, memory: Memory) -> Examination:
    """Evaluate the kernels of a parsed text; `syntax` are its other findings."""
    answers = evaluated(facts, question, memory)
    unread = facts.parsed.unread
    found = [item for item in answers.findings if item.file != facts.file or item.line not in unread]
    said = heard(in_order([*syntax, *found]), facts.file, facts.lines)
    return Examination(
        findings=tuple(said),
        variables=answers.variables,
        issued=answers.issued,
        expressions=answers.expressions,
        operations=frozenset(answers.operations),
        unknown=frozenset(answers.unknown),
    )


def in_order(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Findings in the order of the source, each code once at each place."""
    return tuple(sorted(_once(found), key=lambda item: (item.line, item.column, item.code)))


def _once(found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    seen = set()
    for item in found:
        key = (item.code, item.span or item.message)
        if key not in seen:
            seen.add(key)
            yield item
