"""The names of open texts, as of the newest facts of each, and their colours."""

from __future__ import annotations

from nki_lab.query import Examination
from nki_lab.query.navigation.reading import Reading, reading_of_facts
from nki_lab.query.token_kinds import Token
from nki_lab.query.tokens import KeptTokens, tokens
from nki_lab.source import SyntaxFacts


class Readings:
    """Keeps the names of each text that somebody asked about.

    It is asked within `Trees.analysed`, which lets one analysis of a text run at a time.
    """

    def __init__(self) -> None:
        self._known: dict[str, Reading] = {}
        self._kept: dict[str, KeptTokens] = {}
        self._tokens: dict[str, tuple[SyntaxFacts, Examination, list[Token]]] = {}

    def of(self, uri: str, facts: SyntaxFacts) -> Reading:
        """Return the names of a text with these facts."""
        before = self._known.pop(uri, None)
        found = self._known[uri] = reading_of_facts(facts, before)
        return found

    def follow(self, uri: str, facts: SyntaxFacts) -> None:
        """Go on with the names that are known of a text to its newest facts, so that nobody has its earlier trees."""
        self._tokens.pop(uri, None)
        if uri in self._known:
            self.of(uri, facts)

    def tokens(self, uri: str, facts: SyntaxFacts, known: Examination) -> list[Token]:
        """Return the tokens of a text with these facts, worked out once."""
        before = self._tokens.get(uri)
        if before is not None and before[0] is facts and before[1] is known:
            return before[2]
        found = tokens(facts, known, self._kept.setdefault(uri, KeptTokens()))
        self._tokens[uri] = facts, known, found
        return found

    def forget(self, uri: str) -> None:
        """Forget a text that is closed."""
        self._known.pop(uri, None)
        self._kept.pop(uri, None)
        self._tokens.pop(uri, None)
