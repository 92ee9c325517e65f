"""Quick fixes, migration of a file, pages of codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from lsprotocol import types as lsp

from nki_lab import codes, query
from nki_lab.diagnostic import Span
from nki_lab.lsp import migrations
from nki_lab.lsp.checker import Unit, findings_of
from nki_lab.lsp.convert import SOURCE, diagnostic_of
from nki_lab.lsp.server import EXPLAIN, Requests, Server
from nki_lab.lsp.texts import Module
from nki_lab.query.grouping import grouped


async def code_actions(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Return the quick fixes of the findings that the editor shows at the place, and the pages of their codes."""
    uri, asked = params.text_document.uri, [item for item in params.context.diagnostics if item.source == SOURCE]
    unit = await server.checker.settled(uri, 0.0)
    if not migrations.wants(params.context.only, lsp.CodeActionKind.QuickFix.value):
        asked = []
    actions = list(_fixes(server, unit, unit.module, uri, asked)) if unit is not None and unit.module else []
    actions += migrations.offered(unit.module if unit is not None else None, uri, params.context.only)
    for code in dict.fromkeys(str(item.code) for item in asked):
        known = codes.find(code)
        if known is not None:
            about = [item for item in asked if item.code == code]
            command = lsp.Command(f"Explain {code}", EXPLAIN, arguments=[code])
            title = f"Explain {code}: {known.title}"
            actions.append(lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, about, command=command))
    return actions


def _fixes(
    server: Server, unit: Unit, module: Module, uri: str, asked: list[lsp.Diagnostic]
) -> Iterator[lsp.CodeAction]:
    """Yield the edits that remove the findings asked about."""

    def place(span: Span) -> lsp.Location | None:
        return module.location(span, server.encoding)

    for item in grouped(findings_of(unit, module)) if asked else ():
        converted = diagnostic_of(item, place, related=False)
        if converted is None or converted[0] != uri:
            continue
        same = [other for other in asked if (other.code, other.range) == (converted[1].code, converted[1].range)]
        for fix in query.quick_fixes(item, module.lines) if same else ():
            edit = _edit(place, fix)
            if edit is not None:
                yield lsp.CodeAction(fix.title, lsp.CodeActionKind.QuickFix, same, fix.sure, edit=edit)


def _edit(place: Callable[[Span], lsp.Location | None], fix: query.QuickFix) -> lsp.WorkspaceEdit | None:
    """Return the edits of a quick fix by document; None where one of its places is in none."""
    changes: dict[str, list[lsp.TextEdit]] = {}
    for span, text in fix.edits:
        where = place(span)
        if where is None:
            return None
        changes.setdefault(where.uri, []).append(lsp.TextEdit(where.range, text))
    return lsp.WorkspaceEdit(changes=changes)


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_CODE_ACTION: (
        code_actions,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix, migrations.KIND], resolve_provider=True),
    ),
    lsp.CODE_ACTION_RESOLVE: (migrations.resolved, None),
}
