"""The editor's settings, first and later ones."""

from __future__ import annotations

from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.convert import plain
from nki_lab.lsp.refreshing import CODE_LENS, INLAY_HINT
from nki_lab.lsp.server import Requests, Server
from nki_lab.lsp.settings import SECTION


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
    before, hints = server.settings.target, server.settings.hints
    server.settings.take(given)
    if server.settings.hints != hints:
        server.refresher.now(INLAY_HINT)
    if server.settings.target != before:
        for key in server.checker.units:
            server.refresher.later(key, CODE_LENS)
            server.refresher.later(key, INLAY_HINT)
        server.checker.again()


REQUESTS: Final[Requests] = {
    lsp.WORKSPACE_DID_CHANGE_CONFIGURATION: (configured, None),
    lsp.INITIALIZED: (initialized, None),
}
