"""The signature of the call that is being typed."""

from __future__ import annotations

import asyncio
from typing import Final

from lsprotocol import types as lsp

from nki_lab import query
from nki_lab.lsp.checker import known_of
from nki_lab.lsp.markup import markup
from nki_lab.lsp.navigation import open_modules, workspace_of
from nki_lab.lsp.server import Requests, Server
from nki_lab.query.navigation.workspace import Workspace


async def signature_help(server: Server, params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
    """Return the signature of the call around a place, with the parameter at hand, its dtypes and limits."""
    uri = params.text_document.uri
    unit = await server.checker.settled(uri, 0.0, fully=False)
    module = server.checker.module(uri)
    at = None if module is None else module.place(uri, params.position, server.encoding)
    if unit is None or module is None or at is None:
        return None
    arch, known = server.arch_at(module, at[0]), known_of(unit, module)
    source = module.sources if module.is_notebook else module.text
    opened = open_modules(server)

    def files() -> Workspace:
        return workspace_of(server, module.file, opened)

    found = await asyncio.to_thread(
        query.signature_help, source, *at, module.file, target=arch, known=known, files=files
    )
    if found is None:
        return None
    text = server.client_capabilities.text_document
    able = text.signature_help.signature_information if text is not None and text.signature_help is not None else None
    offsets = able is not None and able.parameter_information is not None
    offsets = offsets and bool(able.parameter_information.label_offset_support)  # type: ignore[union-attr]
    formats = able.documentation_format if able is not None else None
    parameters = [
        lsp.ParameterInformation(
            (item.start, item.end) if offsets else found.label[item.start : item.end],
            markup(item.text, formats),
        )
        for item in found.parameters
    ]
    # An editor that knows no "none" takes a number beyond the last one, if not the first.
    active = found.active if found.active is not None else len(parameters)
    shown = lsp.SignatureInformation(found.label, found.doc or None, parameters, active)
    return lsp.SignatureHelp([shown], 0, active)


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_SIGNATURE_HELP: (
        signature_help,
        lsp.SignatureHelpOptions(trigger_characters=["(", ","], retrigger_characters=["=", ")"]),
    ),
}
