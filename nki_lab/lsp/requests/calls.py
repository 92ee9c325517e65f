"""Call hierarchy: callers of a kernel or helper, and the functions that it calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.navigation import Asked, asked
from nki_lab.lsp.server import Requests, Server
from nki_lab.query.navigation import calls


async def prepare(server: Server, params: lsp.CallHierarchyPrepareParams) -> list[lsp.CallHierarchyItem] | None:
    """Return the function that a position is about."""

    def answer(about: Asked) -> list[lsp.CallHierarchyItem] | None:
        mention = about.mention(params.position)
        found = None if mention is None else calls.prepare(about.resolver, about.reading, mention, about.known)
        item = None if found is None else _item(about, found)
        return None if item is None else [item]

    return await asked(server, params.text_document.uri, answer)


def _item(about: Asked, routine: calls.Routine) -> lsp.CallHierarchyItem | None:
    whole, place = about.location(routine.span), about.location(routine.place)
    if whole is None or place is None:
        return None
    kind = lsp.SymbolKind.Method if routine.is_method else lsp.SymbolKind.Function
    kind = lsp.SymbolKind.Module if routine.is_module else kind
    # The request that follows is about an open text, also where the function is in another one.
    data = {"asked": about.uri, "file": routine.place.file, "line": routine.place.line, "column": routine.place.column}
    return lsp.CallHierarchyItem(
        routine.name, kind, place.uri, whole.range, place.range, detail=routine.detail or None, data=data
    )


Find = Callable[..., list[calls.Link]]


async def _linked(server: Server, item: lsp.CallHierarchyItem, find: Find) -> list[tuple[calls.Link, Asked]]:
    data = item.data if isinstance(item.data, dict) else getattr(item.data, "_asdict", dict)()

    def answer(about: Asked) -> list[tuple[calls.Link, Asked]]:
        reading = about.workspace.reading(str(data.get("file", "")))
        if reading is None:
            return []
        found = find(about.resolver, reading, int(data["line"]), int(data["column"]), about.known)
        return [(link, about) for link in found]

    return await asked(server, str(data.get("asked", item.uri)), answer, wide=True) or []


async def incoming(server: Server, params: lsp.CallHierarchyIncomingCallsParams) -> list[lsp.CallHierarchyIncomingCall]:
    """Return the functions that call one, with the places of the calls and the shapes that they pass."""
    made = []
    for link, about in await _linked(server, params.item, calls.incoming):
        item = _item(about, link.other)
        if item is not None:
            made.append(lsp.CallHierarchyIncomingCall(item, _ranges(about, link)))
    return made


async def outgoing(server: Server, params: lsp.CallHierarchyOutgoingCallsParams) -> list[lsp.CallHierarchyOutgoingCall]:
    """Return the functions of the workspace that one calls, with the places of the calls and the shapes they get."""
    made = []
    for link, about in await _linked(server, params.item, calls.outgoing):
        item = _item(about, link.other)
        if item is not None:
            made.append(lsp.CallHierarchyOutgoingCall(item, _ranges(about, link)))
    return made


def _ranges(about: Asked, link: calls.Link) -> list[lsp.Range]:
    return [place.range for place in about.locations(link.places)]


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_PREPARE_CALL_HIERARCHY: (prepare, lsp.CallHierarchyOptions()),
    lsp.CALL_HIERARCHY_INCOMING_CALLS: (incoming, None),
    lsp.CALL_HIERARCHY_OUTGOING_CALLS: (outgoing, None),
}
