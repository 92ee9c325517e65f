"""Parts of texts: symbols of a document and of the workspace, lines that fold, growing selections."""

from __future__ import annotations

from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.navigation import Asked, asked, located, open_modules, searched, workspace_of
from nki_lab.lsp.server import Requests, Server
from nki_lab.query.navigation import structure
from nki_lab.query.navigation.symbols import Kind, Symbol, document_symbols, workspace_symbols

_KINDS: Final[dict[Kind, lsp.SymbolKind]] = {
    "function": lsp.SymbolKind.Function, "method": lsp.SymbolKind.Method, "class": lsp.SymbolKind.Class,
    "variable": lsp.SymbolKind.Variable, "constant": lsp.SymbolKind.Constant, "field": lsp.SymbolKind.Field,
}  # fmt: skip


async def symbols(
    server: Server, params: lsp.DocumentSymbolParams
) -> list[lsp.DocumentSymbol] | list[lsp.SymbolInformation] | None:
    """Return the definitions of a text or cell, one inside the other where the editor shows that."""
    text = server.client_capabilities.text_document
    nested = text is not None and text.document_symbol is not None
    nested = nested and bool(getattr(text, "document_symbol").hierarchical_document_symbol_support)  # noqa: B009

    def answer(about: Asked) -> list[lsp.DocumentSymbol] | list[lsp.SymbolInformation]:
        found = document_symbols(about.reading, about.known(about.module.file))
        return _nested(about, found) if nested else _flat(about, found, "")

    return await asked(server, params.text_document.uri, answer)


def _nested(about: Asked, found: list[Symbol] | tuple[Symbol, ...]) -> list[lsp.DocumentSymbol]:
    made = []
    for item in found:
        whole, place = about.range(item.span), about.range(item.place)
        if whole is not None and place is not None:
            inside = _nested(about, item.inside)
            made.append(lsp.DocumentSymbol(item.name, _KINDS[item.kind], whole, place, item.detail, children=inside))
    return made


def _flat(about: Asked, found: list[Symbol] | tuple[Symbol, ...], inside: str) -> list[lsp.SymbolInformation]:
    made: list[lsp.SymbolInformation] = []
    for item in found:
        place = about.range(item.place)
        if place is not None:
            where = lsp.Location(about.uri, place)
            made.append(lsp.SymbolInformation(where, item.name, _KINDS[item.kind], container_name=inside or None))
            made += _flat(about, item.inside, item.name)
    return made


async def in_workspace(server: Server, params: lsp.WorkspaceSymbolParams) -> list[lsp.WorkspaceSymbol]:
    """Return the kernels, helpers and classes of the workspace whose names fit what was typed, the best first."""
    modules = open_modules(server)
    workspace = workspace_of(server, next(iter(modules), ""), modules)

    def work() -> list[lsp.WorkspaceSymbol]:
        made = []
        for item in workspace_symbols(workspace, params.query):
            where = located(item.place, modules, workspace, server.encoding)
            if where is not None:
                made.append(
                    lsp.WorkspaceSymbol(where, item.name, _KINDS[item.kind], container_name=item.detail or None)
                )
        return made

    return await searched(workspace, work)


async def folds(server: Server, params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange] | None:
    """Return the lines that fold."""
    kinds = {"comment": lsp.FoldingRangeKind.Comment, "imports": lsp.FoldingRangeKind.Imports}

    def answer(about: Asked) -> list[lsp.FoldingRange]:
        made = []
        for item in structure.folds(about.reading):
            start, end = about.line(item.start), about.line(item.end)
            if start is not None and end is not None:
                made.append(lsp.FoldingRange(start, end, kind=kinds.get(item.kind)))
        return made

    return await asked(server, params.text_document.uri, answer)


async def selections(server: Server, params: lsp.SelectionRangeParams) -> list[lsp.SelectionRange] | None:
    """Return, for each position, the ranges around it, each inside the next one."""

    def answer(about: Asked) -> list[lsp.SelectionRange]:
        return [_chain(about, position) for position in params.positions]

    return await asked(server, params.text_document.uri, answer)


def _chain(about: Asked, position: lsp.Position) -> lsp.SelectionRange:
    at = about.place(position)
    spans = [] if at is None else structure.selections(about.reading, *at)
    outer: lsp.SelectionRange | None = None
    for span in reversed(spans):
        place = about.range(span)
        if place is not None:
            outer = lsp.SelectionRange(place, outer)
    return outer or lsp.SelectionRange(lsp.Range(position, position))


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: (symbols, lsp.DocumentSymbolOptions(label="NKI")),
    lsp.WORKSPACE_SYMBOL: (in_workspace, lsp.WorkspaceSymbolOptions()),
    lsp.TEXT_DOCUMENT_FOLDING_RANGE: (folds, lsp.FoldingRangeOptions()),
    lsp.TEXT_DOCUMENT_SELECTION_RANGE: (selections, lsp.SelectionRangeOptions()),
}
