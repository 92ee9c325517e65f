"""The last answer about the colours of each text, for the next answer to tell what has changed."""

from __future__ import annotations


class Painted:
    """Keeps the last answer about each text, for the next to tell what has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, list[int]]] = {}
        self._number = 0

    def keep(self, uri: str, data: list[int]) -> str:
        """Remember an answer; gives its name."""
        self._number += 1
        self._known[uri] = str(self._number), data
        return str(self._number)

    def recall(self, uri: str, name: str) -> list[int] | None:
        """Return the answer of a name; None where it is not the last one."""
        known = self._known.get(uri)
        return known[1] if known is not None and known[0] == name else None

    def forget(self, uri: str) -> None:
        """Forget a text that is closed."""
        self._known.pop(uri, None)
