"""Quick fixes, the fixes and the migration of a whole file, pages of codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from nki_lab import codes, query
from nki_lab.diagnostic import Span
from nki_lab.lsp import fix_all, migrations
from nki_lab.lsp.checker import Unit, findings_of
from nki_lab.lsp.convert import SOURCE, diagnostic_of, plain
from nki_lab.lsp.requests.diagnostics import ALL_SECONDS
from nki_lab.lsp.server import EXPLAIN, Requests, Server
from nki_lab.lsp.texts import Module
from nki_lab.query.grouping import grouped

SAVING_SECONDS: Final = 2.0
"""An editor that asks for actions on the whole file when it saves waits so long for the findings."""

_QUICK: Final = lsp.CodeActionKind.QuickFix.value
_STALE: Final = "the text has changed since the action was offered: ask for it again"


async def code_actions(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Return the quick fixes of the findings that the editor shows at the place, the pages of their codes, and what
    can be done to the whole file; of the kinds that are asked for.
    """
    uri, only = params.text_document.uri, params.context.only
    asked = [item for item in params.context.diagnostics if item.source == SOURCE] if wants(only, _QUICK) else []
    is_whole = only is not None and not wants(only, _QUICK) and wants(only, fix_all.KIND)
    unit = await server.checker.settled(uri, SAVING_SECONDS if is_whole else 0.0)
    actions: list[lsp.CodeAction] = []
    if unit is not None and unit.module is not None:
        actions += _fixes(server, unit, unit.module, uri, asked)
        actions += fix_all.offered(unit, uri) if wants(only, fix_all.KIND) else []
        actions += migrations.offered(unit.module, uri) if wants(only, migrations.KIND) else []
        if not _resolves(server):
            actions = [await resolved(server, item) for item in actions]
    for code in dict.fromkeys(str(item.code) for item in asked):
        known = codes.find(code)
        if known is not None:
            about = [item for item in asked if item.code == code]
            command = lsp.Command(f"Explain {code}", EXPLAIN, arguments=[code])
            title = f"Explain {code}: {known.title}"
            actions.append(lsp.CodeAction(title, _QUICK, about, command=command))
    return actions


def wants(only: Sequence[lsp.CodeActionKind | str] | None, kind: str) -> bool:
    """Return whether actions of a kind are asked for: all are, or the kind, or one that it is a part of."""
    names = None if only is None else [str(getattr(item, "value", item)) for item in only]
    return names is None or any(not name or kind == name or kind.startswith(f"{name}.") for name in names)


def _resolves(server: Server) -> bool:
    """Return whether the editor asks for the edits of an action when it is chosen."""
    text = server.client_capabilities.text_document
    support = text.code_action.resolve_support if text is not None and text.code_action is not None else None
    return support is not None and "edit" in support.properties


async def resolved(server: Server, action: lsp.CodeAction) -> lsp.CodeAction:
    """Return an action with its edits; an error where the text has changed under it."""
    data = plain(action.data)
    table = data if isinstance(data, dict) else {}
    uri, kind = str(table.get("uri", "")), table.get("kind")
    if kind not in (fix_all.KIND, migrations.KIND) or action.edit is not None:
        return action
    made = fix_all.edits(server, uri, ALL_SECONDS) if kind == fix_all.KIND else migrations.edits(server, uri)
    action.edit = await made
    if action.edit is None:
        raise JsonRpcException(_STALE, lsp.LSPErrorCodes.ContentModified)
    return action


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
        lsp.CodeActionOptions(
            code_action_kinds=[lsp.CodeActionKind.QuickFix, fix_all.KIND, migrations.KIND], resolve_provider=True
        ),
    ),
    lsp.CODE_ACTION_RESOLVE: (resolved, None),
}
