"""Hints in the code: shapes, bytes, iterations and costs, as the settings ask for them."""

from __future__ import annotations

import asyncio
from typing import Final

from lsprotocol import types as lsp

from nki_lab.diagnostic import Span
from nki_lab.lsp import refreshing
from nki_lab.lsp.checker import Unit, known_of
from nki_lab.lsp.server import Requests, Server
from nki_lab.lsp.texts import Module
from nki_lab.query import hints
from nki_lab.query.hints import Hint

HINT_SECONDS: Final = 2.0
"""Hints wait so long for shapes in an editor that cannot be asked to ask again,"""
COST_SECONDS: Final = 2.0
"""and in all so long for estimates; later ones make the editor ask again."""


async def inlay_hints(server: Server, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    """Return what is known under the first signature of each kernel, where names are bound and lines end."""
    uri, asked = params.text_document.uri, params.range
    can_refresh = server.refresher.can(refreshing.INLAY_HINT)
    unit = await server.checker.settled(uri, refreshing.SOON_SECONDS if can_refresh else HINT_SECONDS)
    module = server.checker.module(uri)
    if unit is None or module is None:
        return []
    wanted = server.settings.hints(module.file)
    if not unit.is_settled:
        server.refresher.later(unit.key, refreshing.INLAY_HINT)
    found = list(
        hints.variable_hints(
            module.lines, known_of(unit, module), shapes=wanted.shapes, sizes=wanted.bytes, trips=wanted.trips
        )
    )
    if wanted.cost and unit.is_settled:
        found += await _costs(server, unit, module, uri, asked)
    out = []
    for item in found:
        place = _place(server, module, item)
        if place is not None and place.uri == uri and asked.start.line <= place.range.start.line <= asked.end.line:
            kind = lsp.InlayHintKind.Type if item.is_type else None
            out.append(lsp.InlayHint(place.range.start, item.text, kind, tooltip=item.tip or None))
    return out


def _place(server: Server, module: Module, item: Hint) -> lsp.Location | None:
    column = item.character + 1
    return module.location(Span(module.file, item.line, column, item.line, column), server.encoding)


async def _costs(server: Server, unit: Unit, module: Module, uri: str, asked: lsp.Range) -> list[Hint]:
    """Return the costs of lines in the kernels that a range shows, once they are estimated."""
    start = next((start for (part, _), start in zip(module.parts, module.starts, strict=True) if part == uri), 0)
    first, last = asked.start.line + start + 1, asked.end.line + start + 1
    names = await server.trees.analysed(module, lambda facts: hints.kernels_in(facts, first, last))
    try:
        async with asyncio.timeout(COST_SECONDS):
            estimates = [await server.estimates.of(unit, module, name) for name in names or ()]
    except TimeoutError:
        server.soon(_refresh_after(server, unit, module, names or []))
        return []
    known = [item for item in estimates if item is not None]
    return await server.trees.analysed(module, lambda facts: list(hints.cost_hints(facts, known))) or []


async def _refresh_after(server: Server, unit: Unit, module: Module, names: list[str]) -> None:
    """Have the editor ask again when the estimates are there."""
    for name in names:
        await server.estimates.of(unit, module, name)
    server.refresher.now(refreshing.INLAY_HINT)


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_INLAY_HINT: (inlay_hints, lsp.InlayHintOptions(resolve_provider=False)),
}
