"""The action "Fix all": what `nki-lab check --fix` would write, for a whole file or notebook."""

from __future__ import annotations

from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.checker import Unit, findings_of
from nki_lab.lsp.convert import lines_of
from nki_lab.lsp.server import Server
from nki_lab.lsp.texts import Module
from nki_lab.query.fixes.source_fixes import FIXABLE, has_rewriter
from nki_lab.query.fixes.text_edits import text_edits

TITLE: Final = "Fix all findings of nki-lab that have one exact remedy"
KIND: Final = f"{lsp.CodeActionKind.SourceFixAll.value}.nki"


def offered(unit: Unit, uri: str) -> list[lsp.CodeAction]:
    """Return the action, without its edits, for a text or a cell in whose file there is something to fix."""
    module = unit.module
    if module is None or not has_rewriter():
        return []
    found = findings_of(unit, module)
    if not any(item.code in FIXABLE and item.file == module.file for item in found):
        return []
    return [lsp.CodeAction(TITLE, KIND, data={"uri": uri, "kind": KIND})]


async def edits(server: Server, uri: str, seconds: float) -> lsp.WorkspaceEdit | None:
    """Return the edits of the file or notebook that a text belongs to; None where it has changed meanwhile."""
    unit = await server.checker.settled(uri, seconds)
    module = unit.module if unit is not None else None
    if unit is None or module is None or not unit.is_settled:
        return None
    reply = await server.checker.examiner.ask(server.checker.job(unit, module), mends=True)
    if reply.texts is None or unit.module is not module:
        return None
    return _workspace_edit(server, module, reply.texts)


def _workspace_edit(server: Server, module: Module, after: tuple[str, ...]) -> lsp.WorkspaceEdit:
    """Return the edits that make new texts of the sources of a module, by document."""
    changes: dict[str, list[lsp.TextEdit]] = {}
    above = 0
    for old, new in zip(module.sources, after, strict=True):
        before = lines_of(old)
        for span, text in text_edits(before, lines_of(new), module.file, above) if old != new else ():
            place = module.location(span, server.encoding)
            if place is not None:
                changes.setdefault(place.uri, []).append(lsp.TextEdit(place.range, text))
        above += len(before)
    return lsp.WorkspaceEdit(changes=changes)
