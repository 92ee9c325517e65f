"""Findings whose lines have moved, with the line numbers that their texts mention."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from nki_lab.diagnostic import Diagnostic, Related, Span

LineOf = Callable[[int], int]
_LINES: Final = re.compile(r"(?<=\blines )(\d+) to (\d+)|(?<=\bline )\d+")


def moved_finding(item: Diagnostic, line_of: LineOf, file: str) -> Diagnostic:
    """Return a finding with the lines of `file` mapped, in its places and in its texts."""
    return replace(
        item,
        span=moved_span(item.span, line_of, file),
        message=moved_text(item.message, line_of),
        note=moved_text(item.note, line_of),
        help=moved_text(item.help, line_of),
        related=tuple(
            Related(moved_text(other.message, line_of), moved_span(other.span, line_of, file)) for other in item.related
        ),
    )


def moved_span(span: Span | None, line_of: LineOf, file: str) -> Span | None:
    """Return a place with its lines mapped, if it is in `file`."""
    if span is None or span.file != file:
        return span
    return replace(span, line=line_of(span.line), end_line=line_of(span.end_line))


def moved_text(text: str, line_of: LineOf) -> str:
    """Return a text with the lines mapped that it mentions."""

    def number(found: re.Match[str]) -> str:
        if found[1]:
            return f"{line_of(int(found[1]))} to {line_of(int(found[2]))}"
        return str(line_of(int(found[0])))

    return _LINES.sub(number, text) if "line" in text else text
