"""Files that are saved, created, renamed and deleted, and folders of the editor's that come and go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lsprotocol import types as lsp

from nki_lab.lsp.requests import configuration
from nki_lab.lsp.server import Requests, Server
from nki_lab.lsp.texts import path_of
from nki_lab.lsp.watching import SETTINGS
from nki_lab.query.source_tree import SUFFIXES

_FILTERS: Final = lsp.FileOperationRegistrationOptions(
    [lsp.FileOperationFilter(lsp.FileOperationPattern(f"**/*{suffix}"), "file") for suffix in SUFFIXES]
    + [lsp.FileOperationFilter(lsp.FileOperationPattern("**/*", lsp.FileOperationPatternKind.Folder), "file")]
)


async def saved(server: Server, params: lsp.DidSaveTextDocumentParams) -> None:
    """Examine a saved text, and what imports it, at once."""
    server.checker.saved(params.text_document.uri)


async def watched(server: Server, params: lsp.DidChangeWatchedFilesParams) -> None:
    """Take note of files that changed on the disk."""
    changed(server, (item.uri for item in params.changes))


async def created(server: Server, params: lsp.CreateFilesParams) -> None:
    """Take note of new files."""
    changed(server, (item.uri for item in params.files))


async def renamed(server: Server, params: lsp.RenameFilesParams) -> None:
    """Take note of files with new names."""
    changed(server, (uri for item in params.files for uri in (item.old_uri, item.new_uri)))


async def deleted(server: Server, params: lsp.DeleteFilesParams) -> None:
    """Take note of files that are no more."""
    changed(server, (item.uri for item in params.files))


def changed(server: Server, uris: Iterable[str]) -> None:
    """Examine again what may depend on files; after a change of settings, everything."""
    names = {Path(path).name for uri in uris if (path := path_of(uri))}
    if any(name.endswith(SETTINGS) for name in names):
        server.project.forget()
        server.checker.again()
    elif names:
        server.checker.files_changed()
        server.project.note_change()


async def folders(server: Server, _params: lsp.DidChangeWorkspaceFoldersParams) -> None:
    """Take the editor's folders, with their settings."""
    server.take_folders()
    await configuration.refresh(server, None)


REQUESTS: Final[Requests] = {
    lsp.TEXT_DOCUMENT_DID_SAVE: (saved, lsp.SaveOptions(include_text=False)),
    lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES: (watched, None),
    lsp.WORKSPACE_DID_CREATE_FILES: (created, _FILTERS),
    lsp.WORKSPACE_DID_RENAME_FILES: (renamed, _FILTERS),
    lsp.WORKSPACE_DID_DELETE_FILES: (deleted, _FILTERS),
    lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: (folders, None),
}
