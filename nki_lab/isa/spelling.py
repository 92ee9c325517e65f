"""Near misses: which known names somebody may have meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import chain
from typing import Final

_SENTENCE: Final = re.compile(r"did you mean (.+)\?")


LONGEST_COMPARED: Final = 200
"""Characters of a misspelt name; no known spelling is close to a longer one, and looking takes long."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A help sentence naming the known spellings closest to `name`; empty where nothing is close."""
    text = str(name)
    return _nearest(text.casefold(), tuple(known)) if len(text) <= LONGEST_COMPARED else ""


MOST_COMPARED: Final = 20_000
"""Names that are compared for the mistakes of one run, about half a second: thousands of mistakes among as many names
would take minutes.
"""


class NearMisses:
    """Finds what may be meant by the misspelt names of one run; nothing after `MOST_COMPARED` comparisons."""

    def __init__(self) -> None:
        self._left = MOST_COMPARED

    def did_you_mean(self, name: str, *known: Collection[str]) -> str:
        """Return the sentence about a name of which several tables have the right spelling."""
        self._left -= sum(map(len, known))
        return did_you_mean(name, chain(*known)) if self._left >= 0 else ""


@lru_cache(256)  # a loop comes to the same mistake in each of its iterations
def _nearest(name: str, known: tuple[str, ...]) -> str:
    import difflib  # only errors need it

    by_folded = {text.casefold(): text for text in known}
    close = difflib.get_close_matches(name, by_folded, n=3, cutoff=0.6)
    *others, last = (by_folded[text] for text in close) if close else ("",)
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if close else ""


def meant(sentence: str) -> list[str]:
    """Return the spellings that a sentence of `did_you_mean` names; none of another text."""
    found = _SENTENCE.fullmatch(sentence)
    return re.split(", | or ", found[1]) if found else []
