"""A rule checks for one code; its kind says which facts it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.program_facts import ProgramFacts
from nki_lab.rules.timed_facts import TimedFacts
from nki_lab.source.facts import SyntaxFacts
from nki_lab.source.kernel_code import Dialect

F = TypeVar("F")


@dataclass(frozen=True, kw_only=True)
class Rule(Generic[F]):
    """A check for one code.

    `dialects` are those whose kernels it judges: a rule that AWS's own complete kernels of a dialect break does not
    belong to that dialect. Each module of the package holds one as `RULE`, or several as `RULES`.
    """

    code: str
    check: Callable[[F], Iterable[Diagnostic]]
    dialects: tuple[Dialect, ...] = ("current", "legacy")


@dataclass(frozen=True, kw_only=True)
class SyntaxRule(Rule[SyntaxFacts]):
    """A check of the source. `on_host` marks a check of the module around its kernels: where a kernel runs, Python has
    executed that code already."""

    dialects: tuple[Dialect, ...] = ("current",)
    on_host: bool = False


class ProgramRule(Rule[ProgramFacts]):
    """A check of a whole kernel. It looks at columns: Python's time for each instruction is spent on findings only."""


class TimedRule(Rule[TimedFacts]):
    """Advice that states what following it gains, in nanoseconds and as a share of the kernel's time."""
