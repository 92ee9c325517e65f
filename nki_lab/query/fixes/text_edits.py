"""The edits that make one text of another, as small as whole words allow."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from nki_lab.diagnostic import Span

Edit = tuple[Span, str]


def text_edits(old: Sequence[str], new: Sequence[str], file: str, above: int = 0) -> list[Edit]:
    """Return the edits that make the lines `new` of the lines `old`, below so many lines of the file.

    Lines have no line ends; edits of several lines end them with newline characters.
    """
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    found: list[Edit] = []
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            continue
        if end - start == last - first:
            for number in range(start, end):
                found += _edits(old[number], new[first + number - start], file, above + number)
        else:  # with the line above or below, so that a line that comes or goes takes its end along
            top = 1 if start else 0
            bottom = 0 if top else 1
            before = "\n".join(old[start - top : end + bottom])
            found += _edits(before, "\n".join(new[first - top : last + bottom]), file, above + start - top)
    return found


def _edits(old: str, new: str, file: str, above: int) -> Iterator[Edit]:
    """Yield the edit that makes one piece of another; it cuts no words."""
    if old == new:
        return
    start = _shared(old, new)
    while start and _is_word(old[start - 1 : start]) and (_is_word(old[start:][:1]) or _is_word(new[start:][:1])):
        start -= 1
    end = _shared(old[start:][::-1], new[start:][::-1])
    while end and _is_word(old[-end]) and (_is_word(old[:-end][-1:]) or _is_word(new[:-end][-1:])):
        end -= 1
    yield (
        Span(file, *_place(old, start, above), *_place(old, len(old) - end, above)),
        new[start : len(new) - end],
    )


def _shared(first: str, second: str) -> int:
    """Return how many characters two texts begin with in common."""
    length = min(len(first), len(second))
    return next((place for place in range(length) if first[place] != second[place]), length)


def _is_word(character: str) -> bool:
    return character.isidentifier() or character.isdigit()


def _place(text: str, offset: int, above: int) -> tuple[int, int]:
    """Return the 1-based line and column of an offset."""
    before = text[:offset]
    return above + before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
