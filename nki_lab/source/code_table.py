"""Tables of code objects that keep none alive: a cell that is run again has new ones, and nobody asks for the old."""

from __future__ import annotations

from types import CodeType
from typing import Generic, TypeVar
from weakref import ReferenceType

V = TypeVar("V")


class CodeTable(dict[int, V], Generic[V]):
    """Values by the `id` of code objects, since hashing those takes long. An entry goes when its code does.

    With `most`, all go when there are more.
    """

    def __init__(self, most: int = 0) -> None:
        super().__init__()
        self._most = most
        self._alive: dict[int, ReferenceType[CodeType]] = {}

    def enter(self, code: CodeType, value: V) -> V:
        """Set the value of a code object, and return it."""
        if self._most and len(self) >= self._most:
            self._alive.clear()
            self.clear()
        key = id(code)
        self._alive[key] = ReferenceType(code, lambda _: self._drop(key))
        self[key] = value
        return value

    def _drop(self, key: int) -> None:
        self._alive.pop(key, None)
        self.pop(key, None)
