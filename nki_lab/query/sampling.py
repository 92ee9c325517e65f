"""Evaluates functions that nobody calls with assumed arguments, and keeps what does not depend on them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.kernel_runtime.interpreter import VARIANTS, Assumptions, Evaluation

STEPS: Final = 50_000
"""Steps of one run."""

_OF_TARGETS: Final = frozenset({"NKI209", "NKI221"})
_OF_RANKS: Final = frozenset({"NKI205"})
_DEPENDING: Final = _OF_TARGETS | _OF_RANKS
"""Findings whose words need not tell that they depend on an assumption: which target, or how many dimensions."""

Operation = tuple[str, int, int]


class Run(NamedTuple):
    """An evaluation, and what it assumed."""

    assumptions: Assumptions
    result: Evaluation


def runs(evaluate: Callable[[Assumptions], Evaluation]) -> list[Run]:
    """Return the evaluations of a function under each variant of the assumptions.

    Stops where three more variants have brought no operation that was not evaluated before.
    """
    taken: dict[ast.expr, set[tuple[bool, bool]]] = {}
    found: list[Run] = []
    known: set[Operation] = set()
    idle = 0
    for variant in range(VARIANTS):
        assumptions = Assumptions(variant=variant, taken=taken)
        result = evaluate(assumptions)
        found.append(Run(assumptions, result))
        new = result.evaluated - known
        known |= new
        idle = 0 if new else idle + 1
        if idle == 3:
            break
    return found


def certain(found: list[Run], evaluate: Callable[[Assumptions], Evaluation]) -> Iterator[tuple[Evaluation, Diagnostic]]:
    """Yield the findings about operands that all runs share which evaluated their places, even and odd variants.

    Each comes with the first run that has it. The runs assume different values, memories too, so that a message which
    is the same in all of them depends on none of these. Nor does it depend on the way of a test: it is the same where
    that goes the other way and the place is evaluated all the same.
    """
    operations = frozenset[Operation]().union(*(run.result.operations for run in found))
    shared: dict[int, list[tuple[Diagnostic, Operation | None]]] = {}
    seen: set[tuple[str, Span]] = set()
    for number, run in enumerate(found):
        for item in run.result.diagnostics:
            if item.span is None or item.code[3] != "2" or item.outcome == "advice" or item.code in _DEPENDING:
                continue
            if (item.code, item.span) in seen:
                continue
            seen.add((item.code, item.span))
            place = _operation_at(item.span, operations)
            shown = [_shows(item, place, other.result) for other in found]
            if all({True} == {*shown[parity::2]} - {None} for parity in (0, 1)):
                shared.setdefault(number, []).append((item, place))
    for number, items in shared.items():
        run, left = found[number], items
        tests = list(run.assumptions.ways)
        for test in tests if len(tests) <= _MOST_TESTS else ():
            result = evaluate(run.assumptions.but(test))
            left = [(item, place) for item, place in left if _shows(item, place, result) is not False]
            if not left:
                break
        yield from ((run.result, item) for item, _ in left if len(tests) <= _MOST_TESTS)


_MOST_TESTS: Final = 64
"""Tests of one run; of a function with more of them nothing is certain."""


def _shows(item: Diagnostic, place: Operation | None, result: Evaluation) -> bool | None:
    """Return whether a run finds the same in the same words; None where it does not evaluate the place."""
    here = [other for other in result.diagnostics if other.span == item.span]
    if not here and place not in result.evaluated:
        return None
    return any((other.code, other.message) == (item.code, item.message) for other in here)


def _operation_at(span: Span, operations: frozenset[Operation]) -> Operation | None:
    """Return the operation that holds a place."""
    place = (span.file, span.line, span.column - 1)
    return max((item for item in operations if item[0] == span.file and item <= place), default=None)
