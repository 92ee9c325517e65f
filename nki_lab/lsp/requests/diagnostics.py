"""The findings that an editor asks for."""

from __future__ import annotations

import hashlib
from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.server import Requests, Server

SYNTAX_SECONDS: Final = 5.0
SHAPES_SECONDS: Final = 0.4
"""An editor that can be asked to ask again gets what is known after so long."""
ALL_SECONDS: Final = 20.0


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
    result = result_id(found)
    if result == params.previous_result_id:
        return lsp.RelatedUnchangedDocumentDiagnosticReport(result_id=result)
    return lsp.RelatedFullDocumentDiagnosticReport(items=found, result_id=result)


def result_id(found: list[lsp.Diagnostic]) -> str:
    """Return a name of findings, by which the editor knows them again."""
    return hashlib.sha256(repr(found).encode("utf-8", "surrogatepass")).hexdigest()[:16]


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_DIAGNOSTIC: (
        diagnostics,
        lsp.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=True, identifier="nki-lab"),
    ),
}
