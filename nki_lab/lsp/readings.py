"""The names of open texts, as of the newest facts of each."""

from __future__ import annotations

from nki_lab.query.navigation.reading import Reading, reading_of_facts
from nki_lab.source import SyntaxFacts


class Readings:
    """Keeps the names of each text that somebody asked about.

    It is asked within `Trees.analysed`, which lets one analysis of a text run at a time.
    """

    def __init__(self) -> None:
        self._known: dict[str, Reading] = {}

    def of(self, uri: str, facts: SyntaxFacts) -> Reading:
        """Return the names of a text with these facts."""
        before = self._known.pop(uri, None)
        found = self._known[uri] = reading_of_facts(facts, before)
        return found

    def forget(self, uri: str) -> None:
        """Forget a text that is closed."""
        self._known.pop(uri, None)
