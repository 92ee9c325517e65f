"""The location of the built views, for pages that include them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parents[1] / "widgets" / "static"
"""`visualizer.js` draws the message that a page carries in itself, `widget.js` is the notebook widget."""


@cache
def script(name: str) -> str:
    """The text of a built script."""
    return (STATIC / name).read_text(encoding="utf-8")
