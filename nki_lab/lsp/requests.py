"""Answers to the editor's requests: each converts a place, asks, and converts back."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lsprotocol import types as lsp

from nki_lab import codes, query
from nki_lab.diagnostic import Span
from nki_lab.lsp import migrations
from nki_lab.lsp.checker import Unit, findings_of, known_of
from nki_lab.lsp.convert import SOURCE, diagnostic_of, plain
from nki_lab.lsp.server import EXPLAIN, Request, Server
from nki_lab.lsp.settings import SECTION
from nki_lab.lsp.texts import Module
from nki_lab.query.grouping import grouped

SYNTAX_SECONDS: Final = 5.0
SHAPES_SECONDS: Final = 0.4
"""An editor that can be asked to ask again gets what is known after so long."""
ALL_SECONDS: Final = 20.0
HOVER_SECONDS: Final = 0.3
"""A hover waits so long for the shapes of what has just been typed."""
HINT_SECONDS: Final = 2.0


async def diagnostics(server: Server, params: lsp.DocumentDiagnosticParams) -> lsp.DocumentDiagnosticReport:
    """Return the findings, once the kernels are evaluated; where that takes long, those of the syntax first."""
    uri = params.text_document.uri
    await server.checker.settled(uri, SYNTAX_SECONDS, fully=False)
    unit = await server.checker.settled(uri, SHAPES_SECONDS if server.can_refresh else ALL_SECONDS)
    module = unit.module if unit is not None else None
    if unit is None or module is None:
        return lsp.RelatedFullDocumentDiagnosticReport(items=[])
    if not unit.is_settled:
        server.expect(unit)
    found = server.reports(unit, module).get(uri, [])
    result = hashlib.sha256(repr(found).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    if result == params.previous_result_id:
        return lsp.RelatedUnchangedDocumentDiagnosticReport(result_id=result)
    return lsp.RelatedFullDocumentDiagnosticReport(items=found, result_id=result)


async def hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    """Return the declarations at a place and the meaning of its findings at once; shapes as far as they are known."""
    unit = await server.checker.settled(params.text_document.uri, HOVER_SECONDS)
    module = server.checker.module(params.text_document.uri)
    at = None if module is None else module.place(params.text_document.uri, params.position, server.encoding)
    if unit is None or module is None or at is None:
        return None
    here = [
        item
        for item in findings_of(unit, module)
        if item.span is not None and (item.line, item.column) <= at < (item.end_line, item.end_column)
    ]
    arch, known = server.settings.arch(module.file), known_of(unit, module)
    text = await asyncio.to_thread(query.hover, module.text, *at, module.file, target=arch, known=known)
    parts = [part for part in (text, query.findings_text(here)) if part]
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, "\n\n---\n\n".join(parts))) if parts else None


# -- fixes -------------------------------------------------------------------------------------------------------------


async def code_actions(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Return the quick fixes of the findings that the editor shows at the place, and the pages of their codes."""
    uri, asked = params.text_document.uri, [item for item in params.context.diagnostics if item.source == SOURCE]
    unit = await server.checker.settled(uri, 0.0)
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


# -- shapes ------------------------------------------------------------------------------------------------------------


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


# -- settings ----------------------------------------------------------------------------------------------------------


async def initialized(server: Server, _params: lsp.InitializedParams) -> None:
    """Read the first settings, and have the editor report later ones."""
    workspace = server.client_capabilities.workspace
    wants = workspace.did_change_configuration if workspace is not None else None
    if wants is not None and wants.dynamic_registration:
        method = lsp.WORKSPACE_DID_CHANGE_CONFIGURATION
        registration = lsp.Registration(id=method, method=method)
        await server.client_register_capability_async(lsp.RegistrationParams([registration]))
    if workspace is not None and workspace.configuration:
        await _refresh(server, None)


async def configured(server: Server, params: lsp.DidChangeConfigurationParams) -> None:
    """Take the settings that came along, or ask for them; everything open is examined again."""
    await _refresh(server, plain(params.settings))


async def _refresh(server: Server, given: object) -> None:
    """Put settings in force: the editor's answer where it can be asked, else what it gave."""
    workspace = server.client_capabilities.workspace
    if workspace is not None and workspace.configuration:
        items = [lsp.ConfigurationItem(section=SECTION)]
        found = await server.workspace_configuration_async(lsp.ConfigurationParams(items))
        given = plain(found[0]) if found else None
    before = server.settings.target
    server.settings.take(given)
    if server.settings.target != before:
        server.checker.again()


REQUESTS: Final[Mapping[str, Request]] = {
    lsp.TEXT_DOCUMENT_DIAGNOSTIC: (
        diagnostics,
        lsp.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=False, identifier="nki-lab"),
    ),
    lsp.TEXT_DOCUMENT_HOVER: (hover, lsp.HoverOptions()),
    lsp.TEXT_DOCUMENT_CODE_ACTION: (
        code_actions,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix, migrations.KIND], resolve_provider=True),
    ),
    lsp.CODE_ACTION_RESOLVE: (migrations.resolved, None),
    lsp.TEXT_DOCUMENT_INLAY_HINT: (inlay_hints, lsp.InlayHintOptions(resolve_provider=False)),
    lsp.WORKSPACE_DID_CHANGE_CONFIGURATION: (configured, None),
    lsp.INITIALIZED: (initialized, None),
}
"""The answers by method, with the offers that the server makes of them."""
