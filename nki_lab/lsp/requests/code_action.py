"""`textDocument/codeAction`: spell a name right, compare with `==`, read what a code means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lsprotocol import types as lsp

from nki_lab import codes, query
from nki_lab.diagnostic import Span
from nki_lab.lsp.checker import Unit, findings_of
from nki_lab.lsp.convert import SOURCE, diagnostic_of
from nki_lab.lsp.requests.explain import COMMAND
from nki_lab.lsp.server import Server
from nki_lab.lsp.texts import Module

METHOD: Final = lsp.TEXT_DOCUMENT_CODE_ACTION
OPTIONS: Final = lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])


async def answer(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """The quick fixes of the findings that the editor shows at the place."""
    uri, asked = params.text_document.uri, [item for item in params.context.diagnostics if item.source == SOURCE]
    unit = await server.checker.settled(uri, 0.0)
    made = list(_fixes(server, unit, unit.module, uri, asked)) if unit is not None and unit.module is not None else []
    for code in dict.fromkeys(str(item.code) for item in asked):
        known = codes.find(code)
        if known is not None:
            about = [item for item in asked if item.code == code]
            command = lsp.Command(f"Explain {code}", COMMAND, arguments=[code])
            title = f"Explain {code}: {known.title}"
            made.append(lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, about, command=command))
    return made


def _fixes(
    server: Server, unit: Unit, module: Module, uri: str, asked: list[lsp.Diagnostic]
) -> Iterator[lsp.CodeAction]:
    """The edits that mend the findings asked about."""

    def place(span: Span) -> lsp.Location | None:
        return module.location(span, server.encoding)

    for item in findings_of(unit, module) if asked else ():
        shown = diagnostic_of(item, place, related=False)
        if shown is None or shown[0] != uri:
            continue
        same = [other for other in asked if (other.code, other.range) == (shown[1].code, shown[1].range)]
        for mending in query.quick_fixes(item, module.lines) if same else ():
            where = place(mending.span)
            if where is not None and where.uri == uri:
                edit = lsp.WorkspaceEdit(changes={uri: [lsp.TextEdit(where.range, mending.text)]})
                yield lsp.CodeAction(mending.title, lsp.CodeActionKind.QuickFix, same, mending.sure, edit=edit)
