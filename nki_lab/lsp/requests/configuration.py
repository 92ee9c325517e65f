"""`workspace/didChangeConfiguration`: another target is checked."""

from __future__ import annotations

from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.convert import plain
from nki_lab.lsp.server import Server
from nki_lab.lsp.settings import SECTION

METHOD: Final = lsp.WORKSPACE_DID_CHANGE_CONFIGURATION
OPTIONS: Final = None


async def answer(server: Server, params: lsp.DidChangeConfigurationParams) -> None:
    """Take the settings that came along, or ask for them; everything open is examined again."""
    await refresh(server, plain(params.settings))


async def refresh(server: Server, given: object) -> None:
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
