"""Hints of one kind in one file as one finding: 27 loops over `nl.affine_range` are one thing to know and to mend."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from nki_lab.diagnostic import Diagnostic

_MIGRATION = "NKI6"
"""The hundred of codes about dialects and migration."""


def grouped(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return findings, of the hints with one remedy in one file only the first, which has the places of the others.

    Hints are findings of that severity, and advice about dialects and migration. For what users see: fixes take the
    single findings.
    """
    groups: dict[Hashable, list[Diagnostic]] = {}
    for item in found:
        groups.setdefault(_kind(item), []).append(item)
    return [items[0] if len(items) == 1 else _joined(items) for items in groups.values()]


def _kind(item: Diagnostic) -> Hashable:
    is_hint = item.severity == "hint" or (item.outcome == "advice" and item.code.startswith(_MIGRATION))
    return (item.code, item.file, item.help, item.severity) if is_hint and item.span is not None else id(item)


def _joined(items: list[Diagnostic]) -> Diagnostic:
    """Return the first of several findings with the places of the others; what it says holds for all of them."""
    first = items[0]
    messages = dict.fromkeys(item.message for item in items)
    more = f" (and {len(messages) - 1} more of the kind)" * (len(messages) > 1)
    spans = [item.span for item in items[1:] if item.span is not None]
    return replace(first, message=f"{first.message}{more}", places=tuple(spans))
