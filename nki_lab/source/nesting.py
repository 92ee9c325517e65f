"""Finds the parts of a text around a place, among many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Part = TypeVar("Part")
Place = TypeVar("Place", int, tuple[int, int])


class Nesting(Generic[Part, Place]):
    """Parts of a text by their first and last places, as `ends_of` gives them: lines, or lines with columns."""

    def __init__(self, parts: Iterable[Part], ends_of: Callable[[Part], tuple[Place, Place]]) -> None:
        found = sorted(((ends_of(part), part) for part in parts), key=lambda item: item[0][0])
        self._parts = [part for _, part in found]
        self._first: list[Place] = [first for (first, _), _ in found]
        self._last: list[Place] = [last for (_, last), _ in found]
        self._outer: list[int] = []  # of each part, the closest one before it that has not ended there; -1 for none
        around: list[int] = []
        for number, first in enumerate(self._first):
            while around and self._last[around[-1]] < first:
                around.pop()
            self._outer.append(around[-1] if around else -1)
            around.append(number)

    def around(self, place: Place) -> list[Part]:
        """Return the parts that a place lies in, in the order of their first places."""
        found = []
        at = bisect_right(self._first, place) - 1
        while at >= 0:
            if place <= self._last[at]:
                found.append(self._parts[at])
            at = self._outer[at]
        return found[::-1]
