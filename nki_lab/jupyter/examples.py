"""The example notebooks, as they were installed with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_path

CHECKOUT = Path(__file__).resolve().parents[2] / "examples"


def names() -> list[str]:
    """Return the file names of the examples, in the order to read them."""
    folder = _folder()
    return [] if folder is None else sorted(file.name for file in folder.glob("*.ipynb"))


def content(name: str) -> dict[str, Any] | None:
    """Return an example; None where there is none of the name."""
    folder = _folder()
    if folder is None or name not in names():
        return None
    found: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return found


def _folder() -> Path | None:
    places = [*(Path(place) for place in jupyter_path("nki-lab", "examples")), CHECKOUT]
    return next((place for place in places if place.is_dir()), None)
