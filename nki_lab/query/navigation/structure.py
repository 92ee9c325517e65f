"""The shape of a text: lines that fold, and selections that grow from a name to the module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from nki_lab.diagnostic import Span
from nki_lab.query.navigation.reading import Reading
from nki_lab.source.trees import children, first_line

_COMMENT: Final = re.compile(r"\s*#")
_ELSE: Final = re.compile(r"\s*(?:else|finally)\b")
_BRACKETED: Final = (ast.Call, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp,
                     ast.GeneratorExp, ast.Subscript, ast.JoinedStr, ast.Constant)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines that fold into the first of them, 1-based, the last included."""

    start: int
    end: int
    kind: Literal["", "comment", "imports"] = ""


def folds(reading: Reading) -> list[Fold]:
    """Return the lines that fold: definitions, blocks, expressions over several lines, comments, imports.

    Of several that begin on one line the longest is given.
    """
    unread = reading.facts.parsed.unread
    tall = list(_tall_nodes(reading.facts.tree))
    found = [fold for node in tall for fold in _of_node(node, reading.facts.lines)]
    found += _comments(reading.facts.lines, tall)
    longest: dict[int, Fold] = {}
    for item in found:
        known = longest.get(item.start)
        if item.end > item.start and item.start not in unread and (known is None or known.end < item.end):
            longest[item.start] = item
    return [longest[start] for start in sorted(longest)]


def _tall_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that take several lines, and those without a place of their own."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        for child in children(node):
            start = getattr(child, "lineno", 0)
            if not start or (getattr(child, "end_lineno", None) or start) > start:
                stack.append(child)


def _of_node(node: ast.AST, lines: Sequence[str]) -> Iterator[Fold]:
    """Yield the lines of a node that fold."""
    for name in ("body", "orelse", "finalbody", "handlers"):
        suite = getattr(node, name, None)
        if isinstance(suite, list) and suite and isinstance(suite[0], ast.stmt):
            yield from _imports(suite)
            if isinstance(node, ast.Module) or (name == "orelse" and _is_elif(suite[0], lines)):
                continue
            start, end = _start_of(node, name, suite[0], lines), _end_of(suite)
            yield Fold(start, end)
    if isinstance(node, ast.expr) and isinstance(node, _BRACKETED) and node.end_lineno:
        text = isinstance(node, ast.Constant | ast.JoinedStr)
        yield Fold(node.lineno, node.end_lineno, "comment" if text and isinstance(node, ast.Constant) else "")
    elif isinstance(node, ast.Match | ast.match_case):
        inner = [item for item in children(node) if hasattr(item, "end_lineno")]
        start = node.lineno if isinstance(node, ast.Match) else node.pattern.lineno
        yield Fold(start, max(getattr(item, "end_lineno", start) for item in inner or [node]))


def _is_elif(first: ast.stmt, lines: Sequence[str]) -> bool:
    """Return whether an `elif` begins what stands in the tree as an `if` below an `else`."""
    return isinstance(first, ast.If) and lines[first.lineno - 1].encode()[first.col_offset :].startswith(b"elif")


def _start_of(node: ast.AST, name: str, first: ast.stmt, lines: Sequence[str]) -> int:
    """Return the line of a block's header."""
    if name == "body":
        return node.pattern.lineno if isinstance(node, ast.match_case) else getattr(node, "lineno", 1)
    above = first_line(first)
    number = above
    while number > 1 and not _ELSE.match(lines[number - 1]):
        number -= 1
        if number < above - 50:
            return above
    return number


def _end_of(suite: Sequence[ast.AST]) -> int:
    return max(getattr(item, "end_lineno", 0) or 0 for item in suite)


def _imports(suite: Sequence[ast.stmt]) -> Iterator[Fold]:
    """Yield the stretches of imports in a block."""
    first: ast.stmt | None = None
    last: ast.stmt | None = None
    for node in [*suite, None]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            first, last = first or node, node
        elif first is not None and last is not None:
            yield Fold(first.lineno, last.end_lineno or last.lineno, "imports")
            first = last = None


def _comments(lines: Sequence[str], tall: Sequence[ast.AST]) -> Iterator[Fold]:
    """Yield the stretches of lines that are comments, not those within strings."""
    numbers = [number for number, text in enumerate(lines, 1) if _COMMENT.match(text)]
    if not numbers:
        return
    quoted: set[int] = set()
    for node in tall:
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno:
            quoted.update(range(node.lineno + 1, node.end_lineno + 1))
    start = previous = 0
    for number in [*(item for item in numbers if item not in quoted), 0]:
        if number != previous + 1 or not previous:
            if previous > start:
                yield Fold(start, previous, "comment")
            start = number
        previous = number


def selections(reading: Reading, line: int, column: int) -> list[Span]:
    """Return the spans around a 1-based line and column, each inside the next: name, expressions, statements, all."""
    facts = reading.facts
    found: list[Span] = []
    last = max(1, len(facts.lines))
    whole = Span(facts.file, 1, 1, last, len(facts.line(last)) + 1)
    byte = len(facts.line(line)[: column - 1].encode("utf-8", "surrogatepass"))
    spans = [whole]
    for node in reading.path(line, byte):
        if getattr(node, "lineno", 0) in facts.parsed.unread:
            break
        span = facts.span(node)
        start = first_line(node)
        spans.append(Span(span.file, start, 1, span.end_line, span.end_column) if start < span.line else span)
    word = reading.word(line, column)
    if word is not None:
        spans.append(word[1])
    for span in reversed(spans):
        if not found or (_contains(span, found[-1]) and span != found[-1]):
            found.append(span)
    return found


def _contains(outer: Span, inner: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= (
        outer.end_line,
        outer.end_column,
    )
