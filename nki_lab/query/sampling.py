"""Evaluates functions that nobody calls with assumed arguments, and keeps what does not depend on them."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import gcd
from typing import Final

from nki_lab.diagnostic import Diagnostic, Related, Span
from nki_lab.kernel_runtime.interpreter import OTHER_DTYPES, VARIANTS, Assumptions, Evaluation
from nki_lab.query.fitting import UNUSUAL, Evaluate, Run, fitted
from nki_lab.query.reach import Operation

STEPS: Final = 50_000
"""Steps of a run with the values of a variant."""
_FITTING_STEPS: Final = 8_000
"""Steps of a run whose values are drawn, of which a function takes many; large ones only walk loops for longer."""

_FITS: Final = 4
"""Runs with values that fit a function, each of its own."""

OF_TARGETS: Final = frozenset({"NKI209", "NKI221"})
"""Findings about another target than a function is meant for."""
_OF_RANKS: Final = frozenset({"NKI205"})
_OF_DTYPES: Final = frozenset({"NKI202"})
"""Findings about a dtype that may be right beside another one: they are certain beside each, none of them excluded."""
_DEPENDING: Final = OF_TARGETS | _OF_RANKS
"""Findings whose words need not tell that they depend on an assumption: which target, or how many dimensions."""


_RELATED: Final = frozenset({"NKI203", "NKI303"})
"""Findings about two sizes that may depend on one assumption in such a way that they differ for all of its values."""


def steps_of(assumptions: Assumptions) -> int:
    """Return the steps that a run may take."""
    return STEPS if assumptions.draw is None else _FITTING_STEPS


def runs(evaluate: Evaluate, settles: Callable[[list[Run]], bool] = lambda _: False) -> list[Run]:
    """Return the evaluations of a function under each variant of the assumptions, and with values that fit it.

    Stops where three more variants have brought no operation that was not evaluated before, and as soon as `settles`
    says that nothing can be wrong for all arguments: of a function that goes one way, without a test, already after the
    first variant and one run with values that fit.
    """
    taken: dict[ast.expr, set[tuple[bool, bool]]] = {}
    found: list[Run] = []
    fits: list[Run] = []
    known: set[Operation] = set()
    idle = 0
    for variant in range(VARIANTS):
        assumptions = Assumptions(variant=variant, taken=taken)
        result = evaluate(assumptions)
        found.append(Run(assumptions, result))
        if variant == 0 and not assumptions.tests:
            if settles(found):
                return found
            if _can_be_fitted(found):
                fits.append(fitted(evaluate, 0, 0))
                if settles(found + fits):
                    return found + fits
        new = result.evaluated - known
        known |= new
        idle = 0 if new else idle + 1
        if idle == 3:
            break
    if _can_be_fitted(found):
        while len(fits) < _FITS and not settles(found + fits):
            fits.append(fitted(evaluate, len(fits), len(fits)))
    return found + fits


def _can_be_fitted(found: list[Run]) -> bool:
    """Return whether the values of runs are assumed, and instructions work with them."""
    return any(run.assumptions.used for run in found) and any(run.result.operations for run in found)


def refutes_all(found: list[Run], calls: Iterable[tuple[int, int]], file: str) -> bool:
    """Return whether each operation of a function is right in one of the runs: then nothing is wrong for all values.

    `calls` are the places of the calls of NKI's functions in it, and in the functions of its `file` that it enters.
    """
    operations = sorted(frozenset[Operation]().union(*(run.result.operations for run in found)))
    right: set[Operation] = set()
    for run in found:
        spans = [item.span for item in run.result.diagnostics if item.outcome != "advice" or item.span is None]
        wrong = [span and _operation_at(span, operations) for span in spans]
        others = any(item.code[3] not in "23" for item in run.result.diagnostics)
        if None in wrong or others or run.result.modules:
            return False
        right |= run.result.evaluated.difference(run.result.unknown, filter(None, wrong))
    return all((file, *place) in right for place in calls)


def first(evaluate: Evaluate) -> Run:
    """Return the evaluation of a function under the first variant of the assumptions."""
    assumptions = Assumptions(variant=0, taken={})
    return Run(assumptions, evaluate(assumptions))


def certain(
    found: list[Run], evaluate: Evaluate, literals: Sequence[int] = ()
) -> Iterator[tuple[Evaluation, Diagnostic]]:
    """Yield the findings about operands that all runs share which evaluated their places, even and odd variants.

    Each comes with the first run that has it. The runs assume different values, memories too, so that a message which
    is the same in all of them depends on none of these. Nor does it depend on the way of a test (it is the same where
    that goes the other way and the place is evaluated all the same), nor on sizes that are equal or large by chance. A
    finding about two sizes may have other sizes in each run where one of these is always the same multiple of the
    other, or larger by the same number. Unusual sizes, among them those around the numbers of the text (`literals`),
    refute none of them.
    """
    operations = sorted(frozenset[Operation]().union(*(run.result.operations for run in found)))
    shared: dict[int, list[_Same]] = {}
    related: list[tuple[Run, _Related]] = []
    seen: set[tuple[str, Span, bool]] = set()
    drawn: list[Run] = []
    for number, run in enumerate(found):
        for item in run.result.diagnostics:
            if item.span is None or item.outcome == "advice" or item.code in _DEPENDING:
                continue
            fits = item.code in _RELATED and run.is_consistent and run.assumptions.draw is not None
            if (item.code, item.span, fits) in seen:
                continue
            seen.add((item.code, item.span, fits))
            place = _operation_at(item.span, operations)
            if item.code[3] == "2" and (item.code, item.span, not fits) not in seen:
                same = _Same(item, place)
                if same.is_shared(found):
                    shared.setdefault(number, []).append(same)
                    continue
            if fits and (candidate := _Related(item, place)).holds(found):
                related.append((run, candidate))
    if not shared and not related:
        return
    unusual = [fitted(evaluate, seed, seed, literals=literals) for seed in range(UNUSUAL + _EXACT)]
    for number, items in shared.items():
        run, left = found[number], [item for item in items if item.survives(found, unusual)]
        tests = list(run.assumptions.ways)
        for test in tests if left and len(tests) <= _MOST_TESTS else ():
            result = evaluate(run.assumptions.but(test))
            left = [item for item in left if item.shows(result) is not False]
            if not left:
                break
        if left and len(tests) <= _MOST_TESTS:
            drawn = drawn or _drawn(evaluate)
            left = [item for item in left if all(item.shows(other.result) is not False for other in drawn)]
            if any(item.finding.code in _OF_DTYPES for item in left):
                rare = [evaluate(run.assumptions.in_dtype(name)) for name in OTHER_DTYPES]
                left = [
                    item
                    for item in left
                    if item.finding.code not in _OF_DTYPES or all(item.shows(result) for result in rare)
                ]
            yield from ((run.result, item) for item in _first_faults(left))
    sure = {item.place for items in shared.values() for item in items}
    left_over = [(run, item) for run, item in related if item.place not in sure and item.survives(found, unusual)]
    yield from _confirmed(found, left_over, drawn, evaluate)


def _drawn(evaluate: Evaluate) -> list[Run]:
    """Return runs with sizes that are independent of each other, small ones too."""
    return [fitted(evaluate, seed, seed) for seed in range(4, 4 + _SEEDS)]


def _first_faults(items: list[_Same]) -> Iterator[Diagnostic]:
    """Yield the findings, of several faults of one operation the first; others may be its consequences."""
    faulty: set[Operation | None] = set()
    for item in items:
        if item.finding.outcome != "fault" or item.place is None or item.place not in faulty:
            yield item.finding
        if item.finding.outcome == "fault":
            faulty.add(item.place)


def _confirmed(
    found: list[Run], related: list[tuple[Run, _Related]], drawn: list[Run], evaluate: Evaluate
) -> Iterator[tuple[Evaluation, Diagnostic]]:
    """Yield the findings about two sizes whose relation more runs confirm, whichever way tests go."""
    if not related or len(related) > _MOST_RELATED:
        return
    drawn = found + (drawn or _drawn(evaluate))
    left = [(run, item) for run, item in related if item.holds(drawn) and item.is_varied(drawn)]
    tests = list(dict.fromkeys(test for run in drawn if run.is_consistent for test in run.assumptions.ways))
    if not left or len(tests) > _MOST_TESTS // 4:
        return
    ways = {test: way for run in drawn for test, way in run.assumptions.ways.items()}
    for test in tests:
        drawn += [fitted(evaluate, seed, seed, {test: not ways[test]}) for seed in (4, 5)]
        left = [(run, item) for run, item in left if item.holds(drawn)]
    for run, item in left:
        example = f"for example with {run.sizes}; no other sizes make it right"
        yield run.result, replace(item.finding, related=(*item.finding.related, Related(example)))


class _Shown(ABC):
    """A finding, and the operation that it is about."""

    def __init__(self, finding: Diagnostic, place: Operation | None) -> None:
        self.finding = finding
        self.place = place

    def _is_of_one_memory(self, found: list[Run]) -> bool:
        """Return whether only runs have the finding that assume the likely memories, where memories are assumed."""
        return any(run.assumptions.is_open for run in found) and not any(
            run.assumptions.variant % 4 == 1 and self.shows(run.result) for run in found
        )

    @abstractmethod
    def agrees(self, other: Diagnostic) -> bool:
        """Return whether another finding at the same place says the same."""

    def shows(self, result: Evaluation) -> bool | None:
        """Return whether a run finds the same; None where it does not evaluate the place."""
        here = [other for other in result.diagnostics if other.span == self.finding.span]
        if any(self.agrees(other) for other in here):
            return True
        return None if not here and self.place not in result.evaluated else False

    def survives(self, found: list[Run], unusual: list[Run]) -> bool:
        """Return whether no consistent run with unusual values lacks the finding although all is right at its place."""
        return not any(run.is_consistent and self._is_refuted(run.result) for run in unusual)

    def _is_refuted(self, result: Evaluation) -> bool:
        """Return whether a run evaluates the place without a fault, or finds the same with other words."""
        if self.shows(result) is not False:
            return False
        mine = (self.finding.code, self.finding.span, self.finding.operand)
        faults = [item for item in result.diagnostics if item.span is not None and item.severity == "error"]
        if any((item.code, item.span, item.operand) == mine for item in faults):
            return True
        operations = sorted(result.operations)
        return not any(item.span and _operation_at(item.span, operations) == self.place for item in faults)


class _Same(_Shown):
    """A finding in the same words."""

    def agrees(self, other: Diagnostic) -> bool:
        return (other.code, other.message) == (self.finding.code, self.finding.message)

    def is_shared(self, found: list[Run]) -> bool:
        """Return whether no run refutes the finding, and runs of even and of odd variants have it."""
        shown = [(run.assumptions.variant % 2, self.shows(run.result)) for run in found]
        return all(
            {True} == {answer for odd, answer in shown if odd == parity} - {None} for parity in (0, 1)
        ) and not self._is_of_one_memory(found)


class _Related(_Shown):
    """A finding about two sizes."""

    def agrees(self, other: Diagnostic) -> bool:
        mine = (self.finding.code, self.finding.operand)
        return (other.code, other.operand) == mine and other.measured is not None

    def holds(self, found: list[Run]) -> bool:
        """Return whether no run refutes the finding, and its sizes have one relation in all that are consistent."""
        if any(self.shows(run.result) is False for run in found):
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
            for item in run.result.diagnostics
            if item.span == self.finding.span and self.agrees(item) and item.measured is not None
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


_SEEDS: Final = 8
"""Runs with other values that confirm a relation of sizes."""
_EVIDENCE: Final = 4
"""Runs that have to show a relation."""
_EXACT: Final = 8
"""Numbers of the text, of each of which a run makes all sizes."""
_MOST_RELATED: Final = 16
"""Findings of one function that are confirmed in this way; of more none is."""
_MOST_TESTS: Final = 64
"""Tests of one run; of a function with more of them nothing is certain."""


def _operation_at(span: Span, operations: Sequence[Operation]) -> Operation | None:
    """Return the operation that holds a place: of those in order, the last of its file that does not begin after it."""
    at = bisect_right(operations, (span.file, span.line, span.column - 1))
    return operations[at - 1] if at and operations[at - 1][0] == span.file else None
