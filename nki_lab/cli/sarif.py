"""Findings as SARIF 2.1.0, which code scanning services and editors read."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import quote

from nki_lab import codes
from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.own_faults import REPOSITORY
from nki_lab.printable import as_json, printable
from nki_lab.query import links
from nki_lab.query.fixes.quick_fixes import quick_fixes
from nki_lab.source_files import lines_of

JsonObject = dict[str, object]
Lines = Callable[[str], Sequence[str]]

_LEVELS: Final = {"error": "error", "warning": "warning", "information": "note", "hint": "note"}
_PROBLEMS: Final = {"error": "error", "warning": "warning", "information": "recommendation", "hint": "recommendation"}
"""Severities as GitHub's code scanning names them."""
_FINGERPRINT: Final = "nkiLab/v1"
_CELL: Final = re.compile(r"(?P<file>.+\.ipynb):cell (?P<number>\d+)", re.DOTALL)


def sarif(found: Sequence[Diagnostic], version: str, lines: Lines = lines_of) -> str:
    """The findings as one SARIF run.

    `lines` gives the lines of a file or of a notebook's cell, each with its end: fingerprints and fixes are made of
    them.
    """
    used = sorted({item.code for item in found})
    driver = {
        "name": "nki-lab",
        "semanticVersion": version,
        "informationUri": REPOSITORY,
        "rules": [_rule(code) for code in used],
    }
    results = [_result(item, used.index(item.code), lines) for item in found]
    for result, fingerprint in zip(results, _fingerprints(found, lines), strict=True):
        result["partialFingerprints"] = {_FINGERPRINT: fingerprint}
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"ROOT": {"uri": f"{Path.cwd().as_uri().rstrip('/')}/"}},
        "results": results,
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return as_json(log)


def _rule(code: str) -> JsonObject:
    entry = codes.get(code)
    return {
        "id": code,
        "name": entry.slug,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.body.partition("\n\n")[2].partition("\n\n")[0].replace("\n", " ").strip()},
        "help": {"text": entry.body, "markdown": entry.body},
        "helpUri": _page(code, entry.slug),
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
        "properties": {"tags": [entry.outcome], "problem.severity": _PROBLEMS[entry.severity]},
    }


def _page(code: str, slug: str) -> str:
    """Return the page of a code on the site, else in the repository: a report is read where no package lies."""
    link = links.code_link(code)
    return link if link.startswith("https://") else f"{REPOSITORY}/blob/main/nki_lab/codes/{slug}.md"


def _result(item: Diagnostic, index: int, lines: Lines) -> JsonObject:
    spans = [(part.span, part.message) for part in item.related if part.span is not None]
    spans += [(place, "the same here") for place in item.places]
    related = [
        {**_location(span), "id": number, "message": {"text": printable(message)}}
        for number, (span, message) in enumerate(spans, start=1)
    ]
    fixes = _fixes(item, lines)
    return {
        "ruleId": item.code,
        "ruleIndex": index,
        "level": _LEVELS[item.severity],
        "message": {"text": sentence(item)},
        "locations": [_location(item.span)] if item.span else [],
        **({"relatedLocations": related} if related else {}),
        **({"fixes": fixes} if fixes else {}),
    }


def _fixes(item: Diagnostic, lines: Lines) -> list[JsonObject]:
    """Return the edits that would mend a finding; none in a notebook, whose text is that of its JSON."""
    if item.span is None or cell_of(item.span):
        return []
    return [
        {
            "description": {"text": printable(fix.title)},
            "artifactChanges": [
                {
                    "artifactLocation": _artifact(item.file),
                    "replacements": [
                        {"deletedRegion": _region(span), "insertedContent": {"text": _encodable(text)}}
                        for span, text in fix.edits
                    ],
                }
            ],
        }
        for fix in quick_fixes(item, [line.rstrip("\r\n") for line in lines(item.file)])
        if all(span.file == item.file for span, _ in fix.edits)
    ]


def _encodable(text: str) -> str:
    """Return a text as it is, but for halves of surrogate pairs, which no JSON reader has to take."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _fingerprints(found: Sequence[Diagnostic], lines: Lines) -> Iterator[str]:
    """Yield a number for each finding that stays when lines are added elsewhere: of its code, its file, the text of its
    line, and its place among findings of equal ones.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for item in found:
        text = lines(item.file) if item.span else []
        line = text[item.line - 1].strip() if 0 < item.line <= len(text) else ""
        file = PurePath(from_here(physical(item.span))).as_posix() if item.span else ""
        key = (item.code, file, line)
        yield hashlib.sha256("\0".join((*key, str(seen[key]))).encode(errors="replace")).hexdigest()[:32]
        seen[key] += 1


def _location(span: Span) -> JsonObject:
    place: JsonObject = {"artifactLocation": _artifact(physical(span))}
    if not cell_of(span):  # a cell's lines are not lines of the file
        place["region"] = _region(span)
    return {"physicalLocation": place}


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": max(span.line, 1),
        "startColumn": max(span.column, 1),
        "endLine": max(span.end_line, 1),
        "endColumn": max(span.end_column, 1),
    }


def _artifact(file: str) -> dict[str, str]:
    inside = from_here(file)
    if PurePath(inside).is_absolute():
        try:
            return {"uri": Path(inside).as_uri()}
        except UnicodeEncodeError:  # no name of a file: of a text
            return {"uri": f"file://{_quoted(inside)}"}
    return {"uri": _quoted(inside), "uriBaseId": "ROOT"}


def _quoted(path: str) -> str:
    """Return a path as part of an address: its bytes, as the system has them."""
    text = PurePath(path).as_posix()
    try:
        return quote(text, errors="surrogateescape")
    except UnicodeEncodeError:  # no name of a file: of a text
        return quote(text, errors="backslashreplace")


def from_here(file: str) -> str:
    """A path as it is from the current folder, where it is in it."""
    if not PurePath(file).is_absolute():
        return os.path.normpath(file)
    try:
        return str(PurePath(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def physical(span: Span) -> str:
    """The file of a span; of a notebook's cell, the notebook."""
    found = _CELL.fullmatch(span.file)
    return found["file"] if found else span.file


def cell_of(span: Span) -> str:
    """`cell 3, line 2` of a span in a notebook's cell; empty for others."""
    found = _CELL.fullmatch(span.file)
    return f"cell {found['number']}, line {span.line}" if found else ""


def sentence(item: Diagnostic) -> str:
    """Return message, limit and help in one text, and the line in a notebook's cell."""
    cell = cell_of(item.span) if item.span else ""
    return printable("; ".join(filter(None, (item.message, item.limit, item.help))) + (f" ({cell})" if cell else ""))
