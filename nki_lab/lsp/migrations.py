"""The action "Migrate this file": the edits of `nki-lab migrate`, made when the author chooses it."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from lsprotocol import types as lsp

from nki_lab.diagnostic import Span
from nki_lab.lsp.server import Server
from nki_lab.lsp.texts import Module
from nki_lab.migrate import line_edits, migrated
from nki_lab.query import EvaluationRequest

TITLE: Final = "Migrate this file to the current nki"
KIND: Final = "source.migrate.nki"
"""A kind of its own: editors that fix all when a file is saved do not ask for it."""
_BETA1: Final = re.compile(r"^\s*(?:import|from)\s+neuronxcc\b", re.MULTILINE)


def offered(module: Module, uri: str) -> list[lsp.CodeAction]:
    """Return the action for a file of Beta 1, without its edits; notebooks have none."""
    if module.is_notebook or not _BETA1.search(module.text):
        return []
    return [lsp.CodeAction(TITLE, KIND, data={"uri": uri, "kind": KIND})]


async def edits(server: Server, uri: str) -> lsp.WorkspaceEdit | None:
    """Return the edits; None where the file is not open any more."""
    module = server.checker.module(uri)
    if module is None:
        return None
    request = EvaluationRequest(arch=server.settings.arch(module.file))
    done = await asyncio.to_thread(migrated, module.text, module.file, request)
    changes = []
    for span, text in line_edits(done.before, done.text, module.file):
        place = _place(module, span, server.encoding)
        if place is not None:
            changes.append(lsp.TextEdit(place.range, text))
    return lsp.WorkspaceEdit(changes={uri: changes})


def _place(module: Module, span: Span, encoding: str) -> lsp.Location | None:
    """Return a place; the one behind the last line is its end."""
    if span.line > len(module.lines):
        last = len(module.lines)
        end = len(module.lines[-1]) + 1
        return module.location(Span(span.file, last, end, last, end), encoding)
    if span.end_line > len(module.lines):
        last = len(module.lines)
        span = Span(span.file, span.line, span.column, last, len(module.lines[-1]) + 1)
    return module.location(span, encoding)
