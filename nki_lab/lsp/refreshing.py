"""Asks the editor to ask again, once there is more to say about a text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

DIAGNOSTICS: Final = "diagnostics"
SEMANTIC_TOKENS: Final = "semantic_tokens"
CODE_LENS: Final = "code_lens"
INLAY_HINT: Final = "inlay_hint"
"""What can be asked for again, as the editor's capabilities call it."""

SOON_SECONDS: Final = 0.02
"""What can be asked for again waits so long for an evaluation."""
REFRESH_SECONDS: Final = 0.05
"""Changes that come together within this are one reason to ask again."""


class Refresher:
    """Remembers answers that were given too early, by the keys of their texts."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._early: dict[str, set[str]] = {}
        self._waiting: asyncio.TimerHandle | None = None

    def later(self, key: str, kind: str) -> None:
        """Have the editor ask again when everything is known of a text."""
        self._early.setdefault(key, set()).add(kind)

    def settled(self, key: str) -> None:
        """Ask for what was answered too early: everything is known of a text by now."""
        for kind in sorted(self._early.pop(key, ())):
            self.now(kind)

    def everything(self) -> None:
        """Ask the editor to ask again for all that it draws: once for changes that come together."""
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().call_later(REFRESH_SECONDS, self._ask)

    def _ask(self) -> None:
        self._waiting = None
        for kind in (DIAGNOSTICS, SEMANTIC_TOKENS, CODE_LENS, INLAY_HINT):
            self.now(kind)

    def can(self, kind: str) -> bool:
        """Return whether the editor can be asked to ask again."""
        return bool(getattr(getattr(self._server.client_capabilities.workspace, kind, None), "refresh_support", False))

    def now(self, kind: str) -> None:
        """Ask the editor to ask again, where it can be asked."""
        if self.can(kind):
            calls: dict[str, Callable[[None], object]] = {
                DIAGNOSTICS: self._server.workspace_diagnostic_refresh,
                SEMANTIC_TOKENS: self._server.workspace_semantic_tokens_refresh,
                CODE_LENS: self._server.workspace_code_lens_refresh,
                INLAY_HINT: self._server.workspace_inlay_hint_refresh,
            }
            calls[kind](None)

    def forget(self, key: str) -> None:
        """Forget a text that is closed."""
        self._early.pop(key, None)

    def close(self) -> None:
        """Ask for nothing any more."""
        if self._waiting is not None:
            self._waiting.cancel()
