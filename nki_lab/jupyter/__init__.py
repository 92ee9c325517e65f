"""The extension of Jupyter Server: `%%nki` cells in a browser reach the language server through it.

JupyterLab and Notebook 7 load it because `etc/jupyter/jupyter_server_config.d/nki_lab.json` names it.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Return the modules that have extensions, as Jupyter Server asks for them."""
    return [{"module": "nki_lab.jupyter"}]


def _load_jupyter_server_extension(server: Any) -> None:
    """Add the extension's addresses to a starting server."""
    from nki_lab.jupyter.handlers import handlers

    server.web_app.add_handlers(".*$", handlers(server.web_app.settings["base_url"]))
