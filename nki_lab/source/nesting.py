"""Finds the statements around a line, among many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Part = TypeVar("Part")


class Nesting(Generic[Part]):
    """Parts of a text by their first and last lines, as `lines_of` gives them."""

    def __init__(self, parts: Iterable[Part], lines_of: Callable[[Part], tuple[int, int]]) -> None:
        found = sorted(((lines_of(part), part) for part in parts), key=lambda item: item[0][0])
        self._parts = [part for _, part in found]
        self._first = [first for (first, _), _ in found]
        self._last = [last for (_, last), _ in found]
        self._outer: list[int] = []  # of each part, the closest one before it that has not ended there; -1 for none
        around: list[int] = []
        for number, first in enumerate(self._first):
            while around and self._last[around[-1]] < first:
                around.pop()
            self._outer.append(around[-1] if around else -1)
            around.append(number)

    def around(self, line: int) -> list[Part]:
        """Return the parts that a line lies in, in the order of their first lines."""
        found = []
        at = bisect_right(self._first, line) - 1
        while at >= 0:
            if line <= self._last[at]:
                found.append(self._parts[at])
            at = self._outer[at]
        return found[::-1]
