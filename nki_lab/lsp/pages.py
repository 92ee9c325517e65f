"""The pages of codes and names, as the editor at hand can show them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lsprotocol import types as lsp

from nki_lab import query
from nki_lab.file_system import made_private_folder, remove_folder, write_whole

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

MOST_CHARACTERS: Final = 4000
"""Length of a message beyond which it is cut: some editors show messages in one line, and none scrolls well."""


class Pages:
    """Shows pages in the editor: as documents where it opens those, else as messages.

    A document is a Markdown file in a folder that only the user can read, and that ends with the server.
    """

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._folder: Path | None = None

    async def explain(self, name: str) -> str | None:
        """Show the page of a code or a name, and return its text; None, and a message, where there is none."""
        text = query.explain(name)
        if text is None:
            self._message(f"no code and no name of NKI is called {name}", lsp.MessageType.Warning)
            return None
        window = self._server.client_capabilities.window
        if window and window.show_document and window.show_document.support:
            params = lsp.ShowDocumentParams(self._file(name, text).as_uri(), external=False, take_focus=True)
            shown = await self._server.window_show_document_async(params)
            if shown.success:
                return text
        self._message(text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} …", lsp.MessageType.Info)
        return text

    def _message(self, text: str, kind: lsp.MessageType) -> None:
        self._server.window_show_message(lsp.ShowMessageParams(kind, text))

    def _file(self, name: str, text: str) -> Path:
        if self._folder is None:
            self._folder = made_private_folder("nki-lab-pages-")
        file = self._folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:80]}.md"
        write_whole(file, text.encode("utf-8", "replace"))
        return file

    def close(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            remove_folder(self._folder)
