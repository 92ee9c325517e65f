"""Near misses: which known names somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A help sentence naming the known spellings closest to `name`; empty where nothing is close."""
    return _nearest(str(name).casefold(), tuple(known))


@lru_cache(256)  # a loop comes to the same mistake in each of its iterations
def _nearest(name: str, known: tuple[str, ...]) -> str:
    import difflib  # only errors need it

    by_folded = {text.casefold(): text for text in known}
    close = difflib.get_close_matches(name, by_folded, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(by_folded[text] for text in close)}?" if close else ""
