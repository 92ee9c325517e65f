"""A comparison as HTML: tables for notebooks, and a page that draws both runs and needs nothing else."""

from __future__ import annotations

import os
from typing import Final

from nki_lab.comparison.compared import Compared
from nki_lab.export.comparison.message import Sides, encode
from nki_lab.export.comparison.sentence import headline, notes, side_name
from nki_lab.export.comparison.tables import Table, legend, tables
from nki_lab.export.files import replacing
from nki_lab.export.html import CLOSING, POLICY, STYLE, text_of
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.printable import escape
from nki_lab.wire import CHUNK, RANGE, WHOLE, Messages, script

MESSAGE_CLASS: Final = "nki-lab-compared"
"""The class of elements with messages; `data-of` says what one is of: the comparison, or the run before or after."""
_QUIET: Final = "color:#767676"
_SLOWER: Final = "color:light-dark(#b3261e,#ff8a80)"
_FASTER: Final = "color:light-dark(#1a7f37,#57d364)"


def fragment(found: Compared) -> str:
    """Return the comparison for a place in a page. Styles stand at the elements: some pages drop style sheets."""
    shown = tables(found)
    said = "".join(f'<div style="{_QUIET}">{escape(note)}</div>' for note in notes(found))
    sides = (
        f"<div><b>before</b> {escape(side_name(found.before))}</div>"
        f"<div><b>after</b> {escape(side_name(found.after))}</div>"
    )
    body = "".join(map(_table, shown))
    tail = "".join(f'<div style="{_QUIET}">{escape(line)}</div>' for line in legend(shown))
    return (
        '<div class="nki-lab-comparison" style="line-height:1.5;max-width:1200px;overflow-x:auto">'
        f'<div style="font-weight:600">{escape(headline(found))}</div>{said}{sides}{body}{tail}</div>'
    )


def _table(table: Table) -> str:
    head = "".join(_cell("th", text, n in table.left, "") for n, text in enumerate(table.header))
    rows = []
    for number, row in enumerate(table.rows):
        colour = _SLOWER if number in table.slower else _FASTER if number in table.faster else ""
        change = table.header.index("change") if colour else -1
        cells = (_cell("td", text, n in table.left, colour if n == change else "") for n, text in enumerate(row))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = f'<caption style="text-align:left;font-weight:600">{escape(table.title)}</caption>' if table.title else ""
    return (
        '<table style="border-collapse:collapse;margin:12px 0;font-variant-numeric:tabular-nums">'
        f"{caption}<tr>{head}</tr>{''.join(rows)}</table>"
    )


def _cell(kind: str, text: str, left: bool, colour: str) -> str:
    scope = ' scope="col"' if kind == "th" else ""
    align = "left" if left else "right"
    style = f"text-align:{align};padding:2px 8px;white-space:nowrap{f';{colour}' if colour else ''}"
    return f'<{kind}{scope} style="{style}">{escape(text)}</{kind}>'


def page(found: Compared, before: Recording, after: Recording) -> str:
    """Return the comparison of two recordings as a page: the views, both runs, and the tables where no scripts run.

    Of a run of more than a million rows it carries the first rows, and sums of all.
    """
    title = (
        f"{found.before.kernel} and {found.after.kernel}" if not found.same_kernel else found.after.kernel or "kernel"
    )
    islands = [_island("comparison", encode(found, Sides(before, after)))]
    for name, recording in (("before", before), ("after", after)):
        messages = Messages(recording)
        count = len(recording) if len(recording) <= WHOLE else RANGE
        islands.append(_island(name, messages.whole(0, min(CHUNK, count))))
        islands += [_island(name, messages.rows(first, min(CHUNK, count - first)))
                    for first in range(CHUNK, count, CHUNK)]  # fmt: skip
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}: comparison</title>\n<style>{STYLE}</style>\n</head>\n"
        f'<body>\n<div id="nki-lab"></div>\n<noscript>{fragment(found)}</noscript>\n{"".join(islands)}'
        f"<script>{script('comparison.js').replace(*CLOSING)}</script>\n</body>\n</html>\n"
    )


def _island(of: str, message: bytes) -> str:
    """An element with a message that the script reads."""
    return f'<script type="text/plain" class="{MESSAGE_CLASS}" data-of="{of}">{text_of(message)}</script>\n'


def write(found: Compared, before: Recording, after: Recording, path: str | os.PathLike[str]) -> None:
    """Write the page into a file. Raises NKI021 if the disk does not take it."""
    content = page(found, before, after).encode()
    with replacing(path) as stream:
        stream.write(content)
