"""The operations that evaluations came to, and why they did not come to others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nki_lab.diagnostic import Span
from nki_lab.kernel_runtime.interpreter import Evaluation

Operation = tuple[str, int, int]
"""A call of NKI's: file, 1-based line, and 0-based UTF-8 byte column."""

_NOTHING: Final[frozenset[Operation]] = frozenset()
_ENDS: Final = frozenset({"NKI007"})
"""Findings that end the function they are in."""
_BUDGET: Final = "NKI120"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The operations that evaluations came to.

    Those `given` were evaluated each time in a run with the arguments of a call or of annotations, those `assumed` at
    least once in a run with assumed arguments. Of those `unknown` an operand was not known at least once; those
    `omitted` stand in statements that were not evaluated, since a condition or a loop's range was not known. `entered`
    are the functions of the module, by qualified name, that were evaluated, `exhausted` those of them in runs that a
    budget ended; `ends` has the places, by file and line, where a function ended with an exception. `excused` says, by
    name, why functions at the module's top level were not evaluated.
    """

    given: frozenset[Operation] = _NOTHING
    assumed: frozenset[Operation] = _NOTHING
    unknown: frozenset[Operation] = _NOTHING
    omitted: frozenset[Operation] = _NOTHING
    entered: frozenset[str] = frozenset()
    exhausted: frozenset[str] = frozenset()
    ends: frozenset[tuple[str, int]] = frozenset()
    excused: Mapping[str, str] = field(default_factory=dict)

    @property
    def operations(self) -> frozenset[Operation]:
        """Return all operations that evaluations came to."""
        return self.given | self.assumed | self.unknown | self.omitted


def reach_of(result: Evaluation, *, assumed: bool) -> Reach:
    """Return what one evaluation came to."""
    evaluated = result.evaluated if assumed else result.evaluated - result.unknown
    return Reach(
        given=_NOTHING if assumed else evaluated,
        assumed=evaluated if assumed else _NOTHING,
        unknown=(result.unknown - result.omitted) | (result.evaluated & result.omitted),
        omitted=result.omitted,
        entered=result.entered,
        exhausted=result.entered if any(item.code == _BUDGET for item in result.diagnostics) else frozenset(),
        ends=frozenset((item.file, item.line) for item in result.diagnostics if item.code in _ENDS),
    )


def joined(parts: Iterable[Reach]) -> Reach:
    """Return what several evaluations came to."""
    items = list(parts)
    return Reach(
        given=_NOTHING.union(*(item.given for item in items)),
        assumed=_NOTHING.union(*(item.assumed for item in items)),
        unknown=_NOTHING.union(*(item.unknown for item in items)),
        omitted=_NOTHING.union(*(item.omitted for item in items)),
        entered=frozenset[str]().union(*(item.entered for item in items)),
        exhausted=frozenset[str]().union(*(item.exhausted for item in items)),
        ends=frozenset[tuple[str, int]]().union(*(item.ends for item in items)),
        excused={name: reason for item in items for name, reason in item.excused.items()},
    )


def operation_at(span: Span, operations: Sequence[Operation]) -> Operation | None:
    """Return the operation that holds a place: of those in order, the last of its file that does not begin after it."""
    at = bisect_right(operations, (span.file, span.line, span.column - 1))
    return operations[at - 1] if at and operations[at - 1][0] == span.file else None
