"""A text after edits, and whether each of its names is still bound where it was."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from nki_lab.diagnostic import Span
from nki_lab.query.navigation.reading import Reading, Source, reading_of
from nki_lab.source.occurrences import NameScope, Occurrence


def applied(lines: Sequence[str], edits: Mapping[Span, str]) -> list[str]:
    """Return the lines after edits, each of which is within one line."""
    changed = list(lines)
    for span in sorted(edits, key=lambda item: (item.line, item.column), reverse=True):
        text = changed[span.line - 1]
        changed[span.line - 1] = text[: span.column - 1] + edits[span] + text[span.end_column - 1 :]
    return changed


def difference(reading: Reading, lines: Sequence[str], old: str, new: str) -> int:
    """Return the first line on which a name would be bound otherwise in the new text; 0 where none is.

    The new text has the mentions of the old one, in order; those that one scope binds are still one name, which is
    `new` for some that were `old`, and the same for all others.
    """
    after = reading_of(_as_source(reading, lines), reading.file)
    if after is None:
        return 1
    if torn := after.facts.parsed.unread - reading.facts.parsed.unread:
        return min(torn)
    before, then = list(_profile(reading)), list(_profile(after))
    names: dict[object, object] = {}
    taken: dict[object, object] = {}
    for (item, group), (other, its) in zip(before, then, strict=False):
        line: int = getattr(item.node, "lineno", 1)
        if item.name != other.name and (item.name, other.name) != (old, new):
            return line
        if item.role != other.role or names.setdefault(group, its) != its or taken.setdefault(its, group) != group:
            return line
    if len(before) != len(then):
        last = before[min(len(then), len(before) - 1)][0].node if before else None
        return getattr(last, "lineno", 1)
    return _rebound(after, new)


def _rebound(reading: Reading, name: str) -> int:
    """Return the line of a walrus that assigns to the variable of a comprehension around it; Python refuses that."""
    for scope in reading.scope.subtree():
        if scope.kind != "comprehension" or name not in scope.bound:
            continue
        inside = set(ast.walk(scope.node))
        outer: NameScope | None = scope
        while outer is not None and outer.kind == "comprehension":
            outer = outer.parent
        for item in () if outer is None else outer.occurrences.get(name, ()):
            if item.role == "write" and item.node in inside:
                return int(getattr(item.node, "lineno", 1))
    return 0


def _as_source(reading: Reading, lines: Sequence[str]) -> Source:
    cells = reading.facts.parsed.cells
    if not cells:
        return "\n".join(lines)
    ends = [*(cell.start for cell in cells[1:]), len(lines)]
    return ["\n".join(lines[cell.start : end]) for cell, end in zip(cells, ends, strict=True)]


def _profile(reading: Reading) -> Iterator[tuple[Occurrence, object]]:
    """Yield all mentions, scope by scope in the order of the text, with what is the same for those of one name."""
    numbers = {id(scope): number for number, scope in enumerate(reading.scope.subtree())}
    for scope in reading.scope.subtree():
        found = [item for group in scope.occurrences.values() for item in group]
        for item in sorted(found, key=_order):
            binder: NameScope | None = scope.binder(item.name)
            yield item, (numbers[id(binder)] if binder is not None else -1, item.name)


def _order(item: Occurrence) -> tuple[int, int, int]:
    node = item.node
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    within = node.names.index(item.name) if isinstance(node, ast.Global | ast.Nonlocal) else 0
    return line, column, within
