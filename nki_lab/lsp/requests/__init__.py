"""Answers to the editor's requests, a module each: each converts a place, asks `query`, and converts back."""

from __future__ import annotations

from typing import Final

from nki_lab.lsp.requests import (
    code_actions,
    configuration,
    diagnostics,
    files,
    hover,
    inlay_hints,
    workspace_diagnostics,
)
from nki_lab.lsp.server import Requests

_MODULES: Final = (diagnostics, hover, code_actions, inlay_hints, configuration, files, workspace_diagnostics)

REQUESTS: Final[Requests] = {method: answer for module in _MODULES for method, answer in module.REQUESTS.items()}
"""The answers by method, with the offers that the server makes of them."""
