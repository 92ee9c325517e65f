"""What stands under a `%%nki` cell: findings with their lines, and the runs. Text of users is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, Span, render
from nki_lab.magic.cell import Cell
from nki_lab.magic.runs import Runs
from nki_lab.source_files import line_of

_ORDER: Final = ("error", "warning", "information", "hint")
_WORDS: Final = {"error": "error", "warning": "warning", "information": "note", "hint": "hint"}
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


def bundle(text: str, html: str) -> dict[str, str]:
    """What a front end chooses from."""
    return {"text/plain": text, "text/html": f'<div class="nki-lab-cell"><style>{_style()}</style>{html}</div>'}


@cache
def _style() -> str:
    return (Path(__file__).parent / "shown.css").read_text(encoding="utf-8")


# -- findings ----------------------------------------------------------------------------------------------------------


def findings(
    found: Sequence[Diagnostic], cell: Cell, *, title: str = "", seconds: float | None = None
) -> dict[str, str]:
    """The findings, errors first, under a line that says how many there are, and how long looking for them took."""
    ordered = sorted(found, key=lambda item: _ORDER.index(item.severity))
    head = title or counts(found) or "Nothing found"
    checked = "" if seconds is None else f"checked in {seconds * 1e3:.0f} ms"
    shown, rest = ordered[:_MOST], len(ordered) - _MOST
    more = [f"and {rest} more"] if rest > 0 else []
    texts = [f"{item.severity}: {render(item)}" for item in shown]
    text = "\n\n".join([f"{head}{f'  ({checked})' if checked else ''}", *texts, *more])
    worst = ordered[0].severity if ordered else "information"
    strip = f'{_icon(worst)}<b>{escape(head)}</b><span class="brief">{escape(_brief(ordered, cell))}</span>'
    cards = "".join(_finding(item, cell) for item in shown)
    tail = "".join(f'<p class="quiet">{escape(item)}</p>' for item in more)
    html = f'<div class="card"><header>{strip}<span class="quiet">{escape(checked)}</span></header>{cards}{tail}</div>'
    return bundle(text, html)


def counts(found: Iterable[Diagnostic]) -> str:
    """ "1 error, 2 warnings"."""
    number = dict.fromkeys(_ORDER, 0)
    for item in found:
        number[item.severity] += 1
    return ", ".join(f"{number[kind]} {_WORDS[kind]}{'s' * (number[kind] > 1)}" for kind in _ORDER if number[kind])


def place(item: Diagnostic, cell: Cell) -> str:
    """Where a finding is: by line in the cell itself, else by file and line."""
    return _place(item.span, cell)


def _place(span: Span | None, cell: Cell) -> str:
    if span is None:
        return ""
    return f"line {span.line}" if span.file == cell.name else f"{span.file}, line {span.line}"


def _brief(ordered: Sequence[Diagnostic], cell: Cell) -> str:
    if not ordered:
        return ""
    where = place(ordered[0], cell)
    return f"{where}: {ordered[0].message}" if where else ordered[0].message


def _icon(severity: str) -> str:
    return f'<svg class="{severity}" viewBox="0 0 16 16" aria-label="{_WORDS[severity]}">{_ICONS[severity]}</svg>'


def _finding(item: Diagnostic, cell: Cell) -> str:
    where = f'<span class="quiet">{escape(place(item, cell))}</span><span class="code quiet">{escape(item.code)}</span>'
    title = f'<p class="title">{_icon(item.severity)}<span class="message">{escape(item.message)}</span>{where}</p>'
    said = [title, _source(item)]
    if item.note:
        said.append(f'<p class="more code">{escape(item.note)}</p>')
    for other in item.related:
        there = _place(other.span, cell)
        said.append(f'<p class="more">{escape(f"{other.message} ({there})" if there else other.message)}</p>')
    if item.limit:
        said.append(f'<p class="more"><span class="quiet">limit</span> {escape(item.limit)}</p>')
    if item.help:
        said.append(f'<p class="more"><span class="quiet">help</span> {escape(item.help)}</p>')
    return f"<section>{''.join(said)}</section>"


def _source(item: Diagnostic) -> str:
    """The line of a finding, with the part that it is about underlined."""
    if item.span is None:
        return ""
    text = line_of(item.span.file, item.span.line).rstrip("\r\n")
    if not text.strip():
        return ""
    first = item.span.column - 1
    last = item.span.end_column - 1 if item.span.end_line == item.span.line else len(text)
    before, part, after = text[:first].lstrip(), text[first : max(last, first + 1)], text[max(last, first + 1) :]
    marked = f'{escape(before)}<span class="mark {item.severity}">{escape(part)}</span>{escape(after)}'
    return f'<pre><span class="number">{item.span.line}</span>{marked}</pre>'


# -- runs --------------------------------------------------------------------------------------------------------------


def lines(runs: Runs, *, last: str = "") -> dict[str, str] | None:
    """A line for each run before the last, and for that one where `last` is given; None where there is nothing."""
    said = [*runs.lines]
    if runs.untold:
        said.append(f"and {runs.untold} more")
    said += [last] if last else []
    if not said:
        return None
    items = "".join(f"<li>{_line(item)}</li>" for item in said)
    return bundle("\n".join(said), f'<ul class="runs">{items}</ul>')


def _line(text: str) -> str:
    name, gap, rest = text.partition("  ")
    return f'<b>{escape(name)}</b> <span class="quiet">{escape(rest)}</span>' if gap else escape(text)


def nothing_called(names: Sequence[str], seconds: float) -> dict[str, str] | None:
    """What a cell that defines the kernels `names` and calls none says of itself."""
    if not names:
        return None
    what = ", ".join(names)
    call = "it" if len(names) == 1 else "one"
    said = f"The cell defines {what}. Call {call}, or give shapes to profile {call} without data."
    title = "No kernel was called."
    checked = f"checked in {seconds * 1e3:.0f} ms"
    html = (
        f'<p class="note">{_icon("information")}<span>{escape(title)}</span>'
        f'<span class="quiet">{escape(said)} {escape(checked)}</span></p>'
    )
    return bundle(f"{title} {said}  ({checked})", html)


def publish(shown: dict[str, Any] | None) -> None:
    """Put it under the cell."""
    if shown is not None:
        from IPython.display import display

        display(shown, raw=True)
