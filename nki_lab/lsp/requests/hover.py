"""`textDocument/hover`: what stands at a place, and what the findings there mean."""

from __future__ import annotations

import asyncio
from typing import Final

from lsprotocol import types as lsp

from nki_lab import query
from nki_lab.lsp.checker import findings_of, known_of
from nki_lab.lsp.convert import markdown
from nki_lab.lsp.server import Server

METHOD: Final = lsp.TEXT_DOCUMENT_HOVER
OPTIONS: Final = lsp.HoverOptions()

PATIENCE_SECONDS: Final = 0.3
"""A hover waits so long for the shapes of what has just been typed."""


async def answer(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    """Declarations at once; shapes as far as they are known by then."""
    unit = await server.checker.settled(params.text_document.uri, PATIENCE_SECONDS)
    module = server.checker.module(params.text_document.uri)
    at = None if module is None else module.place(params.text_document.uri, params.position, server.encoding)
    if unit is None or module is None or at is None:
        return None
    here = [
        item for item in findings_of(unit, module)
        if item.span is not None and (item.line, item.column) <= at < (item.end_line, item.end_column)
    ]  # fmt: skip
    arch, known = server.settings.arch(module.file), known_of(unit, module)
    text = await asyncio.to_thread(query.hover, module.text, *at, module.file, target=arch, known=known)
    parts = [part for part in (text, query.findings_text(here)) if part]
    return lsp.Hover(markdown("\n\n---\n\n".join(parts))) if parts else None
