"""Answers to the editor's requests, a module each: each converts a place, asks `query`, and converts back."""

from __future__ import annotations

from typing import Final

from nki_lab.lsp.requests import (
    calls,
    code_actions,
    code_lens,
    completion,
    configuration,
    diagnostics,
    files,
    hover,
    inlay_hints,
    places,
    rename,
    semantic_tokens,
    signature_help,
    symbols,
    workspace_diagnostics,
)
from nki_lab.lsp.server import Requests

_MODULES: Final = (
    calls,
    code_actions,
    code_lens,
    completion,
    configuration,
    diagnostics,
    files,
    hover,
    inlay_hints,
    places,
    rename,
    semantic_tokens,
    signature_help,
    symbols,
    workspace_diagnostics,
)

REQUESTS: Final[Requests] = {method: answer for module in _MODULES for method, answer in module.REQUESTS.items()}
"""The answers by method, with the offers that the server makes of them."""

COMMANDS: Final = {**code_lens.COMMANDS, **configuration.COMMANDS}
"""The commands that clients may execute, by name, beside those of the server itself."""
