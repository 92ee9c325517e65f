"""Evaluates functions that nobody calls with assumed arguments, and keeps what does not depend on them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from nki_lab.diagnostic import Diagnostic, Related, Span
from nki_lab.kernel_runtime.interpreter import OTHER_DTYPES, VARIANTS, Assumptions, Evaluation
from nki_lab.query.agreement import Judge, OfProgram, RelatedSizes, SameWords, first_faults, same_for_all
from nki_lab.query.fitting import UNUSUAL, Evaluate, Run, fitted
from nki_lab.query.reach import Operation, operation_at

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


def refutes_all(found: list[Run], judge: Judge, calls: Iterable[tuple[int, int]], file: str) -> bool:
    """Return whether each operation of a function is right in one of the runs, and its program as a whole in those with
    likely memories: then nothing is wrong for all values.

    `calls` are the places of the calls of NKI's functions in it, and in the functions of its `file` that it enters.
    """
    operations = sorted(frozenset[Operation]().union(*(run.result.operations for run in found)))
    right: set[Operation] = set()
    faulty: set[Operation] = set()
    for run in found:
        spans = [item.span for item in run.result.diagnostics if item.outcome != "advice" or item.span is None]
        wrong = [None if span is None else operation_at(span, operations) for span in spans]
        others = any(item.code[3] not in "23" for item in run.result.diagnostics)
        if None in wrong or others or run.result.modules:
            return False
        right |= run.result.evaluated.difference(run.result.unknown, filter(None, wrong))
        faulty.update(filter(None, wrong))
    if not faulty <= right or not all((file, *place) in right for place in calls):
        return False
    return not any(judge(run.result) for run in found if run.assumptions.variant % 2 == 0)


def first(evaluate: Evaluate) -> Run:
    """Return the evaluation of a function under the first variant of the assumptions."""
    assumptions = Assumptions(variant=0, taken={})
    return Run(assumptions, evaluate(assumptions))


def certain(
    found: list[Run], evaluate: Evaluate, judge: Judge, literals: Sequence[int] = ()
) -> Iterator[tuple[Evaluation, Diagnostic]]:
    """Yield the findings about operands, values and views that all runs share which evaluated their places, even and
    odd variants, and those of the `judge` on programs as a whole.

    Each comes with the first run that has it. The runs assume different values, memories too, so that a message which
    is the same in all of them depends on none of these. Nor does it depend on the way of a test (it is the same where
    that goes the other way and the place is evaluated all the same), nor on sizes that are equal or large by chance. A
    finding about two sizes may have other sizes in each run where one of these is always the same multiple of the
    other, or larger by the same number. Unusual sizes, among them those around the numbers of the text (`literals`),
    refute none of them.
    """
    operations = sorted(frozenset[Operation]().union(*(run.result.operations for run in found)))
    shared: dict[int, list[SameWords]] = {}
    related: list[tuple[Run, RelatedSizes]] = []
    seen: set[tuple[str, Span, bool]] = set()
    drawn: list[Run] = []
    unusual: list[Run] = []
    for number, run in enumerate(found):
        for item in run.result.diagnostics:
            if item.span is None or item.outcome == "advice" or item.code in _DEPENDING:
                continue
            fits = item.code in _RELATED and run.is_consistent and run.assumptions.draw is not None
            if (item.code, item.span, fits) in seen:
                continue
            seen.add((item.code, item.span, fits))
            place = operation_at(item.span, operations)
            same = None if (item.code, item.span, not fits) in seen else same_for_all(item, place)
            if same is not None and same.is_shared(found):
                shared.setdefault(number, []).append(same)
            elif fits and (candidate := RelatedSizes(item, place)).holds(found):
                related.append((run, candidate))
        for item in chain.from_iterable(judge(run.result).values()) if _may_tell(run) else ():
            if item.span is None or (item.code, item.span, False) in seen:
                continue
            seen.add((item.code, item.span, False))
            whole = OfProgram(item, operation_at(item.span, operations), judge)
            if whole.is_shared(found):
                shared.setdefault(number, []).append(whole)
    for number, items in shared.items():
        run, left = found[number], items
        tests = list(run.assumptions.ways)
        if len(tests) > _MOST_TESTS:
            continue
        for test in tests:
            assumptions = run.assumptions.but(test)
            turned = Run(assumptions, evaluate(assumptions))
            left = [item for item in left if item.shows(turned) is not False]
            if not left:
                break
        if left:
            unusual = unusual or _unusual(evaluate, literals)
            drawn = drawn or _drawn(evaluate)
            left = [item for item in left if item.survives(found, unusual)]
            left = [item for item in left if all(item.shows(other) is not False for other in drawn)]
            if any(item.finding.code in _OF_DTYPES for item in left):
                rare = [_in_dtype(run, name, evaluate) for name in OTHER_DTYPES]
                left = [
                    item
                    for item in left
                    if item.finding.code not in _OF_DTYPES or all(item.shows(other) for other in rare)
                ]
            yield from ((run.result, item.reported(found)) for item in first_faults(left))
    if not related:
        return
    unusual = unusual or _unusual(evaluate, literals)
    sure = {item.place for items in shared.values() for item in items if item.finding.outcome == "fault"}
    left_over = [(run, item) for run, item in related if item.place not in sure and item.survives(found, unusual)]
    yield from _confirmed(found, left_over, drawn, evaluate)


def _may_tell(run: Run) -> bool:
    """Return whether the program of a run is looked at for findings on the whole: these have to be in such a run."""
    assumptions = run.assumptions
    return assumptions.settled and run.is_consistent and assumptions.variant % 2 == 0


def _in_dtype(run: Run, name: str, evaluate: Evaluate) -> Run:
    """Return the same run with all tensors in one dtype."""
    assumptions = run.assumptions.in_dtype(name)
    return Run(assumptions, evaluate(assumptions))


def _drawn(evaluate: Evaluate) -> list[Run]:
    """Return runs with sizes that are independent of each other, small ones too."""
    return [fitted(evaluate, seed, seed) for seed in range(4, 4 + _SEEDS)]


def _unusual(evaluate: Evaluate, literals: Sequence[int]) -> list[Run]:
    """Return runs with unusual sizes."""
    return [fitted(evaluate, seed, seed, literals=literals) for seed in range(UNUSUAL + _EXACT)]


def _confirmed(
    found: list[Run], related: list[tuple[Run, RelatedSizes]], drawn: list[Run], evaluate: Evaluate
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


_SEEDS: Final = 8
"""Runs with other values that confirm a relation of sizes."""
_EXACT: Final = 8
"""Numbers of the text, of each of which a run makes all sizes."""
_MOST_RELATED: Final = 16
"""Findings of one function that are confirmed in this way; of more none is."""
_MOST_TESTS: Final = 64
"""Tests of one run; of a function with more of them nothing is certain."""
