"""Renaming, across files and cells."""

from __future__ import annotations

from typing import Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from nki_lab.diagnostic import NkiError
from nki_lab.lsp.navigation import Asked, asked
from nki_lab.lsp.server import Requests, Server
from nki_lab.query.navigation import renames


class RequestRefusedError(JsonRpcException):
    """The error that an editor shows to its user: the request was valid, and is not granted."""

    CODE = lsp.LSPErrorCodes.RequestFailed.value
    MESSAGE = "Request failed"


async def prepare(server: Server, params: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder | None:
    """Return the name at a position with its place; None where there is none. NKI033 for those of others."""

    def answer(about: Asked) -> lsp.PrepareRenamePlaceholder | None:
        mention = about.mention(params.position)
        place = None if mention is None else about.range(mention.span)
        if mention is None or place is None:
            return None
        return lsp.PrepareRenamePlaceholder(place, renames.root_of(about.resolver, about.reading, mention).name)

    try:
        return await asked(server, params.text_document.uri, answer)
    except NkiError as error:
        raise _refused(error) from None


async def rename(server: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
    """Return the edits that give the name at a position another spelling, and nothing another meaning; NKI033 else."""

    def answer(about: Asked) -> lsp.WorkspaceEdit | None:
        mention = about.mention(params.position)
        if mention is None:
            return None
        return about.edit(renames.rename(about.resolver, about.reading, mention, params.new_name))

    try:
        return await asked(server, params.text_document.uri, answer, wide=True)
    except NkiError as error:
        raise _refused(error) from None


def _refused(error: NkiError) -> RequestRefusedError:
    (item,) = error.diagnostics
    return RequestRefusedError(f"{item.code} {item.message}; {item.help}")


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_RENAME: (rename, lsp.RenameOptions(prepare_provider=True)),
    lsp.TEXT_DOCUMENT_PREPARE_RENAME: (prepare, None),
}
