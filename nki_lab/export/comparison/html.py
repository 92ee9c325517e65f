"""A comparison as HTML: a table for notebooks, and a page that needs nothing else."""

from __future__ import annotations

import os
from typing import Final

from nki_lab.comparison.compared import Compared
from nki_lab.export.comparison.sentence import headline, notes, side_name
from nki_lab.export.comparison.tables import Table, legend, tables
from nki_lab.export.files import replacing
from nki_lab.printable import escape

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_PAGE_STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1200px; padding: 16px; background: light-dark(#fff, #16181c);
  color: light-dark(#14161a, #f1f3f5); font: 14px/1.5 system-ui, sans-serif; }
"""
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


def page(found: Compared) -> str:
    """Return the comparison as a page."""
    title = (
        f"{found.before.kernel} and {found.after.kernel}" if not found.same_kernel else found.after.kernel or "kernel"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}: comparison</title>\n<style>{_PAGE_STYLE}</style>\n</head>\n"
        f"<body>\n{fragment(found)}\n</body>\n</html>\n"
    )


def write(found: Compared, path: str | os.PathLike[str]) -> None:
    """Write the page into a file. Raises NKI021 if the disk does not take it."""
    content = page(found).encode()
    with replacing(path) as stream:
        stream.write(content)
