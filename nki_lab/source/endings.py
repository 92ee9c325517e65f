"""Ends of texts in three quotes and of brackets that Python says are open, in lines of which it has read some."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

OPEN_TEXT: Final = "unterminated triple-quoted"
"""What Python says of a text in three quotes that does not end."""
NEVER_CLOSED: Final = re.compile(r"'(.)' was never closed")
"""What it says of a bracket that does not."""
BRACKET: Final = re.compile(r"[][(){}]")
OPENERS: Final = {")": "(", "]": "[", "}": "{"}
"""The brackets that the closing ones close."""

_LINES: Final = 400  # in which the end of a bracket is looked for,
_CHARACTERS: Final = 20_000  # as far as they are no more than these
_QUOTES: Final = re.compile(r"\'{3}|\"{3}")
_ESCAPED_OR_QUOTES: Final = re.compile(rf"\\.|{_QUOTES.pattern}")
_TOKEN: Final = re.compile(
    rf"#[^\n]*|({_QUOTES.pattern})(?:\\.|[^\\])*?\1|(['\"])(?:\\.|(?!\2)[^\\\n])*\2?|{BRACKET.pattern}", re.DOTALL
)
"""Comments, texts and brackets."""


def closing_line(lines: Sequence[str], line: int, failure: SyntaxError) -> tuple[int | None, bool]:
    """Return the line on which ends what a failure says is open on a line, both 0-based, and whether it is a bracket.

    None where a text in three quotes has no end; -1 where it is not known.
    """
    offset = max(0, (failure.offset or 1) - 1)
    if OPEN_TEXT in failure.msg:
        return _end_of_text(lines, line, offset), False
    if NEVER_CLOSED.match(failure.msg):
        text = "\n".join((lines[line][offset:], *lines[line + 1 : line + _LINES]))
        found = _end_of_bracket(text[:_CHARACTERS])
        return (line + found, True) if found >= 0 else (-1, False)
    return -1, False


def _end_of_text(lines: Sequence[str], line: int, offset: int) -> int | None:
    """Return the line on which a text in three quotes ends that begins at an offset of a line; None without an end."""
    opening = _QUOTES.search(lines[line], offset) or _QUOTES.search(lines[line])
    if opening is None:
        return None
    start = opening.end()
    for number in range(line, len(lines)):
        if any(found[0] == opening[0] for found in _ESCAPED_OR_QUOTES.finditer(lines[number], start)):
            return number
        start = 0
    return None


def _end_of_bracket(text: str) -> int:
    """Return the line of a text on which the bracket ends that the text begins with; -1 where others do not fit."""
    open_ones: list[str] = []
    for found in _TOKEN.finditer(text):
        opener = OPENERS.get(found[0])
        if opener is None and len(found[0]) == 1 and found[0] in "([{":
            open_ones.append(found[0])
        elif opener is not None:
            if not open_ones or open_ones.pop() != opener:
                return -1
            if not open_ones:
                return text.count("\n", 0, found.start())
    return -1
