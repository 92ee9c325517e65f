"""Evaluates functions that nobody calls with assumed arguments, and keeps what does not depend on them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.kernel_runtime.interpreter import VARIANTS, Assumptions, Evaluation

STEPS: Final = 30_000
"""Steps of one run."""

_OF_TARGETS: Final = frozenset({"NKI209", "NKI221"})
_OF_RANKS: Final = frozenset({"NKI205"})
_DEPENDING: Final = _OF_TARGETS | _OF_RANKS
"""Findings whose words need not tell that they depend on an assumption: which target, or how many dimensions."""

Operation = tuple[str, int, int]


def runs(evaluate: Callable[[Assumptions], Evaluation]) -> list[Evaluation]:
    """Return the evaluations of a function under each variant of the assumptions.

    Stops where three more variants have brought no operation that was not evaluated before.
    """
    taken: dict[ast.expr, set[tuple[bool, bool]]] = {}
    found: list[Evaluation] = []
    known: set[Operation] = set()
    idle = 0
    for variant in range(VARIANTS):
        result = evaluate(Assumptions(variant=variant, taken=taken))
        found.append(result)
        new = result.evaluated - known
        known |= new
        idle = 0 if new else idle + 1
        if idle == 3:
            break
    return found


def certain(found: list[Evaluation]) -> Iterator[tuple[Evaluation, Diagnostic]]:
    """Yield the findings about operands that all runs share which evaluated their places, even and odd variants.

    Each comes with the first run that has it. The runs assume different values, memories too, so that a message which
    is the same in all of them depends on none of these.
    """
    first: dict[tuple[str, Span], tuple[Evaluation, Diagnostic]] = {}
    for result in found:
        for item in result.diagnostics:
            if item.span is not None and item.code[3] == "2" and item.outcome != "advice":
                first.setdefault((item.code, item.span), (result, item))
    operations = frozenset[Operation]().union(*(result.operations for result in found))
    for (code, span), (origin, item) in first.items():
        if code in _DEPENDING:
            continue
        place = _operation_at(span, operations)
        told: list[set[str]] = [set(), set()]  # of even variants, of odd ones
        for variant, result in enumerate(found):
            here = [other for other in result.diagnostics if other.span == span]
            if here or place in result.evaluated:
                told[variant % 2].add(next((other.message for other in here if other.code == code), ""))
        if told == [{item.message}] * 2:
            yield origin, item


def _operation_at(span: Span, operations: frozenset[Operation]) -> Operation | None:
    """Return the operation that holds a place."""
    place = (span.file, span.line, span.column - 1)
    return max((item for item in operations if item[0] == span.file and item <= place), default=None)
