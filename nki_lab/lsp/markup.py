"""Texts in Markdown for editors that show it, and in plain letters for the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from lsprotocol import types as lsp

_FENCE: Final = "```"
_CODE: Final = re.compile(r"(`[^`]*`)")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)\s]*\)")
_BOLD: Final = re.compile(r"\*\*(.+?)\*\*")


def markup(text: str, formats: Sequence[lsp.MarkupKind | str] | None) -> lsp.MarkupContent:
    """Return a Markdown text in a format that the editor takes; None where the editor does not name any."""
    if not formats or lsp.MarkupKind.Markdown in formats:
        return lsp.MarkupContent(lsp.MarkupKind.Markdown, text)
    return lsp.MarkupContent(lsp.MarkupKind.PlainText, plain_text(text))


def plain_text(markdown: str) -> str:
    """Return a Markdown text without its marks; code stays as it is."""
    return "\n".join(_plain_lines(markdown))


def _plain_lines(markdown: str) -> Iterator[str]:
    in_code = False
    for line in markdown.split("\n"):
        if line.startswith(_FENCE):
            in_code = not in_code
        elif in_code:
            yield line
        else:
            yield "".join(
                _plain_part(part) for part in _CODE.split(line.lstrip("#").lstrip() if line[:1] == "#" else line)
            )


def _plain_part(part: str) -> str:
    return part.strip("`") if part[:1] == "`" else _BOLD.sub(r"\1", _LINK.sub(r"\1", part))
