"""The checks: each rule reads facts and yields diagnostics of one code.

A rule is of one of three kinds: for one the parsed source is enough, for others it takes a specialised kernel, or the
times of one. Every module of this package takes part.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.api_calls import RightCalls, check_uses
from nki_lab.rules.program_facts import ProgramFacts
from nki_lab.rules.races import without_consequences
from nki_lab.rules.rule import ProgramRule, Rule, SyntaxRule, TimedRule, rules_of
from nki_lab.rules.timed_facts import TimedFacts
from nki_lab.source import Dialect, SyntaxFacts
from nki_lab.source.copies import without_copies
from nki_lab.source.nesting import Nesting
from nki_lab.source.trees import first_line

__all__ = [
    "PROGRAM_RULES",
    "SYNTAX_RULES",
    "TIMED_RULES",
    "ProgramFacts",
    "ProgramRule",
    "RightCalls",
    "Rule",
    "SyntaxRule",
    "TimedFacts",
    "TimedRule",
    "check_program",
    "check_syntax",
    "check_timed",
    "known_syntax_findings",
    "without_consequences",
]

for _found in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
SYNTAX_RULES: Final = rules_of(SyntaxRule)
PROGRAM_RULES: Final = rules_of(ProgramRule)
TIMED_RULES: Final = rules_of(TimedRule)


def known_syntax_findings(facts: SyntaxFacts, *, on_host: bool = True) -> list[Diagnostic]:
    """Return the findings of `check_syntax`, worked out once for the same kernel code of a module.

    Without `on_host` only those in kernel code count.
    """
    code = facts.functions, facts.classes
    found = facts.parsed.once(("kernel code", *code), lambda: _found_by(facts, on_host=False))
    if on_host:
        found = found + facts.parsed.once(("host code", *code), lambda: _around_kernels(facts))
    return _in_order(facts, found)


def check_syntax(facts: SyntaxFacts, right: RightCalls | None = None) -> list[Diagnostic]:
    """Return the findings of the syntax rules in and around a module's kernel code, in the order of the source.

    Of a text as typed that is first what keeps lines of it from being read; these lines have no other findings.
    `right` are the calls with nothing wrong of an earlier state of the text, and becomes those of this one.
    """
    return _in_order(facts, [*_found_by(facts, on_host=False), *_around_kernels(facts, right)])


def _around_kernels(facts: SyntaxFacts, right: RightCalls | None = None) -> list[Diagnostic]:
    return [*check_uses(facts, right), *_found_by(facts, on_host=True)]


def _found_by(facts: SyntaxFacts, *, on_host: bool) -> list[Diagnostic]:
    """Return the findings of the rules on kernel code, or of those on the module around it.

    Kernels that are copies of others with nothing wrong are not looked at.
    """
    if not on_host:
        fewer, originals = without_copies(facts)
        whole = Nesting(originals, lambda node: (first_line(node), node.end_lineno or node.lineno))
        found = _found_in(fewer, on_host=False)
        if fewer is facts or not any(whole.around(item.line) for item in found):
            return found
    return _found_in(facts, on_host=on_host)


def _found_in(facts: SyntaxFacts, *, on_host: bool) -> list[Diagnostic]:
    views: dict[tuple[Dialect, ...], SyntaxFacts] = {}
    found: list[Diagnostic] = []
    for rule in SYNTAX_RULES:
        if rule.on_host is on_host:
            if rule.dialects not in views:
                views[rule.dialects] = facts.limited(rule.dialects)
            found.extend(rule.check(views[rule.dialects]))
    return found


def _in_order(facts: SyntaxFacts, found: list[Diagnostic]) -> list[Diagnostic]:
    unknown = {item.span for item in found if item.code == "NKI006"}
    found = [item for item in found if item.code == "NKI006" or item.span not in unknown]  # nothing else is known of it
    read = [item for item in found if item.line not in facts.parsed.unread]
    return sorted([*facts.parsed.faults, *read], key=lambda item: (item.line, item.column, item.code))


def check_program(facts: ProgramFacts) -> list[Diagnostic]:
    """Return the findings of the rules on a whole kernel, rule by rule."""
    return [item for rule in PROGRAM_RULES for item in rule.check(facts)]


def check_timed(facts: TimedFacts) -> list[Diagnostic]:
    """Return the advice that would make a kernel faster, rule by rule."""
    return [item for rule in TIMED_RULES for item in rule.check(facts)]
