"""The output below a `%%nki` cell: findings with their lines, and the runs. Text of users is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from IPython.display import display as draw

from nki_lab.diagnostic import Diagnostic, Span, render, shortened
from nki_lab.export.findings import by_severity, counts
from nki_lab.magic.cell import Cell
from nki_lab.magic.runs import Runs
from nki_lab.printable import escape, on_one_line
from nki_lab.source_files import line_of, shown_name

_NAMES: Final = {"error": "error", "warning": "warning", "information": "note", "hint": "hint"}
_MOST: Final = 20
"""Findings that are shown; of more there is a count."""

_ICONS: Final = {
    "error": '<path d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z"/>'
    '<path class="on" d="M5.5 5.5l5 5m0-5l-5 5" fill="none" stroke-width="1.6"/>',
    "warning": '<path d="M8 2 15 14.5H1z" fill="none" stroke-width="1.4" stroke-linejoin="round"/>'
    '<path d="M8 6.4v4M8 11.6v1.2" fill="none" stroke-width="1.4"/>',
    "information": '<circle cx="8" cy="8" r="6.3" fill="none" stroke-width="1.3"/>'
    '<path d="M8 7.2v4.3M8 4.4v1.4" fill="none" stroke-width="1.4"/>',
}
_ICONS["hint"] = _ICONS["information"]


Bundle = dict[str, object]
"""The forms of an output, by MIME type, from which a front end chooses."""


def bundle(text: str, html: str) -> Bundle:
    """Return the bundle of a text and of the HTML that shows the same."""
    return {"text/plain": text, "text/html": f'<div class="nki-lab-cell"><style>{_style()}</style>{html}</div>'}


@cache
def _style() -> str:
    return Path(__file__).with_name("display.css").read_text(encoding="utf-8")


# -- findings ----------------------------------------------------------------------------------------------------------


def findings(found: Sequence[Diagnostic], cell: Cell, *, title: str = "", seconds: float | None = None) -> Bundle:
    """Return the findings, errors first, under a line with their number and the time that the check took."""
    ordered = by_severity(found)
    head = title or counts(found, information="note") or "Nothing found"
    checked = "" if seconds is None else f"checked in {seconds * 1e3:.0f} ms"
    visible = ordered[:_MOST]
    more = [f"and {len(ordered) - _MOST} more"] if len(ordered) > _MOST else []
    texts = [f"{item.severity}: {render(item)}" for item in visible]
    text = "\n\n".join([f"{head}{f'  ({checked})' if checked else ''}", *texts, *more])
    worst = ordered[0].severity if ordered else "information"
    brief = _at(ordered[0].span, cell, "{place}: {message}", ordered[0].message) if ordered else ""
    strip = f'{_icon(worst)}<b>{escape(head)}</b><span class="brief">{escape(brief)}</span>'
    cards = "".join(_finding(item, cell) for item in visible)
    tail = "".join(f'<p class="quiet">{escape(item)}</p>' for item in more)
    html = f'<div class="card"><header>{strip}<span class="quiet">{escape(checked)}</span></header>{cards}{tail}</div>'
    return bundle(text, html)


def place(span: Span | None, cell: Cell) -> str:
    """Return the place of a finding: its line in the cell itself, else file and line."""
    if span is None:
        return ""
    return f"line {span.line}" if span.file == cell.name else f"{shown_name(span.file)}, line {span.line}"


def _at(span: Span | None, cell: Cell, form: str, message: str) -> str:
    """Return a message with its place, where it has one."""
    where = place(span, cell)
    return form.format(place=where, message=message) if where else message


def headline(item: Diagnostic, cell: Cell) -> str:
    """Return code, message and place of a finding in one line."""
    return _at(item.span, cell, "{message} ({place})", f"{item.code} {item.message}")


def _icon(severity: str) -> str:
    return f'<svg class="{severity}" viewBox="0 0 16 16" aria-label="{_NAMES[severity]}">{_ICONS[severity]}</svg>'


def _finding(item: Diagnostic, cell: Cell) -> str:
    at, code = escape(place(item.span, cell)), escape(item.code)
    where = f'<span class="quiet">{at}</span><span class="code quiet">{code}</span>'
    title = f'<p class="title">{_icon(item.severity)}<span class="message">{escape(item.message)}</span>{where}</p>'
    parts = [title, _source(item)]
    if item.note:
        parts.append(f'<p class="more code">{escape(item.note)}</p>')
    related = (_at(part.span, cell, "{message} ({place})", part.message) for part in shortened(item.related))
    parts += [f'<p class="more">{escape(text)}</p>' for text in related]
    parts += [
        f'<p class="more"><span class="quiet">{label}</span> {escape(text)}</p>'
        for label, text in (("limit", item.limit), ("help", item.help))
        if text
    ]
    return f"<section>{''.join(parts)}</section>"


def _source(item: Diagnostic) -> str:
    """Return the line of a finding, with the part that it is about underlined."""
    if item.span is None:
        return ""
    text = line_of(item.span.file, item.span.line).rstrip("\r\n")
    if not text.strip():
        return ""
    first = item.span.column - 1
    end = max(item.span.end_column - 1 if item.span.end_line == item.span.line else len(text), first + 1)
    before, part, after = (on_one_line(piece) for piece in (text[:first].lstrip(), text[first:end], text[end:]))
    marked = f'{escape(before)}<span class="mark {item.severity}">{escape(part)}</span>{escape(after)}'
    return f'<pre><span class="number">{item.span.line}</span>{marked}</pre>'


# -- runs --------------------------------------------------------------------------------------------------------------


def lines(runs: Runs, *, last: str = "") -> Bundle | None:
    """Return a line for each run that is not drawn, and `last` for the last one; None where there is nothing."""
    texts = [*runs.lines, *([f"and {runs.unlisted} more"] if runs.unlisted else []), *([last] if last else [])]
    items = "".join(f"<li>{_line(item)}</li>" for item in texts)
    return bundle("\n".join(texts), f'<ul class="runs">{items}</ul>') if texts else None


def _line(text: str) -> str:
    name, gap, rest = text.partition("  ")
    return f'<b>{escape(name)}</b> <span class="quiet">{escape(rest)}</span>' if gap else escape(text)


def nothing_called(names: Sequence[str], seconds: float) -> Bundle | None:
    """Return the note of a cell that defines the kernels `names` and calls none."""
    if not names:
        return None
    call = "it" if len(names) == 1 else "one"
    advice = f"The cell defines {', '.join(names)}. Call {call}, or give shapes to profile {call} without data."
    title, checked = "No kernel was called.", f"checked in {seconds * 1e3:.0f} ms"
    quiet = f'<span class="quiet">{escape(advice)} {escape(checked)}</span>'
    html = f'<p class="note">{_icon("information")}<span>{escape(title)}</span>{quiet}</p>'
    return bundle(f"{title} {advice}  ({checked})", html)


def publish(bundle: Mapping[str, object] | None) -> None:
    """Display a bundle under the cell."""
    if bundle is not None:
        draw(dict(bundle), raw=True)
