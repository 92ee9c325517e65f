"""Findings that a comment on their line silences: `# nki: noqa`, or `# nki: noqa[NKI213, NKI3]` for some codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.source_files import line_of

ALWAYS_REPORTED: Final = frozenset({"NKI018", "NKI024", "NKI101", "NKI901"})
"""Findings about what could not be checked: no comment silences them, and no choice of codes leaves them out."""

_COMMENT: Final = re.compile(r"#\s*nki:\s*noqa(?:\s*\[(?P<codes>[^\]]*)\])?(?![\w\[])", re.IGNORECASE)
_STRING: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")


def apply_noqa(found: Iterable[Diagnostic], file: str, lines: Sequence[str]) -> list[Diagnostic]:
    """Return the findings that no comment silences; `lines` are those of `file`.

    A comment counts on the line where a finding begins and on the one where it ends, which is where a formatter leaves
    it when it breaks the line.
    """
    return [item for item in found if item.code in ALWAYS_REPORTED or not _is_silenced(item, file, lines)]


def _is_silenced(item: Diagnostic, file: str, lines: Sequence[str]) -> bool:
    span = item.span
    if span is None:
        return False
    return any(_silences(_line(span, number, file, lines), item.code) for number in {span.line, span.end_line})


def _line(span: Span, number: int, file: str, lines: Sequence[str]) -> str:
    if span.file != file:  # a module that the checked one takes kernels from
        return line_of(span.file, number)
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _silences(line: str, code: str) -> bool:
    return code.startswith(_silenced(line))


@lru_cache(maxsize=16)
def _silenced(line: str) -> tuple[str, ...]:
    """Return what the codes begin with that a comment on a line silences; long lines have many findings."""
    if "noqa" not in line.casefold():
        return ()
    found = _COMMENT.search(_STRING.sub("''", line))
    if found is None:
        return ()
    if found["codes"] is None:
        return ("",)
    return tuple(name for part in found["codes"].split(",") if (name := part.strip().upper()))
