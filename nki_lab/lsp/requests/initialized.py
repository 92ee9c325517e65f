"""`initialized`: the first settings, and the wish to hear of later ones."""

from __future__ import annotations

from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.requests.configuration import refresh
from nki_lab.lsp.server import Server

METHOD: Final = lsp.INITIALIZED
OPTIONS: Final = None


async def answer(server: Server, params: lsp.InitializedParams) -> None:
    """Read the settings."""
    workspace = server.client_capabilities.workspace
    wants = workspace.did_change_configuration if workspace is not None else None
    if wants is not None and wants.dynamic_registration:
        method = lsp.WORKSPACE_DID_CHANGE_CONFIGURATION
        registration = lsp.Registration(id=method, method=method)
        await server.client_register_capability_async(lsp.RegistrationParams([registration]))
    if workspace is not None and workspace.configuration:
        await refresh(server, None)
