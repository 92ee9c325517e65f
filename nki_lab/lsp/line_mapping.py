"""Findings and facts of an earlier version of a text, at the lines where they stand now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from nki_lab.diagnostic import Diagnostic
from nki_lab.query import Examination
from nki_lab.source.moved_lines import moved_finding
from nki_lab.source.reparsing import common_ends

V = TypeVar("V")


class LineMap:
    """Maps the lines of an old text to those of a new text. Lines between the first change and the last have none."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        self._above, self._below = common_ends(old, new)
        self._old = len(old)
        self._moved = len(new) - len(old)

    def line(self, number: int) -> int:
        """Return the new number of a 1-based line; 0 for a line that has changed."""
        if number <= self._above:
            return number
        return number + self._moved if number > self._old - self._below else 0

    def findings(self, found: Iterable[Diagnostic], file: str) -> Iterator[Diagnostic]:
        """Yield the findings whose lines have not changed."""
        for item in found:
            if item.span is None or (self.line(item.line) and self.line(item.end_line)):
                yield moved_finding(item, lambda line: self.line(line) or line, file)

    def examination(self, known: Examination) -> Examination:
        """Return the part of an examination that is about lines which have not changed."""
        return Examination(
            variables=self._moved_places(known.variables),
            issued=self._moved_places(known.issued),
            expressions=self._moved_places(known.expressions),
        )

    def _moved_places(self, table: Mapping[tuple[int, int], V]) -> dict[tuple[int, int], V]:
        moved = (((self.line(line), column), value) for (line, column), value in table.items())
        return {place: value for place, value in moved if place[0]}
