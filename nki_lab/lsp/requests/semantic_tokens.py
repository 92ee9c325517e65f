"""Kinds of names, for colours: all of a text, those of some lines, and changes since the last answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp import refreshing
from nki_lab.lsp.checker import known_of
from nki_lab.lsp.convert import to_units
from nki_lab.lsp.server import Requests, Server
from nki_lab.lsp.texts import Module
from nki_lab.query import tokens
from nki_lab.query.token_kinds import MODIFIERS, TYPES, Token
from nki_lab.source import SyntaxFacts

TOKEN_SECONDS: Final = 0.05
"""Colours wait so long for an evaluation in an editor that cannot be asked to ask again."""


async def full(server: Server, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
    """Return the tokens of a text."""
    data = await _data(server, params.text_document.uri)
    return lsp.SemanticTokens(data, server.painted.keep(params.text_document.uri, data))


async def delta(server: Server, params: lsp.SemanticTokensDeltaParams) -> lsp.SemanticTokens | lsp.SemanticTokensDelta:
    """Return what has changed of the tokens since an answer; all of them where that answer is not known any more."""
    uri = params.text_document.uri
    data = await _data(server, uri)
    before = server.painted.recall(uri, params.previous_result_id)
    result = server.painted.keep(uri, data)
    if before is None:
        return lsp.SemanticTokens(data, result)
    change = tokens.changed(before, data)
    edits = [] if change is None else [lsp.SemanticTokensEdit(*change)]
    return lsp.SemanticTokensDelta(edits, result)


async def in_range(server: Server, params: lsp.SemanticTokensRangeParams) -> lsp.SemanticTokens:
    """Return the tokens of some lines of a text."""
    return lsp.SemanticTokens(await _data(server, params.text_document.uri, params.range))


async def _data(server: Server, uri: str, lines: lsp.Range | None = None) -> list[int]:
    can_refresh = server.refresher.can(refreshing.SEMANTIC_TOKENS)
    unit = await server.checker.settled(uri, refreshing.SOON_SECONDS if can_refresh else TOKEN_SECONDS)
    module = server.checker.module(uri)
    if unit is None or module is None:
        return []
    if not unit.is_settled:
        server.refresher.later(unit.key, refreshing.SEMANTIC_TOKENS)
    known, encoding = known_of(unit, module), server.encoding

    def answer(facts: SyntaxFacts) -> list[int]:
        found = server.readings.tokens(module.uri, facts, known)
        return tokens.encoded(list(_placed(module, uri, found, lines, encoding)))

    return await server.trees.analysed(module, answer) or []


def _placed(
    module: Module, uri: str, found: list[Token], wanted: lsp.Range | None, encoding: str
) -> Iterator[tuple[int, int, int, Token]]:
    """Yield the tokens in a text with their lines, characters and lengths there."""
    for (part, texts), start in zip(module.parts, module.starts, strict=True):
        if part != uri:
            continue
        low, high = (0, len(texts)) if wanted is None else (wanted.start.line, wanted.end.line + 1)
        for item in found:
            line = item.line - 1 - start
            if not (low <= line < high and line < len(texts)):
                continue
            end, text, read = item.character + item.length, texts[line], module.lines[item.line - 1]
            if text is not read and text != read and text[item.character : end] != read[item.character : end]:
                continue  # a magic stands there
            if text.isascii():
                yield line, item.character, item.length, item
            else:
                at = to_units(text, item.character, encoding)
                yield line, at, to_units(text, end, encoding) - at, item


_LEGEND: Final = lsp.SemanticTokensLegend(list(TYPES), list(MODIFIERS))

REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: (full, _LEGEND),
    lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA: (delta, None),
    lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE: (in_range, None),
}
