"""The editor, which runs nothing, says of every broken limit of the inventory what a run says."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_lab import spec
from tests.coverage.snippets import UNFILLED, Entry, entries, kernel_text
from tests.verdicts import evaluated

# These are found on the whole program, after it is made.
LATER = ("NKI314", "NKI401", "NKI404")
pytestmark = pytest.mark.slow
ENTRIES = [entry for entry in entries() if (entry.violation or entry.holds) and entry.door == "compile"]


def said(entry: Entry, body: str, *severities: str) -> list[str]:
    grid = (entry.cores,) if entry.cores else ()
    text = kernel_text(entry, body)
    _, made = evaluated(text, Path("limit_in_editor.py"), (spec((128, 64), "float32"),), entry.target, grid=grid)
    return [item.code for item in made.diagnostics if item.severity in severities]


@pytest.mark.parametrize("entry", ENTRIES, ids=[str(number) for number in range(len(ENTRIES))])
def test_it_is_said_in_the_editor_too(entry: Entry) -> None:
    if entry.code and entry.code not in LATER:
        assert entry.code in said(entry, entry.violation, "error", "warning")
    for body in filter(None, (entry.legal, entry.holds)):
        assert not [code for code in said(entry, body, "error") if code not in UNFILLED]
