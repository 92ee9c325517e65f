"""`%%nki` cells and the language server: marks stand where the faults are, without anybody having to type."""

from __future__ import annotations

import pytest

from tests.browser.lab import Lab, Window

pytestmark = pytest.mark.extended

CELL = """%%nki
import nki
import nki.language as nl

@nki.jit
def kernel(a):
    é = "🜂"; x = [i for i in range(3)]
    with nl.nothing:
        pass
    return a
"""


def test_cells_have_marks_as_soon_as_a_notebook_is_open(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("cells.ipynb", CELL, CELL.replace("%%nki\n", "")))
    nki, plain = tab.page.locator(".jp-Cell").all()
    marks = nki.locator(".nki-lab-squiggle.nki-lab-error")
    marks.first.wait_for()
    # What is marked is cut where colours change.
    assert "".join(marks.all_text_contents()) == "[i for i in range(3)]nl.nothing"
    assert plain.locator(".nki-lab-squiggle.nki-lab-error").count() == 0
