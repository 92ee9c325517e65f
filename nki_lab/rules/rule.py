"""A rule checks for one code; its kind says which facts it reads. Decorators make rules of functions and list them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.program_facts import ProgramFacts
from nki_lab.rules.timed_facts import TimedFacts
from nki_lab.source import Dialect, SyntaxFacts

Findings = Iterator[Diagnostic]
F = TypeVar("F", SyntaxFacts, ProgramFacts, TimedFacts)
R = TypeVar("R", bound="Rule[SyntaxFacts] | Rule[ProgramFacts] | Rule[TimedFacts]")


@dataclass(frozen=True, kw_only=True)
class Rule(Generic[F]):
    """A check for one code."""

    code: str
    check: Callable[[F], Iterable[Diagnostic]]


@dataclass(frozen=True, kw_only=True)
class SyntaxRule(Rule[SyntaxFacts]):
    """A check of the source.

    `dialects` are those whose kernels it judges: a rule that AWS's own complete kernels of a dialect break does not
    belong to that dialect. `on_host` marks a check of the module around its kernels: where a kernel runs, Python has
    executed that code already.
    """

    dialects: tuple[Dialect, ...] = ("current",)
    on_host: bool = False


class ProgramRule(Rule[ProgramFacts]):
    """A check of a whole kernel. It looks at columns: Python's time for each instruction is spent on findings only."""


class TimedRule(Rule[TimedFacts]):
    """Advice that states what following it gains, in nanoseconds and as a share of the kernel's time."""


_listed: Final[dict[str, Rule[SyntaxFacts] | Rule[ProgramFacts] | Rule[TimedFacts]]] = {}

SyntaxCheck = Callable[[SyntaxFacts], Iterable[Diagnostic]]
ProgramCheck = Callable[[ProgramFacts], Iterable[Diagnostic]]
TimedCheck = Callable[[TimedFacts], Iterable[Diagnostic]]


def syntax_rule(
    code: str, *, dialects: tuple[Dialect, ...] = ("current",), on_host: bool = False
) -> Callable[[SyntaxCheck], SyntaxRule]:
    """Make a function the rule of a code on the source."""
    return lambda check: _list(SyntaxRule(code=code, check=check, dialects=dialects, on_host=on_host))


def program_rule(code: str) -> Callable[[ProgramCheck], ProgramRule]:
    """Make a function the rule of a code on specialised kernels."""
    return lambda check: _list(ProgramRule(code=code, check=check))


def timed_rule(code: str) -> Callable[[TimedCheck], TimedRule]:
    """Make a function the rule of a code on the times of a kernel."""
    return lambda check: _list(TimedRule(code=code, check=check))


def _list(rule: R) -> R:
    assert rule.code not in _listed, f"{rule.code} has two rules"
    _listed[rule.code] = rule
    return rule


def rules_of(kind: type[R]) -> tuple[R, ...]:
    """Return the rules of one kind, in the order of their codes."""
    return tuple(rule for _, rule in sorted(_listed.items()) if isinstance(rule, kind))
