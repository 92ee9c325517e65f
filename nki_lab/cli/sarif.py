"""Findings as SARIF 2.1.0, which code scanning services and editors read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import quote

from nki_lab import codes
from nki_lab.diagnostic import Diagnostic, Span

JsonObject = dict[str, object]

_LEVELS: Final = {"error": "error", "warning": "warning", "information": "note", "hint": "note"}
_CELL: Final = re.compile(r"(?P<file>.+\.ipynb):cell (?P<number>\d+)", re.DOTALL)


def sarif(found: Sequence[Diagnostic], version: str) -> str:
    """The findings as one SARIF run."""
    used = sorted({item.code for item in found})
    driver = {"name": "nki-lab", "semanticVersion": version, "rules": [_rule(code) for code in used]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"ROOT": {"uri": f"{Path.cwd().as_uri().rstrip('/')}/"}},
        "results": [_result(item, used.index(item.code)) for item in found],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1)


def _rule(code: str) -> JsonObject:
    entry = codes.get(code)
    return {
        "id": code,
        "name": entry.slug,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.body.partition("\n\n")[2].partition("\n\n")[0].replace("\n", " ").strip()},
        "help": {"text": entry.body, "markdown": entry.body},
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
    }


def _result(item: Diagnostic, index: int) -> JsonObject:
    result: JsonObject = {
        "ruleId": item.code,
        "ruleIndex": index,
        "level": _LEVELS[item.severity],
        "message": {"text": sentence(item)},
        "locations": [_location(item.span)] if item.span else [],
    }
    spans = [(part.span, part.message) for part in item.related if part.span is not None]
    related = [
        {**_location(span), "id": number, "message": {"text": message}}
        for number, (span, message) in enumerate(spans, start=1)
    ]
    return {**result, "relatedLocations": related} if related else result


def _location(span: Span) -> JsonObject:
    place: JsonObject = {"artifactLocation": _artifact(physical(span))}
    if not cell_of(span):  # a cell's lines are not lines of the file
        place["region"] = {
            "startLine": max(span.line, 1),
            "startColumn": max(span.column, 1),
            "endLine": max(span.end_line, 1),
            "endColumn": max(span.end_column, 1),
        }
    return {"physicalLocation": place}


def _artifact(file: str) -> dict[str, str]:
    inside = from_here(file)
    if PurePath(inside).is_absolute():
        return {"uri": Path(inside).as_uri()}
    return {"uri": quote(PurePath(inside).as_posix(), errors="replace"), "uriBaseId": "ROOT"}


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
    return "; ".join(filter(None, (item.message, item.limit, item.help))) + (f" ({cell})" if cell else "")
