"""Callers of a kernel or helper, and the functions that it calls, across files, with the shapes that the calls pass."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nki_lab.diagnostic import Span
from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.query.evaluation_cache import Examination
from nki_lab.query.navigation.meaning import Bound, Resolver, enclosing_class
from nki_lab.query.navigation.reading import Mention, Reading
from nki_lab.query.navigation.references import carrier, spread
from nki_lab.query.navigation.symbols import tensor_text
from nki_lab.source.occurrences import NameScope, Occurrence
from nki_lab.source.trees import FUNCTIONS, parameters

Known = Callable[[str], Examination]
"""Gives the latest examination of a file; an empty one of a file that is not open."""


@dataclass(frozen=True, slots=True)
class Routine:
    """A function, or the code of a module outside of functions. `detail` has the shapes that it gets."""

    name: str
    is_method: bool
    is_module: bool
    detail: str
    span: Span
    place: Span


@dataclass(frozen=True, slots=True)
class Link:
    """The calls between two routines: the other one, and the places of the calls."""

    other: Routine
    places: tuple[Span, ...]


def prepare(resolver: Resolver, reading: Reading, mention: Mention, known: Known) -> Routine | None:
    """Return the function that a place is about; None where it is about none of the workspace."""
    found = resolver.function_of(resolver.mention(reading, mention))
    return None if found is None else routine(found[0].reading, found[1], known)


def routine(reading: Reading, scope: NameScope, known: Known, detail: str = "") -> Routine | None:
    """Return a function as an entry of a hierarchy; `detail` in place of the shapes of its first known signature."""
    node = scope.node
    if not isinstance(node, FUNCTIONS):
        start = Span(reading.file, 1, 1, 1, 1)
        name = reading.facts.parsed.name
        return Routine(name, is_method=False, is_module=True, detail=detail, span=start, place=start)
    place = reading.first(Occurrence(node.name, node, "definition"))
    if place is None:
        return None
    detail = detail or _shapes(reading, node, known(reading.file))
    span = reading.facts.span(node)
    return Routine(node.name, enclosing_class(scope) is not None, False, detail, span, place)


def _shapes(reading: Reading, node: ast.FunctionDef | ast.AsyncFunctionDef, known: Examination) -> str:
    texts = ((item.arg, known.variables.get((item.lineno, item.col_offset))) for item in parameters(node.args))
    return ", ".join(f"{name}: {_text(value)}" for name, value in texts if value is not None)


def _text(value: Variable) -> str:
    return tensor_text(value) if value.shape else value.text[:40]


def at(resolver: Resolver, reading: Reading, line: int, column: int) -> tuple[Bound, NameScope] | None:
    """Return the function whose name stands at a place."""
    mention = reading.mention(line, column)
    return None if mention is None else resolver.function_of(resolver.mention(reading, mention))


def incoming(resolver: Resolver, reading: Reading, line: int, column: int, known: Known) -> list[Link]:
    """Return the callers of the function whose name stands at a place."""
    found = at(resolver, reading, line, column)
    if found is None:
        return []
    bound, body = found
    key = _key(bound, body)
    home = bound.reading
    links: dict[tuple[str, int, int], tuple[Reading, NameScope, list[tuple[Span, str]]]] = {}
    for other in [home, *spread(resolver, home, carrier(Bound(home, body.parent or body, bound.name)))]:
        for scope in other.scope.subtree():
            for call in scope.calls:
                target = resolver.function_of(resolver.called(other, scope, call))
                if target is None or _key(*target) != key:
                    continue
                caller = scope.function() or other.scope
                site = (other.file, getattr(caller.node, "lineno", 0), getattr(caller.node, "col_offset", 0))
                entry = links.setdefault(site, (other, caller, []))
                entry[2].append((_called_place(other, call), _passed(other, scope, call, known(other.file))))
    return list(_links(links.values(), known))


def _links(found: object, known: Known) -> Iterator[Link]:
    for reading, caller, calls in found:  # type: ignore[attr-defined]
        detail = next((text for _, text in calls if text), "")
        entry = routine(reading, caller, known, f"passes {detail}" if detail else "")
        if entry is not None:
            yield Link(entry, tuple(span for span, _ in calls))


def outgoing(resolver: Resolver, reading: Reading, line: int, column: int, known: Known) -> list[Link]:
    """Return the functions of the workspace that the function at a place calls, with the shapes that they get."""
    found = at(resolver, reading, line, column)
    if found is None:
        return []
    home, body = found[0].reading, found[1]
    targets: dict[object, tuple[Bound, NameScope, list[tuple[Span, str]]]] = {}
    for scope in body.subtree():
        if scope.function() is not body:
            continue
        for call in scope.calls:
            target = resolver.function_of(resolver.called(home, scope, call))
            if target is not None:
                entry = targets.setdefault(_key(*target), (*target, []))
                entry[2].append((_called_place(home, call), _passed(home, scope, call, known(home.file))))
    links = []
    for bound, inner, calls in targets.values():
        detail = next((text for _, text in calls if text), "")
        entry_of = routine(bound.reading, inner, known, detail)
        if entry_of is not None:
            links.append(Link(entry_of, tuple(span for span, _ in calls)))
    return links


def _key(bound: Bound, body: NameScope) -> object:
    return (bound.reading.file, getattr(body.node, "lineno", 0), getattr(body.node, "col_offset", 0))


def _called_place(reading: Reading, call: ast.Call) -> Span:
    return reading.facts.span(call.func)


def _passed(reading: Reading, scope: NameScope, call: ast.Call, known: Examination) -> str:
    """Return the shapes of the arguments of a call, as far as they are known."""
    texts = []
    for argument in (*call.args, *call.keywords):
        inner = argument.value if isinstance(argument, ast.keyword | ast.Starred) else argument
        node = inner if isinstance(inner, ast.expr) else call
        value = _value(scope, node, known)
        if value is not None and value.shape:
            texts.append(f"{reading.facts.text(node)}: {tensor_text(value)}")
    return ", ".join(texts)


def _value(scope: NameScope, node: ast.expr, known: Examination) -> Variable | None:
    """Return what an argument stands for: a name as last bound above, another expression by its end."""
    if not isinstance(node, ast.Name):
        return known.expressions.get((node.end_lineno or 0, node.end_col_offset or 0))
    binder = scope.binder(node.id)
    places = [] if binder is None else [_site(item.node) for item in binder.bindings(node.id)]
    places = [place for place in places if place in known.variables]
    above = [place for place in places if place <= _site(node)]
    return known.variables[max(above) if above else min(places)] if places else None


def _site(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
