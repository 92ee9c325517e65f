"""The entry for jupyter-lsp: the notebook server starts `nki-ls` for NKI cells.

Python cells have servers already; where the environment variable NKI_LAB_LSP_PYTHON is set, this one is offered too.
"""

from __future__ import annotations

import os
import sys
from typing import Final

KEY: Final = "nki-ls"
PYTHON_VARIABLE: Final = "NKI_LAB_LSP_PYTHON"
COMMAND: Final = (sys.executable, "-P", "-m", "nki_lab.lsp")
"""Starts the server; -P: nothing that lies beside the notebooks is imported in place of a module."""


def spec(_manager: object = None) -> dict[str, dict[str, object]]:
    """Return the language server's entry, as the entry point group `jupyter_lsp_spec_v1` expects it."""
    python = bool(os.environ.get(PYTHON_VARIABLE))
    return {
        KEY: {
            "version": 2,
            "argv": list(COMMAND),
            "languages": ["nki", "python"] if python else ["nki"],
            "mime_types": ["text/x-nki", *(["text/python", "text/x-ipython"] if python else [])],
            "display_name": KEY,
            "urls": {},
        }
    }
