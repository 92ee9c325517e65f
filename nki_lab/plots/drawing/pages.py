"""Figures as pages that need no network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bokeh.embed import file_html
from bokeh.models import UIElement
from bokeh.resources import INLINE

from nki_lab.diagnostic import coded_error
from nki_lab.export.colours import COLOURS
from nki_lab.export.files import replacing

_STYLE: Final = (
    f"<style>:root {{ color-scheme: light dark }} body {{ margin: 16px; background: {COLOURS['bg'].light} }}\n"
    f"@media (prefers-color-scheme: dark) {{ body {{ background: {COLOURS['bg'].dark} }} }}</style>\n"
)


def save(figures: Any, path: str | os.PathLike[str], *, title: str = "NKI charts") -> Path:
    """Write a figure, or several below each other, as one HTML file that needs no network; return its path.

    NKI012 of what is no figure, NKI021 where the disk does not take the file.
    """
    parts = list(figures) if isinstance(figures, Sequence) else [figures]
    if not parts or not all(isinstance(part, UIElement) for part in parts):
        raise coded_error("NKI012", "save takes bokeh figures", operand="figures", limit="a figure, or a list of them")
    page = file_html(parts, INLINE, title).replace("</head>", f"{_STYLE}</head>", 1)
    with replacing(path) as stream:
        stream.write(page.encode())
    return Path(path)
