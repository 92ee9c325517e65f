"""Lines of source of two recordings, numbered together: a line and its later version have one number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PureWindowsPath
from typing import Final, Literal

import numpy as np

from nki_lab.comparison.texts import Alignment, aligned, normal
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole

State = Literal["same", "changed", "moved", "only before", "only after"]

NO_LINE: Final = 0
"""The number of rows without a place in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of source before and after; a line number of 0 says that the version has no such line."""

    file: str
    line: int
    text: str
    other_file: str
    other_line: int
    other_text: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """The lines of two recordings.

    `places` are lines from which rows come in one of them; number n is `places[n - 1]`. `before` and `after` give the
    number of each site, and at their end that of rows without one. `edits` are all lines of the compared files that
    differ; comments and empty lines do not count. `by_number` is true where lines pair by their numbers, because a
    file's text is not recorded.
    """

    places: tuple[Place, ...]
    before: Array
    after: Array
    edits: tuple[Place, ...]
    by_number: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A source file: its lines, and how many sites are in it."""

    number: int
    path: str
    lines: tuple[str, ...]
    sites: int

    @property
    def name(self) -> str:
        return PureWindowsPath(self.path).name  # which takes slashes too: recordings come from other systems

    def text(self, line: int, end: int = 0) -> str:
        """The statement from a line to another one, in one line."""
        return normal(" ".join(self.lines[line - 1 : max(line, end)])) if 0 < line <= len(self.lines) else ""


def places_of(before: Recording, after: Recording) -> Places:
    """Pair the lines of two recordings' sources."""
    one, other = _sources(before), _sources(after)
    partner = _partners(one, other)
    alignments = {
        number: aligned(one[number].lines, other[mate].lines)
        for number, mate in partner.items()
        if one[number].lines and other[mate].lines
    }
    lines = {source: found.pairs for source, found in alignments.items()}
    back = {partner[source]: {later: line for line, later in pairs.items()} for source, pairs in lines.items()}
    backwards = {mate: source for source, mate in partner.items()}
    extents, other_extents = _extents(before), _extents(after)
    numbers: dict[tuple[int, int], int] = {}
    other_numbers: dict[tuple[int, int], int] = {}
    found: list[Place] = []
    for (source, line), end in extents.items():
        numbers[source, line] = len(found) + 1
        mate = partner.get(source)
        later = 0 if mate is None else _version(one[source], other[mate], lines.get(source, {}), line)
        if mate is None or not later:
            found.append(_place(one[source], line, end, None, 0, 0))
        else:
            other_numbers[mate, later] = len(found) + 1
            later_end = other_extents.get((mate, later), later + end - line)
            found.append(_place(one[source], line, end, other[mate], later, later_end))
    for (source, line), end in other_extents.items():
        if (source, line) in other_numbers:
            continue
        other_numbers[source, line] = len(found) + 1
        mate = backwards.get(source)
        earlier = 0 if mate is None else _version(other[source], one[mate], back.get(source, {}), line)
        if mate is None or not earlier:
            found.append(_place(None, 0, 0, other[source], line, end))
        else:
            found.append(_place(one[mate], earlier, earlier + end - line, other[source], line, end))
    return Places(
        places=tuple(found),
        before=_numbers(before, numbers),
        after=_numbers(after, other_numbers),
        edits=tuple(_edits(one, other, partner, alignments)),
        by_number=any(source not in lines for source in partner),
    )


def _sources(recording: Recording) -> list[_Source]:
    sites = Counter(whole(recording.table("sites")["source"]).tolist())
    texts = zip(recording.texts("sources", "path"), recording.texts("sources", "text"), strict=True)
    return [
        _Source(number=number, path=path, lines=tuple(text.splitlines()), sites=sites[number])
        for number, (path, text) in enumerate(texts)
    ]


def _partners(one: Sequence[_Source], other: Sequence[_Source]) -> dict[int, int]:
    """Return the later version of each file: of the same path, else the one with most lines in common, else of the
    same name; where one file is left on either side, these two.
    """
    paths = {source.path: source.number for source in other}
    found = {source.number: paths[source.path] for source in one if source.path in paths}

    def left() -> tuple[list[_Source], list[_Source]]:
        mates = set(found.values())
        rest = [source for source in one if source.number not in found and source.sites]
        return rest, [source for source in other if source.number not in mates and source.sites]

    contents = {
        (side, source.number): Counter(filter(None, map(normal, source.lines)))
        for side, sources in enumerate(left())
        for source in sources
    }
    scores: list[tuple[float, bool, str, str, int, int]] = []
    for a in left()[0]:
        for b in left()[1]:
            common = (contents[0, a.number] & contents[1, b.number]).total()
            score = 2 * common / max(1, contents[0, a.number].total() + contents[1, b.number].total())
            if score or a.name == b.name:
                paths_of_both = min(a.path, b.path), max(a.path, b.path)
                scores.append((-score, a.name != b.name, *paths_of_both, a.number, b.number))
    for *_, number, mate in sorted(scores):
        if number not in found and mate not in found.values():
            found[number] = mate
    rest, others = left()
    if len(rest) == len(others) == 1:
        found[rest[0].number] = others[0].number
    return found


def _version(source: _Source, mate: _Source, pairs: Mapping[int, int], line: int) -> int:
    """Return the other version of a line; 0 where there is none. Lines without a text pair by their numbers."""
    if line in pairs:
        return pairs[line]
    is_known = source.lines and mate.lines and (source.text(line) or mate.text(line))
    return 0 if is_known else line


def _extents(recording: Recording) -> dict[tuple[int, int], int]:
    """Return the lines that rows come from, each with the last line of its statement."""
    sites = recording.table("sites")
    used = np.zeros(len(sites) + 1, bool)
    used[whole(recording.rows["site"])] = True  # -1 is the last place
    columns = (whole(sites[name])[used[:-1]].tolist() for name in ("source", "line", "end_line"))
    ends: dict[tuple[int, int], int] = {}
    for source, line, end in zip(*columns, strict=True):
        ends[source, line] = max(end, line, ends.get((source, line), 0))
    return dict(sorted(ends.items()))


def _numbers(recording: Recording, numbers: Mapping[tuple[int, int], int]) -> Array:
    """Return the number of each site's line, and at the end that of rows without a site."""
    sites = recording.table("sites")
    keys = zip(whole(sites["source"]).tolist(), whole(sites["line"]).tolist(), strict=True)
    return np.array([*(numbers.get(key, NO_LINE) for key in keys), NO_LINE], np.int64)


def _place(one: _Source | None, line: int, end: int, other: _Source | None, later: int, later_end: int) -> Place:
    text = "" if one is None else one.text(line, end)
    other_text = "" if other is None else other.text(later, later_end)
    state: State = "only after" if one is None else "only before" if other is None else "same"
    if one is not None and other is not None and one.lines and other.lines and text != other_text:
        state = "changed"
    return Place(
        file="" if one is None else one.path,
        line=line,
        text=text,
        other_file="" if other is None else other.path,
        other_line=later,
        other_text=other_text,
        state=state,
    )


def _edits(
    one: Sequence[_Source],
    other: Sequence[_Source],
    partner: Mapping[int, int],
    alignments: Mapping[int, Alignment],
) -> Iterator[Place]:
    """Give the lines of paired files that differ or moved, in order of the later version."""
    for source, (pairs, moved) in alignments.items():
        before, after = one[source], other[partner[source]]
        found = [_place(before, line, line, after, later, later) for line, later in pairs.items()]
        found = [replace(place, state="moved") if place.line in moved else place for place in found]
        later_lines = set(pairs.values())
        found += [_place(before, n, n, None, 0, 0) for n in range(1, len(before.lines) + 1) if n not in pairs]
        found += [_place(None, 0, 0, after, n, n) for n in range(1, len(after.lines) + 1) if n not in later_lines]
        edits = [item for item in found if item.state != "same" and (_counts(item.text) or _counts(item.other_text))]
        yield from sorted(edits, key=lambda item: (item.other_line or item.line, item.line))


def _counts(text: str) -> bool:
    """Whether a line is more than a comment."""
    return bool(text) and not text.startswith("#")
