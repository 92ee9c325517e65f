"""The editor's settings, first and later ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from nki_lab.lsp.convert import plain
from nki_lab.lsp.server import Requests, Server
from nki_lab.lsp.settings import SECTION
from nki_lab.lsp.watching import WATCHED

TARGET: Final = "nki-lab.target"
"""The command that gives the target which a text is checked for: `[uri]`."""


async def initialized(server: Server, _params: lsp.InitializedParams) -> None:
    """Read the first settings, and have the editor report later ones."""
    workspace = server.client_capabilities.workspace
    server.take_folders()
    wanted: list[tuple[str, object]] = []
    steps: list[Awaitable[object]] = []
    if workspace is not None and _registers(workspace.did_change_configuration):
        wanted.append((lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, None))
    if workspace is not None and _registers(workspace.did_change_watched_files):
        watchers = [lsp.FileSystemWatcher(pattern) for pattern in WATCHED]
        wanted.append((lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, lsp.DidChangeWatchedFilesRegistrationOptions(watchers)))
    if wanted:
        registrations = [lsp.Registration(id=method, method=method, register_options=more) for method, more in wanted]
        steps.append(server.client_register_capability_async(lsp.RegistrationParams(registrations)))
    if workspace is not None and workspace.configuration:
        steps.append(refresh(server, None))
    await asyncio.gather(*steps)  # an editor that refuses one is asked for the other all the same


def _registers(part: object) -> bool:
    return bool(getattr(part, "dynamic_registration", False))


async def configured(server: Server, params: lsp.DidChangeConfigurationParams) -> None:
    """Take the settings that came along, or ask for them; everything open is examined again."""
    await refresh(server, plain(params.settings))


async def refresh(server: Server, given: object) -> None:
    """Put settings in force, each folder's own: the editor's answer where it can be asked, else what it gave."""
    workspace, settings = server.client_capabilities.workspace, server.settings
    before = settings.state
    if workspace is not None and workspace.configuration:
        folders = list(server.project.folders.items())
        items = [lsp.ConfigurationItem(section=SECTION)]
        items += [lsp.ConfigurationItem(scope_uri=uri, section=SECTION) for uri, _ in folders]
        try:
            found = list(await server.workspace_configuration_async(lsp.ConfigurationParams(items)) or ())
        except JsonRpcException as error:
            server.complain(f"the editor's answer to {lsp.WORKSPACE_CONFIGURATION} has no settings: {error}")
            found = [given]
        settings.forget_folders()
        settings.take(plain(found[0]) if found else given)
        for (_, folder), values in zip(folders, found[1:], strict=False):
            settings.take(plain(values), str(folder))
    else:
        settings.take(given)
    if settings.state != before:
        server.project.forget()
        server.checker.again()


async def target(server: Server, uri: str) -> str | None:
    """Return the target that a text is checked for: a cell may name its own. None where the server does not have the
    text.
    """
    module = server.checker.module(uri)
    return None if module is None else server.arch_at(module, module.first_line(uri)).target


COMMANDS: Final[Mapping[str, Callable[..., Awaitable[object]]]] = {TARGET: target}
"""The command about settings."""

REQUESTS: Final[Requests] = {
    lsp.WORKSPACE_DID_CHANGE_CONFIGURATION: (configured, None),
    lsp.INITIALIZED: (initialized, None),
}
