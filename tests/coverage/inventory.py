"""The inventory of what NKI publishes, and which of it these tests compute and compare with a reference.

`nki_api.json` lists the names of NKI 0.6 and what is stated about their limits, in our words. Instructions are compared
where they are drawn at random and have a reference; for the other names `values.toml` has an expression each, and what
it gives by NumPy.
"""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent


@cache
def inventory() -> dict[str, Any]:
    """The inventory: `release` and `items`."""
    found: dict[str, Any] = json.loads((FOLDER / "nki_api.json").read_text(encoding="utf-8"))
    return found


@cache
def values() -> dict[str, list[str]]:
    """By item the body of a kernel and the expression that gives its result."""
    return tomllib.loads((FOLDER / "values.toml").read_text(encoding="utf-8"))


BETWEEN_RANKS: Final = ("nki.collectives.all_gather_v",)
"""Items that need several ranks: tests/test_ranks_of_any_length.py compares them."""


def compared(name: str) -> bool:
    """Whether tests compute the item and compare the result."""
    from tests.reference.table import REFERENCES
    from tests.strategies import DRAWS

    instruction = name.removeprefix("nki.isa.")
    return name in values() or name in BETWEEN_RANKS or (instruction in DRAWS and instruction in REFERENCES)
