"""Shapes beside the names of tensors."""

from __future__ import annotations

from typing import Final

from lsprotocol import types as lsp

from nki_lab.diagnostic import Span
from nki_lab.lsp.checker import known_of
from nki_lab.lsp.server import Requests, Server

HINT_SECONDS: Final = 2.0


async def inlay_hints(server: Server, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    """Return shape, dtype and memory of tensors under the first known signature, where their names are bound."""
    uri, asked = params.text_document.uri, params.range
    unit = await server.checker.settled(uri, HINT_SECONDS)
    module = server.checker.module(uri)
    if unit is None or module is None:
        return []
    hints = []
    for (line, column), variable in sorted(known_of(unit, module).variables.items(), key=lambda item: item[0]):
        text = module.lines[line - 1] if 0 < line <= len(module.lines) else ""
        end = len(text.encode("utf-8", "surrogatepass")[:column].decode(errors="ignore")) + len(variable.name)
        if not variable.shape or text[end:].lstrip().startswith(":"):
            continue  # no tensor, or annotated
        place = module.location(Span(module.file, line, end + 1, line, end + 1), server.encoding)
        if place is None or place.uri != uri or not asked.start.line <= place.range.start.line <= asked.end.line:
            continue
        shape = "×".join(map(str, variable.shape))
        dtype = variable.dtype.name if variable.dtype is not None else "?"
        tip = f"{variable.partition_bytes} bytes per partition" if variable.partition_bytes else None
        label = f": {shape} {dtype} {variable.memory}"
        hints.append(lsp.InlayHint(place.range.start, label, lsp.InlayHintKind.Type, tooltip=tip))
    return hints


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_INLAY_HINT: (inlay_hints, lsp.InlayHintOptions(resolve_provider=False)),
}
