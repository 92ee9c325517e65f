"""Asks the editor to ask again, once there is more to say about a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

SEMANTIC_TOKENS: Final = "semantic_tokens"
CODE_LENS: Final = "code_lens"
INLAY_HINT: Final = "inlay_hint"
"""What can be asked for again, as the editor's capabilities call it."""


class Refresher:
    """Remembers answers that were given too early, by the keys of their texts."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._early: dict[str, set[str]] = {}

    def later(self, key: str, kind: str) -> None:
        """Have the editor ask again when everything is known of a text."""
        self._early.setdefault(key, set()).add(kind)

    def settled(self, key: str) -> None:
        """Ask for what was answered too early: everything is known of a text by now."""
        for kind in sorted(self._early.pop(key, ())):
            self.now(kind)

    def now(self, kind: str) -> None:
        """Ask the editor to ask again, where it can be asked."""
        workspace = self._server.client_capabilities.workspace
        if getattr(getattr(workspace, kind, None), "refresh_support", False):
            calls: dict[str, Callable[[None], object]] = {
                SEMANTIC_TOKENS: self._server.workspace_semantic_tokens_refresh,
                CODE_LENS: self._server.workspace_code_lens_refresh,
                INLAY_HINT: self._server.workspace_inlay_hint_refresh,
            }
            calls[kind](None)

    def forget(self, key: str) -> None:
        """Forget a text that is closed."""
        self._early.pop(key, None)
