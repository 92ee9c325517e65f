"""The command `nki-lab.explain`: the page of a code, as `nki-lab explain` prints it."""

from __future__ import annotations

from typing import Final

from nki_lab import query

COMMAND: Final = "nki-lab.explain"


def run(name: str) -> str | None:
    """Return the Markdown about a code, an instruction or a name of `nki.language`; None for anything else."""
    return query.explain(name)
