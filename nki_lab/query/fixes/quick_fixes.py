"""Edits that would mend a finding: the text that its help names, and its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.isa.spec import TABLE
from nki_lab.isa.spelling import meant
from nki_lab.kernel_runtime.issue.legality import operators_of
from nki_lab.kernel_runtime.language.control import DEPRECATED
from nki_lab.query.fixes.exact_fix import exact_edits, title_of
from nki_lab.query.fixes.shape_annotations import shape_annotations
from nki_lab.rules.deprecations import RANGES

_WORD: Final = re.compile(r"[^\W\d]\w*")
_IDENTITY: Final = re.compile(r"\bis(\s+not)?\b")
_BOUND: Final = re.compile(r"^\s*range\s*=[^=]|\b(?:def|class|as|import)\s+range\b", re.MULTILINE)
_RANGE: Final = re.compile(r"[\w.]+\(([^()=]|\([^()=]*\))*\)")
"""A call on one line whose arguments are positional."""
_CLOSE: Final = 0.5
_LOOP: Final = re.compile(r"\bfor\b.*\bin\s+$")
_OPERAND: Final = re.compile(r"\b(\w+)\s*=\s*$")
_CALL: Final = re.compile(r"\b(\w+)\(")
_ANNOTATE: Final = "Annotate the tensors of the kernels with shapes (edit the numbers)"


@dataclass(frozen=True, slots=True)
class QuickFix:
    """An edit: `text` in the place of `span`, together with `more` edits of other places.

    It is `sure` where nothing else could be meant.
    """

    title: str
    span: Span
    text: str
    sure: bool
    more: tuple[tuple[Span, str], ...] = ()

    @property
    def edits(self) -> tuple[tuple[Span, str], ...]:
        """Return all places with their new texts."""
        return ((self.span, self.text), *self.more)


def quick_fixes(found: Diagnostic, lines: Sequence[str]) -> tuple[QuickFix, ...]:
    """Return the edits that would mend a finding in a text of these lines, the likeliest first; none for most
    findings. Those of `--fix` come before guesses.
    """
    span = found.span
    if span is None or not 0 < span.line <= len(lines):
        return ()
    exact = exact_edits(found, lines)
    if exact:
        return (QuickFix(title_of(exact, lines), *exact[0], True, tuple(exact[1:])),)
    if found.code == "NKI110":
        return _compared(span, lines)
    if found.code == "NKI127":
        return _ranges(found, span, lines)
    if found.code == "NKI114":
        return _tuple(span, lines)
    if found.code == "NKI121":
        edits = shape_annotations(found, lines)
        return tuple(QuickFix(_ANNOTATE, *edits[0], False, tuple(edits[1:])) for _ in edits[:1])
    line, options = lines[span.line - 1], meant(found.help)
    if not options:
        return ()
    fitting = _fitting(line[: span.column - 1], options) if found.code == "NKI006" else options
    return _respelt(found, span, line, fitting or options)


def _fitting(before: str, options: list[str]) -> list[str]:
    """Return the names that may stand after a text: ranges in a loop, operators where an operand is one."""
    if _LOOP.search(before):
        return [name for name in options if name in RANGES or name in DEPRECATED]
    operand = _OPERAND.search(before)
    if operand is None:
        return options
    called = [TABLE[name] for name in _CALL.findall(before) if name in TABLE]
    taking = [item for item in called[-1:] or TABLE.values() if operand[1] in item.arguments]
    taken = [operators_of(item.arguments[operand[1]]) for item in taking]
    return [name for name in options if any(name in known for known in taken)] if taken and all(taken) else options


def _respelt(found: Diagnostic, span: Span, line: str, options: list[str]) -> tuple[QuickFix, ...]:
    """Return the word that the message complains about, as it is spelt right: in the place of the finding, or before
    it.
    """
    words = [word for word in _WORD.findall(found.message) if word not in options]
    ranked = sorted(set(words), key=lambda word: -difflib.SequenceMatcher(None, word, options[0]).ratio())
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    for word in ranked:
        if difflib.SequenceMatcher(None, word.casefold(), options[0].casefold()).ratio() < _CLOSE:
            break
        places = [item for item in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", line) if item.end() <= end]
        if places:
            where, sure = _span_of(places[-1], span), len(options) == 1
            return tuple(QuickFix(f"Change {word} to {option}", where, option, sure) for option in options)
    return ()


def _compared(span: Span, lines: Sequence[str]) -> tuple[QuickFix, ...]:
    text = lines[span.line - 1][: span.end_column - 1]
    places = list(_IDENTITY.finditer(text, span.column - 1))
    if span.end_line != span.line or len(places) != 1:
        return ()
    sign = "!=" if places[0][1] else "=="
    return (QuickFix(f"Compare with {sign}", _span_of(places[0], span), sign, True),)


def _ranges(found: Diagnostic, first: Span, lines: Sequence[str]) -> tuple[QuickFix, ...]:
    """Return the edit that writes `range` at all places of a finding where that is the same loop."""
    places = [
        place
        for place in (first, *found.places)
        if place.line <= len(lines) and _RANGE.match(lines[place.line - 1], place.column - 1)
    ]
    if not places or _BOUND.search("\n".join(lines)):
        return ()
    title = "Write range" if len(places) == 1 else f"Write range at all {len(places)} places"
    return (QuickFix(title, places[0], "range", True, tuple((place, "range") for place in places[1:])),)


def _span_of(found: re.Match[str], around: Span) -> Span:
    return Span(around.file, around.line, found.start() + 1, around.line, found.end() + 1)


def _tuple(span: Span, lines: Sequence[str]) -> tuple[QuickFix, ...]:
    text = lines[span.line - 1][span.column - 1 : span.end_column - 1]
    if span.end_line != span.line or not (text.startswith("[") and text.endswith("]")) or " for " in text:
        return ()
    inner = text[1:-1].strip()
    comma = "," if inner and "," not in inner else ""
    return (QuickFix("Write a tuple", span, f"({inner}{comma})", True),)
