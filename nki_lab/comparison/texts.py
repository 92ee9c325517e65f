"""The lines of two versions of a text that belong together.

Lines are compared by their words, without indentation. Lines that both versions have once anchor the rest; lines that
moved are found by their content, lines that changed by likeness to those between the same neighbours. Exchanging the
versions gives the same pairs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

ALIKE: Final = 0.5
"""Lines with at least this share of common words are versions of one line."""

_MOST_PAIRS: Final = 40_000
"""Pairs of lines in a changed stretch that are compared by their words; in longer ones only equal lines pair."""
_MOST_CELLS: Final = 1_000_000
"""Pairs of lines in a stretch without anchors that are aligned; in longer ones only moved lines are found."""
_WORD: Final = re.compile(r"\w+")


class Stretch(NamedTuple):
    """Places of lines, `first` to before `end`, in the earlier and in the later version."""

    first: int
    end: int
    other_first: int
    other_end: int


def normal(line: str) -> str:
    """Return a line without indentation and repeated spaces."""
    return " ".join(line.split())


class Alignment(NamedTuple):
    """`pairs` has the number of the later line for each earlier one that it belongs to; lines count from 1.

    `moved` are the earlier lines of those pairs that do not stand in the order of the others.
    """

    pairs: dict[int, int]
    moved: frozenset[int]


def aligned(before: Sequence[str], after: Sequence[str]) -> Alignment:
    """Return the lines of two versions that belong together. Empty lines belong to none."""
    one, other = ([(number, normal(line)) for number, line in enumerate(text, 1)] for text in (before, after))
    one, other = ([pair for pair in lines if pair[1]] for lines in (one, other))
    texts, others = [text for _, text in one], [text for _, text in other]
    # In a fixed order, so that it does not matter which version is the earlier one.
    if texts <= others:
        pairs, moved = _pairs(texts, others)
    else:
        pairs, moved = ({b: a for a, b in part.items()} for part in _pairs(others, texts))
    return Alignment({one[a][0]: other[b][0] for a, b in pairs.items()}, frozenset(one[a][0] for a in moved))


def _pairs(one: list[str], other: list[str]) -> tuple[dict[int, int], dict[int, int]]:
    """Return all pairs, and of them those of lines that moved."""
    found = _in_order(one, other)
    stretches = list(_gaps(found, len(one), len(other)))
    moved = _moved(one, other, found)
    found |= moved
    taken = set(found.values())
    for stretch in stretches:
        rest = [place for place in range(stretch.first, stretch.end) if place not in found]
        others = [place for place in range(stretch.other_first, stretch.other_end) if place not in taken]
        found |= _alike(one, other, rest, others)
    return found, moved


def _in_order(one: list[str], other: list[str]) -> dict[int, int]:
    """Return equal lines that stand in the same order in both."""
    found: dict[int, int] = {}
    todo = [Stretch(0, len(one), 0, len(other))]
    while todo:
        first, end, other_first, other_end = todo.pop()
        while first < end and other_first < other_end and one[first] == other[other_first]:
            found[first] = other_first
            first, other_first = first + 1, other_first + 1
        while first < end and other_first < other_end and one[end - 1] == other[other_end - 1]:
            end, other_end = end - 1, other_end - 1
            found[end] = other_end
        if first == end or other_first == other_end:
            continue
        anchors = _anchors(one[first:end], other[other_first:other_end])
        if anchors:
            begin, other_begin = first, other_first
            for a, b in [*anchors, (end - first, other_end - other_first)]:
                todo.append(Stretch(begin, first + a, other_begin, other_first + b))
                begin, other_begin = first + a, other_first + b
        elif (end - first) * (other_end - other_first) <= _MOST_CELLS:
            matcher = SequenceMatcher(None, one[first:end], other[other_first:other_end], autojunk=False)
            for a, b, size in matcher.get_matching_blocks():
                found |= {first + a + step: other_first + b + step for step in range(size)}
    return found


def _anchors(one: list[str], other: list[str]) -> list[tuple[int, int]]:
    """Return the places of lines that both have once: the most of them that stand in the same order."""
    counts, others = Counter(one), Counter(other)
    place = {text: number for number, text in enumerate(other) if others[text] == 1}
    pairs = [(number, place[text]) for number, text in enumerate(one) if counts[text] == 1 and text in place]
    # The longest increasing run of places: by length, its smallest last place, and for each pair the one before it.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, b) in enumerate(pairs):
        length = bisect_left(ends, b)
        ends[length:], last[length:] = [b, *ends[length + 1 :]], [number, *last[length + 1 :]]
        before.append(last[length - 1] if length else -1)
    out: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        out.append(pairs[at])
        at = before[at]
    return out[::-1]


def _gaps(found: dict[int, int], count: int, others: int) -> Iterator[Stretch]:
    """Give the stretches between pairs of lines in the same order."""
    first = other_first = 0
    for a, b in [*sorted(found.items()), (count, others)]:
        if a > first and b > other_first:
            yield Stretch(first, a, other_first, b)
        first, other_first = a + 1, b + 1


def _moved(one: list[str], other: list[str], found: dict[int, int]) -> dict[int, int]:
    """Return equal lines that stand elsewhere, those that neither version has twice among its unpaired ones."""
    taken = set(found.values())
    rest = [place for place in range(len(one)) if place not in found]
    others = [place for place in range(len(other)) if place not in taken]
    counts, other_counts = Counter(one[place] for place in rest), Counter(other[place] for place in others)
    where = {other[place]: place for place in others if other_counts[other[place]] == 1}
    return {place: where[one[place]] for place in rest if counts[one[place]] == 1 and one[place] in where}


def _alike(one: list[str], other: list[str], rest: list[int], others: list[int]) -> dict[int, int]:
    """Return lines of a changed stretch that have many words in common, the most alike first."""
    if len(rest) * len(others) > _MOST_PAIRS:
        return {}
    words = {place: Counter(_WORD.findall(one[place])) for place in rest}
    other_words = {place: Counter(_WORD.findall(other[place])) for place in others}
    scores = []
    for number, a in enumerate(rest):
        for other_number, b in enumerate(others):
            total = words[a].total() + other_words[b].total()
            score = 2 * (words[a] & other_words[b]).total() / total if total else 0.0
            if score >= ALIKE:
                scores.append((-score, abs(number - other_number), a, b))
    found: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, a, b in sorted(scores):
        if a not in found and b not in taken:
            found[a] = b
            taken.add(b)
    return found
