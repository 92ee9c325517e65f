"""Places that bind and mention a name: definition, references, highlights."""

from __future__ import annotations

from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.navigation import Asked, asked
from nki_lab.lsp.server import Requests, Server
from nki_lab.query.navigation import references as found


async def definition(server: Server, params: lsp.DefinitionParams) -> list[lsp.Location] | None:
    """Return the places that bind the name at a position; None for names that no file at hand binds."""

    def answer(about: Asked) -> list[lsp.Location] | None:
        mention = about.mention(params.position)
        spans = [] if mention is None else found.definitions(about.resolver, about.reading, mention)
        return about.locations(spans) or None

    return await asked(server, params.text_document.uri, answer)


async def declaration(server: Server, params: lsp.DeclarationParams) -> list[lsp.Location] | None:
    """Return the places in this text that bind the name: of an imported one, the import."""

    def answer(about: Asked) -> list[lsp.Location] | None:
        mention = about.mention(params.position)
        spans = [] if mention is None else found.declarations(about.resolver, about.reading, mention)
        return about.locations(spans) or None

    return await asked(server, params.text_document.uri, answer)


async def type_definition(server: Server, params: lsp.TypeDefinitionParams) -> list[lsp.Location] | None:
    """Return the class of the object that a name stands for."""

    def answer(about: Asked) -> list[lsp.Location] | None:
        mention = about.mention(params.position)
        spans = [] if mention is None else found.types(about.resolver, about.reading, mention)
        return about.locations(spans) or None

    return await asked(server, params.text_document.uri, answer)


async def references(server: Server, params: lsp.ReferenceParams) -> list[lsp.Location] | None:
    """Return the places of the workspace that mention the name at a position."""

    def answer(about: Asked) -> list[lsp.Location] | None:
        mention, declared = about.mention(params.position), params.context.include_declaration
        if mention is None:
            return None
        return about.locations(found.references(about.resolver, about.reading, mention, declared=declared))

    return await asked(server, params.text_document.uri, answer, wide=True)


async def highlights(server: Server, params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight] | None:
    """Return the places of the same text, or cell, that mention the name at a position."""

    def answer(about: Asked) -> list[lsp.DocumentHighlight] | None:
        mention = about.mention(params.position)
        uses = [] if mention is None else found.highlights(about.resolver, about.reading, mention)
        kinds = lsp.DocumentHighlightKind
        places = ((about.range(item.span), kinds.Write if item.writes else kinds.Read) for item in uses)
        return [lsp.DocumentHighlight(place, kind) for place, kind in places if place is not None] or None

    return await asked(server, params.text_document.uri, answer)


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_DEFINITION: (definition, lsp.DefinitionOptions()),
    lsp.TEXT_DOCUMENT_DECLARATION: (declaration, lsp.DeclarationOptions()),
    lsp.TEXT_DOCUMENT_TYPE_DEFINITION: (type_definition, lsp.TypeDefinitionOptions()),
    lsp.TEXT_DOCUMENT_REFERENCES: (references, lsp.ReferenceOptions()),
    lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: (highlights, lsp.DocumentHighlightOptions()),
}
