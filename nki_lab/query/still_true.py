"""The part of an examination that a change of the text leaves true: what may be otherwise by now is left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from keyword import kwlist
from typing import Final, TypeVar

from nki_lab.query.evaluation_cache import Examination, Place
from nki_lab.source import PARSER_FAILURES, SyntaxFacts
from nki_lab.source.reparsing import common_ends
from nki_lab.source.trees import FUNCTIONS, first_line

V = TypeVar("V")

_WORD: Final = re.compile(r"[^\W\d]\w*")
MOST_LINES: Final = 800
"""A longer stretch of changes, several mostly, is not looked at: nothing is left then."""

_LATER: Final = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
"""Definitions whose bodies are evaluated after the statement that they stand in."""


@dataclass(frozen=True, slots=True)
class StillTrue:
    """Variables and calls that hold, at the lines where they are now; nothing is known about the lines `open`."""

    known: Examination = field(default_factory=Examination)
    open: frozenset[int] = frozenset()

    def at(self, line: int) -> Examination:
        """Return what is known for a place in a 1-based line: there a name may be bound to something new."""
        return Examination() if line in self.open else self.known


def still_true(known: Examination, old: Sequence[str], facts: SyntaxFacts) -> StillTrue:
    """Return the variables and calls of an examination that hold after a change.

    `known` is about a text of the lines `old`, `facts` are those of the text of today. A function keeps its values
    while nothing has changed that they may come from: no function that mentions it or that it mentions, no name of the
    module. A changed function that nobody mentions keeps those above the statement that has changed.
    """
    change = _Change(old, facts)
    if change.is_long:
        return StillTrue()
    broken = (item.line for item in known.findings if item.code == "NKI101" and item.file == facts.file)
    if not all(map(change.is_inside, broken)):
        return StillTrue()  # the statements of the old text are not those that stand in it
    opened = change.opened()

    def moved(table: Mapping[Place, V]) -> dict[Place, V]:
        places = ((change.line(line), column, value) for (line, column), value in table.items())
        return {(line, column): value for line, column, value in places if line and line not in opened}

    tables = Examination(
        variables=moved(known.variables), issued=moved(known.issued), expressions=moved(known.expressions)
    )
    return StillTrue(tables, opened)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement of the module: its lines, its words, the names of its definitions, none for others, and all names
    that may stand for something else where it does.
    """

    first: int
    last: int
    words: frozenset[str]
    defines: frozenset[str]
    binds: frozenset[str]


def _statement(node: ast.stmt, lines: Sequence[str]) -> _Statement:
    first, last = first_line(node), node.end_lineno or node.lineno
    words, defines = words_of("\n".join(lines[first - 1 : last])), _defines(node)
    return _Statement(first, last, words, defines, defines or _imports(node) or words)


def _defines(node: ast.stmt) -> frozenset[str]:
    """Return the names of a function, or of a class and its methods."""
    inside = node.body if isinstance(node, ast.ClassDef) else ()
    return frozenset(item.name for item in (node, *inside) if isinstance(item, (*FUNCTIONS, ast.ClassDef)))


def _imports(node: ast.stmt) -> frozenset[str]:
    """Return the names that an import binds; none where those are not known."""
    if not isinstance(node, ast.Import | ast.ImportFrom) or any(item.name == "*" for item in node.names):
        return frozenset()
    return frozenset(item.asname or item.name.partition(".")[0] for item in node.names)


class _Change:
    """The stretch of a text that has changed, in whole statements of the module.

    It begins behind the line `start`, and ends with the line `end` of the text of today.
    """

    def __init__(self, old: Sequence[str], facts: SyntaxFacts) -> None:
        lines = facts.lines
        self._above, below = common_ends(old, lines)
        self._below = len(old) - below  # the last line that has changed in the old text
        self._moved = len(lines) - len(old)
        unread = facts.parsed.unread
        first = min([self._above, *(line - 1 for line in unread)])
        last = max([len(lines) - below, *unread])
        ends = [(first_line(node), node.end_lineno or node.lineno) for node in facts.tree.body]
        touched = [(start, end) for start, end in ends if end > first and start <= last]
        self._start = min([first, *(start - 1 for start, _ in touched)])
        self._end = max([last, *(end for _, end in touched)])
        self._facts = facts
        self._texts = (
            "\n".join(old[self._start : self._end - self._moved]),
            "\n".join(lines[self._start : self._end]),
        )
        self._is_code = any(
            text.strip() and not text.lstrip().startswith("#")
            for text in (*old[self._above : self._below], *lines[self._above : len(lines) - below])
        )

    @property
    def is_long(self) -> bool:
        """Return whether the stretch is too long to be looked at within a hover."""
        return self._end - self._start > MOST_LINES or self._end - self._moved - self._start > MOST_LINES

    def line(self, number: int) -> int:
        """Return today's number of a 1-based line; 0 for one that has changed."""
        if number <= self._above:
            return number
        return number + self._moved if number > self._below else 0

    def is_inside(self, line: int) -> bool:
        """Return whether a line of the old text is in the stretch."""
        return self._start < line <= self._end - self._moved

    def opened(self) -> frozenset[int]:
        """Return today's lines whose values may be others now."""
        trees = _parsed(*self._texts)
        # Comments and blank lines, which may be those of a text in quotes.
        if trees is not None and not self._is_code and ast.dump(trees[0]) == ast.dump(trees[1]):
            return frozenset()
        function = "" if trees is None else _one_function(*trees)
        lines = set(range(self._start + 1, self._end + 1))
        lines.difference_update(self._steady(function))
        for item in self._affected(trees):
            lines.update(range(item.first, item.last + 1))
        return frozenset(lines)

    def _affected(self, trees: tuple[ast.Module, ast.Module] | None) -> list[_Statement]:
        """Return the statements beside the stretch whose values may be others; `trees` are those of the stretch."""
        calls = words_of(self._texts[0]) | words_of(self._texts[1])  # functions that may get other arguments
        binds = calls  # names that may stand for something else
        if trees is not None:
            parts = (
                (node, text.split("\n")) for tree, text in zip(trees, self._texts, strict=True) for node in tree.body
            )
            binds = frozenset[str]().union(*(_statement(*part).binds for part in parts))
        left, found = self._others(), list[_Statement]()
        while True:
            hit = [item for item in left if not binds.isdisjoint(item.words) or not calls.isdisjoint(item.defines)]
            passed = [item for item in left if not item.defines and not calls.isdisjoint(item.words)]
            wider = calls.union(*(item.words for item in (*hit, *passed)))  # other names of a function too
            if not hit and wider == calls:
                return found
            found += hit
            left = [item for item in left if item not in hit]
            calls = wider
            binds = binds.union(*(item.binds for item in hit))

    def _others(self) -> list[_Statement]:
        """Return the statements beside the stretch."""
        found = (_statement(node, self._facts.lines) for node in self._facts.tree.body)
        return [item for item in found if item.last <= self._start or item.first > self._end]

    def _steady(self, function: str) -> Iterable[int]:
        """Return the lines of the changed function that stand above the statement which has changed.

        None are certain where somebody may call the function with what it has returned.
        """
        facts = self._facts
        node = next((item for item in facts.tree.body if first_line(item) == self._start + 1), None)
        if not function or not isinstance(node, FUNCTIONS) or facts.parsed.unread:
            return
        body = words_of("\n".join(facts.lines[node.body[0].lineno - 1 : self._end]))
        if any(function in words for words in (body, *(item.words for item in self._others()))):
            return
        if self._above < node.body[0].lineno - 1:
            return
        for item in node.body:
            if (item.end_lineno or 0) > self._above:
                return
            if not any(isinstance(part, _LATER) for part in ast.walk(item)):
                yield from range(item.lineno, (item.end_lineno or 0) + 1)


def _parsed(old: str, new: str) -> tuple[ast.Module, ast.Module] | None:
    """Return both states of the stretch as trees; None where one is no Python by itself."""
    try:
        return ast.parse(old), ast.parse(new)
    except PARSER_FAILURES:
        return None


def _one_function(old: ast.Module, new: ast.Module) -> str:
    """Return the name of the one function that both states of the stretch define; empty for others."""
    if len(old.body) != 1 or len(new.body) != 1:
        return ""
    before, after = old.body[0], new.body[0]
    both = isinstance(before, FUNCTIONS) and isinstance(after, FUNCTIONS) and before.name == after.name
    return after.name if both and isinstance(after, FUNCTIONS) else ""


@lru_cache(maxsize=2048)
def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, those in comments too, without Python's own."""
    return frozenset(_WORD.findall(text)).difference(kwlist)
