"""Between the editor's protocol and ours: positions in code units, findings, severities."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from lsprotocol import types as lsp

from nki_lab import codes
from nki_lab.diagnostic import Diagnostic, Related, Span, shortened
from nki_lab.printable import printable
from nki_lab.query.links import code_link

SOURCE: Final = "nki-lab"
LINE_END: Final = re.compile(r"\r\n|\n|\r")
"""The line ends of the protocol, and of Python."""

_ENCODINGS: Final = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_UNIT_BYTES: Final = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
_DEPRECATED: Final = ("NKI601", "NKI602", "NKI603", "NKI604")
"""Findings about deprecated spellings, which editors strike through."""


def to_units(line: str, column: int, encoding: str) -> int:
    """Return the code units before the 0-based character `column` of a line."""
    before = line[: max(0, column)]
    if before.isascii():
        return len(before)
    return len(before.encode(_ENCODINGS[encoding], "surrogatepass")) // _UNIT_BYTES[encoding]


def from_units(line: str, units: int, encoding: str) -> int:
    """Return the 0-based character that `units` code units stand before; inside a character its start, beyond the end
    that.
    """
    if line.isascii():
        return min(max(0, units), len(line))
    left = units
    for column, character in enumerate(line):
        left -= len(character.encode(_ENCODINGS[encoding], "surrogatepass")) // _UNIT_BYTES[encoding]
        if left < 0:
            return column
    return len(line)


def range_of(span: Span, line_text: Callable[[int], str], encoding: str) -> lsp.Range:
    """Return the range of a span, whose lines are those of one document; `line_text` gives a 1-based line."""
    start = lsp.Position(span.line - 1, to_units(line_text(span.line), span.column - 1, encoding))
    end = lsp.Position(span.end_line - 1, to_units(line_text(span.end_line), span.end_column - 1, encoding))
    return lsp.Range(start, max(start, end, key=lambda place: (place.line, place.character)))


Place = Callable[[Span], lsp.Location | None]
"""Gives the place of a span in the editor's documents; None where no document has it."""


def diagnostic_of(
    found: Diagnostic, place: Place, *, related: bool, linked: bool = False
) -> tuple[str, lsp.Diagnostic] | None:
    """Return the URI of a finding's document, and the finding as an editor shows it; None where no document has its
    place.

    With `related` other places are handed over as such, else they are sentences of the message; with `linked` the code
    is a link to its page.
    """
    where = place(found.span) if found.span is not None else None
    if where is None:
        return None
    others: list[lsp.DiagnosticRelatedInformation] = []
    parts = [found.message, found.note]
    for item in shortened((*found.related, *(Related("here too", span) for span in found.places))):
        location = place(item.span) if item.span is not None and related else None
        if location is not None:
            others.append(lsp.DiagnosticRelatedInformation(location, printable(item.message)))
        else:
            parts.append(item.message + (f" (line {item.span.line})" if item.span is not None else ""))
    parts += [f"limit: {found.limit}" if found.limit else "", f"help: {found.help}" if found.help else ""]
    return where.uri, lsp.Diagnostic(
        range=where.range,
        message=printable("\n".join(part for part in parts if part)),
        severity=lsp.DiagnosticSeverity[found.severity.capitalize()],
        code=found.code,
        code_description=lsp.CodeDescription(code_link(found.code)) if linked else None,
        source=SOURCE,
        tags=[lsp.DiagnosticTag.Deprecated] if found.code in _DEPRECATED else None,
        related_information=others or None,
        data={"code": found.code, "title": codes.get(found.code).title},
    )


def at_import(found: Diagnostic, file: str) -> Diagnostic:
    """Return a finding in a module that `file` imports, at the place in `file` that leads there; others as they are."""
    span = found.span
    if span is None or span.file == file:
        return found
    origin = next((item for item in found.related if item.span is not None and item.span.file == file), None)
    if origin is None:
        return found
    others = [item for item in found.related if item is not origin]
    message = f"{found.message} ({Path(span.file).name}, line {span.line})"
    return replace(found, span=origin.span, message=message, related=(Related("it is found here", span), *others))


def replace_range(lines: list[str], where: lsp.Range, text: str, encoding: str) -> None:
    """Replace what stands between two positions, in lines with their ends. Positions outside are drawn in.

    Only the lines between and beside them are looked at: an editor that replaces a name sends a change for each place.
    """
    one, other = (_drawn_in(lines, place, encoding) for place in (where.start, where.end))
    (first, start), (last, end) = min(one, other), max(one, other)
    new = lines[first][:start] + text + lines[last][end:]
    if first and lines[first - 1].endswith("\r"):  # a line feed that is typed behind it belongs to it
        first -= 1
        new = lines[first] + new
    if last + 1 < len(lines):
        last += 1
        new += lines[last]
    lines[first : last + 1] = ended_lines(new)[: None if last + 1 == len(lines) else -1]


def _drawn_in(lines: list[str], place: lsp.Position, encoding: str) -> tuple[int, int]:
    """Return the 0-based line and character of a position; a place outside of the text is drawn in."""
    if place.line >= len(lines):
        return len(lines) - 1, len(lines[-1])
    return place.line, from_units(lines[place.line].rstrip("\r\n"), place.character, encoding)


def ended_lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; the last one has none."""
    if "\r" in text:
        starts = [0, *(found.end() for found in LINE_END.finditer(text))]
        return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    lines = text.split("\n")
    return [*(line + "\n" for line in lines[:-1]), lines[-1]]


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without their ends."""
    return LINE_END.split(text) if "\r" in text else text.split("\n")


def plain(value: object) -> object:
    """Return a client's settings as dictionaries: the protocol's library hands out objects."""
    if hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
