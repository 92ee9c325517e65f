"""The findings in all files of the editor's folders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.progress import Progress
from nki_lab.lsp.requests.diagnostics import ALL_SECONDS, result_id
from nki_lab.lsp.server import Requests, Server
from nki_lab.lsp.texts import path_of

Report = lsp.WorkspaceFullDocumentDiagnosticReport | lsp.WorkspaceUnchangedDocumentDiagnosticReport


async def workspace_diagnostics(server: Server, params: lsp.WorkspaceDiagnosticParams) -> lsp.WorkspaceDiagnosticReport:
    """Return the findings by file, those that the editor has already as unchanged.

    An editor that takes partial results gets each file as it is examined. Where it has everything already, its answer
    comes with the next change.
    """
    before = {item.uri: item.value for item in params.previous_result_ids}
    while True:
        changes = server.project.changes
        reports = await _reports(server, params, before)
        news = [item for item in reports if isinstance(item, lsp.WorkspaceFullDocumentDiagnosticReport)]
        if params.partial_result_token is None:
            return lsp.WorkspaceDiagnosticReport(reports)
        if news or not before:
            return lsp.WorkspaceDiagnosticReport([])
        await server.project.next_change(changes)


async def _reports(server: Server, params: lsp.WorkspaceDiagnosticParams, before: dict[str, str]) -> list[Report]:
    """Return the reports of all files, and hand them over one by one where the editor takes them so."""
    files = await server.project.files()
    opened = {path_of(uri): uri for uri in server.texts.texts if server.texts.unit(uri) == uri}
    reports: list[Report] = []

    def add(report: Report) -> None:
        reports.append(report)
        token = params.partial_result_token
        if token is not None and isinstance(report, lsp.WorkspaceFullDocumentDiagnosticReport):
            value = server.protocol._converter.unstructure(lsp.WorkspaceDiagnosticReportPartialResult([report]))
            server.progress(lsp.ProgressParams(token, value))

    async with Progress(server, "Checking the kernels of the project", params.work_done_token) as progress:
        for number, path in enumerate(files):
            uri = opened.pop(str(path), path.as_uri())
            progress.report(number, len(files))
            if uri in server.texts.texts:
                add(await _opened(server, uri, before.get(uri)))
            else:
                add(_report(uri, None, await server.project.of(path), before.get(uri)))
    seen = {item.uri for item in reports}
    for uri in opened.values():
        if uri in before:
            add(await _opened(server, uri, before[uri]))
    for uri in _removed(before, seen | set(opened.values())):
        add(_report(uri, None, [], before[uri]))
    return reports


def _removed(before: dict[str, str], seen: set[str]) -> Iterator[str]:
    """Yield the files of which the editor has findings and that are not checked any more."""
    nothing = result_id([])
    yield from (uri for uri, result in before.items() if uri not in seen and result != nothing)


async def _opened(server: Server, uri: str, before: str | None) -> Report:
    """Return the report of a file that is open."""
    unit = await server.checker.settled(uri, ALL_SECONDS)
    module = unit.module if unit is not None else None
    found = server.reports(unit, module).get(uri, []) if unit is not None and module is not None else []
    text = server.texts.texts.get(uri)
    return _report(uri, None if text is None else text.version, found, before)


def _report(uri: str, version: int | None, found: list[lsp.Diagnostic], before: str | None) -> Report:
    result = result_id(found)
    if result == before:
        return lsp.WorkspaceUnchangedDocumentDiagnosticReport(uri, result, version)
    return lsp.WorkspaceFullDocumentDiagnosticReport(uri, found, version, result_id=result)


REQUESTS: Final[Requests] = {lsp.WORKSPACE_DIAGNOSTIC: (workspace_diagnostics, None)}
