"""The edits of `--fix` for one finding, which editors offer at its place.

Only the statement of the module that a finding is in is read and written, so that an answer takes milliseconds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.query.fixes.source_fixes import FIXABLE, fixed_part, has_rewriter, moved
from nki_lab.query.fixes.text_edits import Edit, text_edits
from nki_lab.source.trees import first_line

_OPENS: Final = re.compile(r"[^\W\d]\w*|@")
"""The first word of a statement at the left margin."""
_CONTINUES: Final = re.compile(r"(?:else|elif|except|finally)\b")


def exact_edits(found: Diagnostic, lines: Sequence[str]) -> list[Edit]:
    """Return the edits of `--fix` for a finding at all its places; none where that leaves it alone, or lacks libcst."""
    if found.code not in FIXABLE or found.span is None or not has_rewriter():
        return []
    known = tuple(lines)
    starts = _statements(known)
    by_statement: dict[tuple[int, int], list[Span]] = {}
    for place in (found.span, *found.places):
        if place.file == found.span.file and 0 < place.line <= len(known):
            by_statement.setdefault(_around(place.line, starts, len(known)), []).append(place)
    edits: list[Edit] = []
    for (first, last), places in by_statement.items():
        part = known[first - 1 : last]
        wanted = [moved(replace(found, span=place, places=()), 1 - first) for place in places]
        done = fixed_part("\n".join(part), wanted, "\n".join(known))
        if done is not None:
            edits += text_edits(part, done[0].split("\n"), found.span.file, first - 1)
    return edits


def title_of(edits: Sequence[Edit], lines: Sequence[str]) -> str:
    """Return what exact edits do, as an editor's menu says it."""
    span, text = edits[0]
    written = " ".join(text.split()).strip(" ,") or text.strip()
    if written:
        title = f"{'Add' if (span.line, span.column) == (span.end_line, span.end_column) else 'Write'} {written}"
    else:
        parts = list(lines[span.line - 1 : span.end_line])
        parts[-1] = parts[-1][: span.end_column - 1]
        parts[0] = parts[0][span.column - 1 :]
        title = f"Remove {' '.join(' '.join(parts).split()).strip(' ,')}"
    return title if len(edits) == 1 else f"{title} at all {len(edits)} places"


def _around(line: int, starts: Sequence[int], last: int) -> tuple[int, int]:
    """Return the first and the last line of the statement that a line is in."""
    above = [start for start in starts if start <= line]
    below = [start for start in starts if start > line]
    return above[-1] if above else 1, below[0] - 1 if below else last


@lru_cache(maxsize=4)
def _statements(lines: tuple[str, ...]) -> tuple[int, ...]:
    """Return the lines on which the statements of a module begin; by their looks where the text does not parse."""
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        opening = (number for number, line in enumerate(lines, 1) if _OPENS.match(line) and not _CONTINUES.match(line))
        return tuple(number for number in opening if number == 1 or not lines[number - 2].startswith("@"))
    return tuple(dict.fromkeys(first_line(node) for node in tree.body))
