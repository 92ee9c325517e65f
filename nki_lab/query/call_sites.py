"""The calls of NKI's functions in a file, and how much of each was checked."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from nki_lab.query.reach import Operation, Reach
from nki_lab.rules.api_calls import NkiCall, nki_calls
from nki_lab.source import SyntaxFacts
from nki_lab.source.names import NameUses
from nki_lab.source.trees import FUNCTIONS

State = Literal["fully", "partly", "by name", "skipped"]
STATES: Final[Mapping[State, str]] = MappingProxyType(
    {
        "fully": "evaluated with known shapes, all arguments known",
        "partly": "evaluated with assumed arguments, or with some that are not known",
        "by name": "compared with the instruction table only: names, keywords, literals",
        "skipped": "not checked",
    }
)
"""How much of a call is checked, the most first."""

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "assumed-arguments": "no known shapes reach it: its arguments were assumed",
        "unknown-operand": "an operand is not known, or not in every iteration",
        "unknown-condition": "a condition or the range of a loop around it is not known",
        "ended-before": "its function raises an exception above it in every run",
        "over-budget": "the steps of a run end before it",
        "other-branch": "no run takes its branch",
        "never-called": "nothing that was evaluated calls its function",
        "no-arguments": "no arguments could be assumed for its function",
        "long-module": "the module's own statements take all steps of a run",
        "made-elsewhere": "a decorator, or other code that is not evaluated, makes its function",
        "no-steps": "the steps of the file end before its function",
        "on-host": "its function launches kernels, or is a test",
        "at-import": "it stands outside of functions",
        "other-dialect": "kernels of neuronxcc.nki are not evaluated",
        "ambiguous-name": "its name may stand for another thing as well",
        "not-modelled": "NKI has the name, and nki_lab does not model it",
    }
)
"""Reasons why a call is not checked fully, by their names."""


class CallSite(NamedTuple):
    """A call of a function of NKI's, and how much of it is checked.

    `line` counts from 1, `column` is a 0-based UTF-8 byte; `end_line` and `end_column` are the place behind it. `name`
    is the full name of what it calls, `function` the qualified name of the function that it stands in. `reason` is one
    of `REASONS`, and empty where the call is fully checked.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    name: str
    function: str
    state: State
    reason: str = ""


def call_sites(facts: SyntaxFacts, reach: Reach) -> tuple[CallSite, ...]:
    """Return the calls of NKI's functions in a file, in the order of the text; `reach` is what evaluations came to."""
    found = []
    for call, place in _placed(facts):
        node = call.node
        state, reason = _checked(facts.file, node, place, reach)
        if call.obstacle and (state == "by name" or reason == "unknown-operand"):
            state, reason = "skipped", call.obstacle
        found.append(
            CallSite(
                line=node.lineno,
                column=node.col_offset,
                end_line=node.end_lineno or node.lineno,
                end_column=node.end_col_offset or 0,
                name=call.name,
                function=place.function,
                state=state,
                reason=reason,
            )
        )
    return tuple(sorted(found, key=lambda item: (item.line, item.column, -item.end_line, -item.end_column)))


def calls_inside(facts: SyntaxFacts, functions: Iterable[str]) -> list[tuple[int, int]]:
    """Return the places of the calls of NKI's functions in functions at the top level of a file."""
    by_top = facts.parsed.once("calls by function", lambda: _by_top(facts))
    return [place for name in functions for place in by_top.get(name, ())]


def _by_top(facts: SyntaxFacts) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for call, place in _placed(facts):
        found.setdefault(place.top, []).append((call.node.lineno, call.node.col_offset))
    return found


def _placed(facts: SyntaxFacts) -> list[tuple[NkiCall, _Place]]:
    """Return the calls of NKI's functions, each with the function around it."""

    def placed() -> list[tuple[NkiCall, _Place]]:
        around = _functions_around(facts.module)
        return [(call, around.get(id(call.node), _Place())) for call in nki_calls(facts)]

    return facts.parsed.once("placed calls", placed)


def reached_elsewhere(
    sites: Sequence[CallSite], given: Iterable[Operation], assumed: Iterable[Operation]
) -> tuple[CallSite, ...]:
    """Return the calls of a file after evaluations of other files have come to some of them.

    `given` are those evaluated with known arguments, `assumed` those evaluated with assumed or unknown ones.
    """
    known, guessed = {item[1:] for item in given}, {item[1:] for item in assumed}
    entered = {item.function for item in sites if (item.line, item.column) in known | guessed}

    def seen(item: CallSite) -> CallSite:
        place = (item.line, item.column)
        if place in known:
            return item._replace(state="fully", reason="")
        if item.state in ("by name", "skipped") and place in guessed:
            return item._replace(state="partly", reason="assumed-arguments")
        if item.reason == "never-called" and item.function in entered:
            return item._replace(reason="other-branch")
        return item

    return tuple(map(seen, sites))


def counted(sites: Iterable[CallSite]) -> dict[State, int]:
    """Return how many calls there are in each state."""
    number = Counter(item.state for item in sites)
    return {state: number[state] for state in STATES}


def reasons(sites: Iterable[CallSite]) -> dict[tuple[State, str], int]:
    """Return how many calls are not checked fully, by state and reason, the most frequent first."""
    return dict(Counter((item.state, item.reason) for item in sites if item.reason).most_common())


@dataclass(frozen=True, slots=True)
class _Place:
    """The function around a call: its qualified name, that of the outermost one, its lines, and whether in a class."""

    function: str = ""
    top: str = ""
    first: int = 0
    last: int = 0


def _functions_around(module: NameUses) -> dict[int, _Place]:
    """Return the function that each call stands in; defaults and decorators stand outside of theirs."""
    found: dict[int, _Place] = {}
    stack: list[tuple[NameUses, _Place, str]] = [(module, _Place(), "")]
    while stack:
        scope, place, prefix = stack.pop()
        node = scope.node
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            name = prefix + ("<lambda>" if isinstance(node, ast.Lambda) else node.name)
            place = _Place(name, place.top or name.partition(".")[0], node.lineno, node.end_lineno or node.lineno)
            prefix = f"{name}.<locals>."
        elif isinstance(node, ast.ClassDef):
            prefix = f"{prefix}{node.name}."
        found.update((id(call), place) for call in scope.calls)
        stack += [(inner, place, prefix) for inner in scope.children]
    return found


def _checked(file: str, node: ast.Call, place: _Place, reach: Reach) -> tuple[State, str]:
    """Return how much of a call was evaluated, and why not more of it."""
    operation = (file, node.lineno, node.col_offset)
    if operation in reach.given:
        return "fully", ""
    if operation in reach.assumed:
        return "partly", "assumed-arguments"
    if operation in reach.unknown:
        return "partly", "unknown-operand"
    return "by name", _reason(file, operation, place, reach)


def _reason(file: str, operation: Operation, place: _Place, reach: Reach) -> str:
    """Return why no evaluation came to a call."""
    if operation in reach.omitted:
        return "unknown-condition"
    if not place.function:
        return "at-import"
    if place.function in reach.entered:
        if any(name == file and place.first <= line < operation[1] for name, line in reach.ends):
            return "ended-before"
        return "over-budget" if place.function in reach.exhausted else "other-branch"
    return "never-called" if place.top in reach.entered else reach.excused.get(place.top, "never-called")
