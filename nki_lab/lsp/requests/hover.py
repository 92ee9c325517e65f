"""The hover: declarations at a place, shapes, findings."""

from __future__ import annotations

import asyncio
from typing import Final

from lsprotocol import types as lsp

from nki_lab import query
from nki_lab.lsp.checker import findings_of, standing_of
from nki_lab.lsp.markup import markup
from nki_lab.lsp.server import Requests, Server
from nki_lab.printable import printable
from nki_lab.query.hovers import hover_at
from nki_lab.source import SyntaxFacts

HOVER_SECONDS: Final = 0.02
"""A hover waits so long for the shapes of what has just been typed: others are known already, or said later."""


async def hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    """Return the declarations at a place and the meaning of its findings at once; shapes as far as they are known."""
    uri = params.text_document.uri
    unit, _ = await asyncio.gather(server.checker.settled(uri, HOVER_SECONDS), _read(server, uri))
    module = server.checker.module(uri)
    at = None if module is None else module.place(uri, params.position, server.encoding)
    if unit is None or module is None or at is None:
        return None
    here = [
        item
        for item in findings_of(unit, module)
        if item.span is not None and (item.line, item.column) <= at < (item.end_line, item.end_column)
    ]
    arch, standing = server.arch_at(module, at[0]), standing_of(unit, module)

    def text(facts: SyntaxFacts) -> str | None:
        return hover_at(facts, *at, arch, lambda: standing(facts).at(at[0]))

    shown = await server.trees.analysed(module, text)
    parts = [part for part in (shown, query.findings_text(here)) if part]
    able = server.client_capabilities.text_document
    formats = able.hover.content_format if able is not None and able.hover is not None else None
    return lsp.Hover(markup(printable("\n\n---\n\n".join(parts)), formats)) if parts else None


async def _read(server: Server, uri: str) -> None:
    """Read a text as it is now, which takes about as long as the wait for its shapes."""
    module = server.checker.module(uri)
    if module is not None:
        await server.trees.analysed(module, lambda _facts: None)


REQUESTS: Final[Requests] = {lsp.TEXT_DOCUMENT_HOVER: (hover, lsp.HoverOptions())}
