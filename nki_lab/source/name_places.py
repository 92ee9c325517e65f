"""Places of names in the text: syntax trees have places of nodes, and of most names none."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from nki_lab.diagnostic import Span
from nki_lab.source.facts import SyntaxFacts
from nki_lab.source.occurrences import Occurrence
from nki_lab.source.recovery import blanked

_WORD: Final = re.compile(r"[^\W\d]\w*")


def word_at(text: str, column: int) -> tuple[str, int] | None:
    """Return the identifier of a line at, or just before, a 1-based column, and where it starts; None for none."""
    for found in _WORD.finditer(text):
        if found.start() < column <= found.end() + 1:
            if column == found.end() + 1 and text[found.end() : found.end() + 1].isidentifier():
                continue
            return found[0], found.start() + 1
    return None


def same_name(text: str, name: str) -> bool:
    """Return whether Python reads a text as this name: identifiers are normalized."""
    return text == name or (not text.isascii() and unicodedata.normalize("NFKC", text) == name)


def places_of(facts: SyntaxFacts, item: Occurrence) -> Iterator[Span]:
    """Yield the places of a mention: one, but in a line that could not be read, each where the name stands."""
    node = item.node
    line = getattr(node, "lineno", 0)
    if line in facts.parsed.unread:
        for start, text in words_of(facts.line(line)):
            if same_name(text, item.name):
                yield Span(facts.file, line, start, line, start + len(text))
        return
    if found := _place(facts, item):
        yield found


def words_of(line: str) -> Iterator[tuple[int, str]]:
    """Yield the names of a line of broken Python with their 1-based columns; no attributes, no words in strings."""
    for found in re.finditer(r"(?<![\w.])[^\W\d]\w*", blanked(line)):
        yield found.start() + 1, found[0]


def _place(facts: SyntaxFacts, item: Occurrence) -> Span | None:
    node, name = item.node, item.name
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    match node:
        case ast.Name() | ast.arg():
            return _starting(facts, line, column, name)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return _searched(facts, node, rf"(?:def|class)\s+({re.escape(name)})\b", name) or _searched_words(
                facts, node, name
            )
        case ast.alias(asname=None):
            return _starting(facts, line, column, name)
        case ast.alias() | ast.MatchAs() | ast.MatchStar():
            return ending(facts, node, name)
        case ast.Constant():
            quoted = _starting(facts, line, column + 1, name)
            text = facts.line(line)
            return quoted if quoted is not None and text[quoted.end_column - 1 : quoted.end_column] in "\"'" else None
        case ast.ExceptHandler(type=ast.expr() as kind):
            end_line, end = kind.end_lineno or line, facts.character(kind.end_lineno or line, kind.end_col_offset or 0)
            return _found(facts, re.compile(r"\bas\s+(\w+)").search(facts.line(end_line), end), end_line, name)
        case ast.MatchMapping():
            text = facts.line(node.end_lineno or line)
            stops = facts.character(node.end_lineno or line, node.end_col_offset or 0)
            stars = [*re.finditer(r"\*\*\s*(\w+)", text[:stops])]
            return _found(facts, stars[-1] if stars else None, node.end_lineno or line, name)
        case _:  # `global`, `nonlocal`, type parameters
            return _searched_words(facts, node, name)


def _searched(facts: SyntaxFacts, node: ast.AST, pattern: str, name: str) -> Span | None:
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    found = re.compile(pattern).search(facts.line(line), facts.character(line, column))
    return _found(facts, found, line, name)


def _found(facts: SyntaxFacts, found: re.Match[str] | None, line: int, name: str) -> Span | None:
    if found is None or not same_name(found[1], name):
        return None
    return Span(facts.file, line, found.start(1) + 1, line, found.end(1) + 1)


def _searched_words(facts: SyntaxFacts, node: ast.AST, name: str) -> Span | None:
    """Return the first place of a name in the first lines of a statement."""
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    start = facts.character(line, column)
    for number in range(line, min(line + 8, (getattr(node, "end_lineno", None) or line) + 1)):
        for found in _WORD.finditer(facts.line(number), start if number == line else 0):
            if same_name(found[0], name):
                return Span(facts.file, number, found.start() + 1, number, found.end() + 1)
    return None


def _starting(facts: SyntaxFacts, line: int, column: int, name: str) -> Span | None:
    """Return the place of a name that begins at a byte of a line, if it stands there."""
    text, start = facts.line(line), facts.character(line, column)
    found = _WORD.match(text, start)
    if found is None or not same_name(found[0], name):
        return None
    return Span(facts.file, line, start + 1, line, found.end() + 1)


def ending(facts: SyntaxFacts, node: ast.AST, name: str) -> Span | None:
    """Return the place of a name that a node ends with: an attribute, `as name`; None where it does not."""
    line = getattr(node, "end_lineno", None) or 0
    end = facts.character(line, getattr(node, "end_col_offset", None) or 0)
    found = re.search(r"[^\W\d]\w*$", facts.line(line)[:end])
    if found is None or not same_name(found[0], name):
        return None
    return Span(facts.file, line, found.start() + 1, line, end + 1)


def keyword_place(facts: SyntaxFacts, node: ast.keyword) -> Span | None:
    """Return the place of the name in a keyword argument."""
    return _starting(facts, node.lineno, node.col_offset, node.arg or "")


def imported_place(facts: SyntaxFacts, node: ast.alias) -> Span | None:
    """Return the place of the imported name, the part before `as`; of a dotted one, that of its last part."""
    text, start = facts.line(node.lineno), facts.character(node.lineno, node.col_offset)
    found = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*").match(text, start)
    if found is None:
        return None
    last = node.name.rpartition(".")[2]
    begin = found.end() - len(last)
    if text[begin : found.end()] != last:
        return None
    return Span(facts.file, node.lineno, begin + 1, node.lineno, found.end() + 1)
