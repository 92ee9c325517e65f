"""What a notebook keeps of a run: it is drawn without the kernel that made it."""

from __future__ import annotations

import copy
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from nki_lab.export.colours import COLOURS
from nki_lab.widgets import ABOUT, MIME
from tests.browser.lab import ADD, START, Lab, Visualizer, Window, window

pytestmark = pytest.mark.extended

LINES = "\n".join(f"print('line {number}')" for number in range(120))  # more than a window shows
RUN = 2  # the cell below them


@pytest.fixture(scope="module")
def saved(jupyter: Lab, browser: Browser) -> tuple[Any, set[str]]:
    """Run and save a notebook in JupyterLab: gives it, and the colours of its timeline."""
    name = jupyter.notebook("saved.ipynb", START, LINES, f"%%nki --target trn2\n{ADD}add(x, x);")
    with window(browser) as made:
        made.open(jupyter, name)
        made.run_all()
        colours = timeline_colours(made.visualizer())
        made.save()
        assert made.requests == made.errors == []
    return nbformat.read(jupyter.folder / name, 4), colours


def reopened(tab: Window, jupyter: Lab, notebook: Any, name: str) -> None:
    """Open a notebook whose kernel this machine does not have."""
    spec = {"kernelspec": {"name": "elsewhere", "display_name": "", "language": "other"}}
    notebook.metadata = nbformat.from_dict(spec)
    nbformat.write(notebook, jupyter.folder / name)
    tab.open(jupyter, name, kernel=False)


def test_a_reopened_run_below_the_first_viewport_has_its_colours_and_steps_without_a_kernel(
    jupyter: Lab, tab: Window, saved: tuple[Any, set[str]]
) -> None:
    notebook, expected = copy.deepcopy(saved)
    (output,) = notebook.cells[RUN].outputs
    assert set(output.data) == {"text/plain", "text/html", "image/png", MIME, ABOUT}
    assert {_rgb("dma"), _rgb("vector"), _rgb("bg")} <= expected
    reopened(tab, jupyter, notebook, "reopened.ipynb")
    drawn = tab.visualizer()
    assert tab.kernel_status() is None
    assert timeline_colours(drawn) == expected
    drawn.focus()
    drawn.press("Home", "ArrowRight", "ArrowRight")
    assert drawn.step == 2


def _rgb(name: str) -> str:
    """A colour of the light theme as a canvas tells it."""
    red, green, blue = bytes.fromhex(COLOURS[name].light.removeprefix("#"))
    return f"rgb({red}, {green}, {blue})"


def timeline_colours(drawn: Visualizer) -> set[str]:
    """The colours that fill at least a thousandth of the timeline's canvases."""
    drawn.painted()
    colours: list[str] = drawn.root.locator(".nki-slot-timeline").evaluate(_COLOURS)
    return set(colours)


_COLOURS = """slot => {
  const counts = new Map();
  let all = 0;
  for (const canvas of slot.querySelectorAll('canvas')) {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] < 255) continue;
      const colour = `rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`;
      counts.set(colour, (counts.get(colour) ?? 0) + 1);
      all += 1;
    }
  }
  return [...counts].filter(([, count]) => count * 1000 > all).map(([colour]) => colour);
}"""


def test_a_damaged_message_says_so_and_leaves_the_rest(jupyter: Lab, tab: Window, saved: tuple[Any, set[str]]) -> None:
    notebook, _ = copy.deepcopy(saved)
    good = notebook.cells[RUN].outputs[0]
    bad = nbformat.from_dict({**good, "data": {MIME: {"version": 1, "message": good.data[MIME]["message"][:200]}}})
    notebook.cells[RUN].outputs = [bad, good]
    reopened(tab, jupyter, notebook, "damaged.ipynb")
    drawn = tab.visualizer(1)
    assert drawn.name == "add"
    expect(tab.page.locator(".nki-visualizer").first).to_contain_text("cannot be shown")


def test_what_is_drawn_outlives_the_kernel(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook("restart.ipynb", START, f"%%nki\n{ADD}run = nki_lab.run(add, x, x)", "run.view()")
    tab.open(jupyter, name)
    tab.run_all()
    for number in (1, 0):
        tab.visualizer(number)
    tab.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    tab.page.wait_for_timeout(1500)
    for number in (0, 1):
        drawn = tab.visualizer(number)
        drawn.focus()
        drawn.press("Home", "ArrowRight", "ArrowRight")
        assert drawn.step == 2


def test_a_run_that_is_too_large_for_the_notebook_is_a_widget(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook("large.ipynb", "import os\nos.environ['NKI_LAB_NOTEBOOK_BYTES'] = '100'", START,
                            f"%%nki\n{ADD}add(x, x);")  # fmt: skip
    tab.open(jupyter, name)
    tab.run_all()
    drawn = tab.visualizer()
    drawn.focus()
    drawn.press("End")
    assert drawn.step == 3
    tab.save()
    (output,) = nbformat.read(jupyter.folder / name, 4).cells[2].outputs
    assert MIME not in output.data
    assert "Too large to be kept in a notebook" in output.data["text/html"]
