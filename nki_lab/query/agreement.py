"""Findings of runs with assumed arguments, and whether the runs agree on them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from math import gcd
from typing import Final

from nki_lab.diagnostic import Diagnostic, Related
from nki_lab.kernel_runtime.interpreter import Evaluation
from nki_lab.query.fitting import BySpan, Run
from nki_lab.query.reach import Operation

Judge = Callable[[Evaluation], BySpan]
"""Gives the findings on the program of a run as a whole, by their places."""

_OF_KINDS: Final = frozenset({"NKI006", "NKI013", "NKI017", "NKI304", "NKI307"})
"""Findings about what a value is: the numbers in their words differ between runs."""
_OF_LAYOUTS: Final = frozenset({"NKI305", "NKI306", "NKI312"})
"""Findings about views, in which every number counts."""
_CAPACITY: Final = "NKI315"
_OF_PYTHON: Final = {
    "NKI007": re.compile(r"the kernel raised TypeError: [\w.<>]+\(\) (got an unexpected|got multiple|missing|takes)"),
    "NKI102": re.compile("name "),
}
"""Findings about calls that do not fit a function, and names that nothing binds. Other exceptions are about values,
which may be others than those that are assumed, and other names are bound on some way.
"""

NEEDS_NKI: Final = _OF_KINDS | _OF_LAYOUTS | frozenset(_OF_PYTHON)
"""Findings that are about NKI only where a function works with its tensors."""

_EVIDENCE: Final = 4
"""Runs that have to show a relation."""


class Shown(ABC):
    """A finding, and the operation that it is about."""

    def __init__(self, finding: Diagnostic, place: Operation | None) -> None:
        self.finding = finding
        self.place = place

    def _is_of_one_memory(self, found: list[Run]) -> bool:
        """Return whether only runs have the finding that assume the likely memories, where memories are assumed."""
        return any(run.assumptions.is_open for run in found) and not any(
            run.assumptions.variant % 4 == 1 and self.shows(run) for run in found
        )

    @abstractmethod
    def agrees(self, other: Diagnostic) -> bool:
        """Return whether another finding at the same place says the same."""

    def shows(self, run: Run) -> bool | None:
        """Return whether a run finds the same; None where it does not evaluate the place."""
        here = run.by_span.get(self.finding.span, ())
        if any(self.agrees(other) for other in here):
            return True
        return None if not here and not self._is_evaluated(run.result) else False

    def _is_evaluated(self, result: Evaluation) -> bool:
        """Return whether a run evaluates the operation at the place."""
        return self.place in result.evaluated

    def survives(self, found: list[Run], unusual: list[Run]) -> bool:
        """Return whether no consistent run with unusual values lacks the finding although all is right at its place."""
        return not any(run.is_consistent and self._is_refuted(run) for run in unusual)

    def _is_refuted(self, run: Run) -> bool:
        """Return whether a run evaluates the place without a fault, or finds the same with other words."""
        if self.shows(run) is not False:
            return False
        mine = (self.finding.code, self.finding.operand)
        here = run.by_span.get(self.finding.span, ())
        is_other = any((item.code, item.operand) == mine for item in here if item.severity == "error")
        return is_other or self.place not in run.errors

    def _has_other_fault(self, run: Run) -> bool:
        """Return whether something else is wrong with the operation, so that the finding may be missing for that."""
        mine = (self.finding.code, self.finding.span)
        others = run.errors.get(self.place, ())
        return any(item.outcome == "fault" and (item.code, item.span) != mine for item in others)


class SameWords(Shown):
    """A finding in the same words."""

    def agrees(self, other: Diagnostic) -> bool:
        return (other.code, other.message) == (self.finding.code, self.finding.message)

    def shows(self, run: Run) -> bool | None:
        found = super().shows(run)
        return None if found is False and self._has_other_fault(run) else found

    def is_shared(self, found: list[Run]) -> bool:
        """Return whether no run refutes the finding, and runs of even and of odd variants have it."""
        shown = [(run.assumptions.variant % 2, self.shows(run)) for run in found]
        return all(
            {True} == {answer for odd, answer in shown if odd == parity} - {None} for parity in (0, 1)
        ) and not self._is_of_one_memory(found)

    def reported(self, found: list[Run]) -> Diagnostic:
        """Return the finding as it is reported: with the sizes that are assumed where its words tell some, and without
        a note that tells some.
        """
        same = [(run, item) for run in found for item in self._alike(run)]
        if any(item.message != self.finding.message for _, item in same):
            sizes = next(run.sizes for run, item in same if item == self.finding)
            example = [Related(f"for example with {sizes}")] if sizes else []
            return replace(self.finding, related=(*self.finding.related, *example))
        is_noted = all(item.note == self.finding.note for _, item in same)
        return self.finding if is_noted else replace(self.finding, note="")

    def _alike(self, run: Run) -> list[Diagnostic]:
        return [item for item in self._findings(run).get(self.finding.span, ()) if self.agrees(item)]

    def _findings(self, run: Run) -> BySpan:
        return run.by_span


class SameKind(SameWords):
    """A finding about a value that is wrong whatever its size, or about a name, or about a view with constant sizes.

    A run whose tests all go as they do has it too: the others may come to places by ways that exclude each other.
    """

    def agrees(self, other: Diagnostic) -> bool:
        if self.finding.code in _OF_KINDS:
            return (other.code, other.operand) == (self.finding.code, self.finding.operand)
        return super().agrees(other)

    def is_shared(self, found: list[Run]) -> bool:
        return super().is_shared(found) and self._is_settled(found)

    def _is_settled(self, found: list[Run]) -> bool:
        return any(run.assumptions.settled and run.is_consistent and self.shows(run) for run in found)

    def _is_evaluated(self, result: Evaluation) -> bool:
        span = self.finding.span
        end = None if span is None else (span.end_line, span.end_column - 1)
        return super()._is_evaluated(result) or end in result.expressions


class OfProgram(SameKind):
    """A finding on the program of a function as a whole, by `judge`.

    A run with a fault refutes none about memory or results: both depend on what was left out.
    """

    def __init__(self, finding: Diagnostic, place: Operation | None, judge: Judge) -> None:
        super().__init__(finding, place)
        self._judge = judge

    def agrees(self, other: Diagnostic) -> bool:
        return super().agrees(other) if self.finding.code == _CAPACITY else other.code == self.finding.code

    def shows(self, run: Run) -> bool | None:
        if self._alike(run):
            return True
        if self.place not in run.result.evaluated:
            return None
        return None if run.has_fault or self._has_other_fault(run) else False

    def is_shared(self, found: list[Run]) -> bool:
        shown = [run for run in found if self.shows(run)]
        return len(shown) > 1 and self._is_settled(found) and all(self.shows(run) is not False for run in found)

    def _findings(self, run: Run) -> BySpan:
        return self._judge(run.result)


def same_for_all(finding: Diagnostic, place: Operation | None) -> SameWords | None:
    """Return a finding of a run as the others may have it too; None where it depends on what is assumed."""
    code = finding.code
    if code[3] == "2":
        return SameWords(finding, place)
    of_python = code in _OF_PYTHON and _OF_PYTHON[code].match(finding.message)
    return SameKind(finding, place) if of_python or code in _OF_KINDS or code in _OF_LAYOUTS else None


class RelatedSizes(Shown):
    """A finding about two sizes."""

    def agrees(self, other: Diagnostic) -> bool:
        mine = (self.finding.code, self.finding.operand)
        return (other.code, other.operand) == mine and other.measured is not None

    def holds(self, found: list[Run]) -> bool:
        """Return whether no run refutes the finding, and its sizes have one relation in all that are consistent."""
        if any(self.shows(run) is False for run in found):
            return False
        pairs = self.pairs(found)
        if len(pairs) < 2 or self._is_of_one_memory(found):
            return False
        return self._is_wrong_always([pair for _, pair in pairs])

    def survives(self, found: list[Run], unusual: list[Run]) -> bool:
        pairs = [pair for _, pair in self.pairs(found + unusual)]
        return super().survives(found, unusual) and self._is_wrong_always(pairs)

    def pairs(self, found: list[Run]) -> list[tuple[Run, tuple[int, int]]]:
        """Return the sizes in the consistent runs that have the finding."""
        return [
            (run, item.measured)
            for run in found
            if run.is_consistent
            for item in run.by_span.get(self.finding.span, ())
            if self.agrees(item) and item.measured is not None
        ]

    def _is_wrong_always(self, pairs: list[tuple[int, int]]) -> bool:
        left, right = pairs[0]
        if min(left, right) < 1 or left == right or (self.finding.code != "NKI203" and left < right):
            return False
        if all(one - other == left - right for one, other in pairs):
            return True
        ratio = Counter(Fraction(*pair) for pair in pairs if min(pair) > 0).most_common(1)[0][0]
        return ratio != 1 and all(_is_multiple(one, other, ratio) for one, other in pairs)

    def is_varied(self, found: list[Run]) -> bool:
        """Return whether the runs with the finding have different values of everything that is assumed."""
        evidence = list({id(run): run for run, _ in self.pairs(found) if run.assumptions.draw is not None}.values())
        symbols = {symbol for run in evidence for symbol in run.assumptions.used}
        return len(evidence) >= _EVIDENCE and all(
            len({run.assumptions.used.get(symbol) for run in evidence}) > 2
            or all(symbol in run.demanded for run in evidence)
            for symbol in symbols
        )


def _is_multiple(left: int, right: int, ratio: Fraction) -> bool:
    """Return whether one size is the other one times a ratio, rounded down in units that both have."""
    if min(left, right) < 1:
        return False
    unit = gcd(left, right)
    left, right = left // unit, right // unit
    return left == right * ratio.numerator // ratio.denominator or right == left * ratio.denominator // ratio.numerator


def first_faults(items: Iterable[SameWords]) -> list[SameWords]:
    """Return the findings, of several faults of one operation the first; others may be its consequences."""
    faulty: set[Operation | None] = set()
    left = []
    for item in items:
        if item.finding.outcome != "fault" or item.place is None or item.place not in faulty:
            left.append(item)
        if item.finding.outcome == "fault":
            faulty.add(item.place)
    return left
