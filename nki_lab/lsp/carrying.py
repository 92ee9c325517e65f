"""Findings and facts of an earlier version of a text, at the lines where they stand now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nki_lab.diagnostic import Diagnostic
from nki_lab.query import Examination, moved_finding


class Carrier:
    """Where the lines of an old text stand in a new one. Lines between the first change and the last have no place."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        same = min(len(old), len(new))
        self._above = next((i for i in range(same) if old[i] != new[i]), same)
        rest = same - self._above
        self._below = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
        self._old = len(old)
        self._moved = len(new) - len(old)

    def line(self, number: int) -> int:
        """The new number of a 1-based line; 0 for one that has changed."""
        if number <= self._above:
            return number
        return number + self._moved if number > self._old - self._below else 0

    def findings(self, found: Iterable[Diagnostic], file: str) -> Iterator[Diagnostic]:
        """The findings whose lines have not changed."""
        for item in found:
            if item.span is None or (self.line(item.line) and self.line(item.end_line)):
                yield moved_finding(item, lambda line: self.line(line) or line, file)

    def examination(self, known: Examination) -> Examination:
        """What is known of lines that have not changed."""
        variables = {
            (line, column): value for (number, column), value in known.variables.items() if (line := self.line(number))
        }
        issued = {
            (line, column): value for (number, column), value in known.issued.items() if (line := self.line(number))
        }
        expressions = {
            (line, column): value
            for (number, column), value in known.expressions.items()
            if (line := self.line(number))
        }
        return Examination(variables=variables, issued=issued, expressions=expressions)
