"""A run in JupyterLab while it runs: its view, its end, and what users do to it meanwhile."""

from __future__ import annotations

import time

import pytest

from tests.browser.lab import PATIENCE, SECONDS, START, Lab, Window

pytestmark = pytest.mark.extended

CHAIN = """%%nki --target trn2
@nki.jit
def chain(a, n):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(n):
        t = nl.load(a)
        u = nl.multiply(nl.exp(t), 0.5)
        nl.store(out, nl.add(u, t))
    return out

chain(np.ones((128, 12288), np.float32), COUNT)
"""
LONG = CHAIN.replace("COUNT", "8000")  # so long that a fast machine draws it before its end: it is cancelled
_PROMPT = ".jp-InputPrompt"


class Cell:
    """A cell that runs a kernel."""

    def __init__(self, tab: Window, number: int) -> None:
        self._tab, self._number = tab, number
        self.place = tab.page.locator(".jp-Cell").nth(number)
        self.bar = self.place.locator(".nki-running")

    def begin(self) -> None:
        """Start the cell, and wait for nothing."""
        self._tab.page.evaluate(
            "number => { const notebook = jupyterapp.shell.currentWidget.content; notebook.activeCellIndex = number;"
            " void jupyterapp.commands.execute('notebook:run-cell'); }",
            self._number,
        )

    def until_drawn(self) -> None:
        """Wait until the run's timeline is there while it runs."""
        self.bar.wait_for(timeout=SECONDS * 1000)
        self.place.locator(".nki-visualizer[data-running] .nki-tl").wait_for(timeout=SECONDS * 1000)

    @property
    def runs(self) -> bool:
        """Whether the cell still runs."""
        return "*" in (self.place.locator(_PROMPT).text_content() or "")

    def until_over(self, seconds: float = SECONDS) -> float:
        """Wait for the end of the cell; gives the seconds that it took."""
        start = time.monotonic()
        while self.runs:
            assert time.monotonic() - start < seconds, "the cell still runs"
            self._tab.page.wait_for_timeout(20)
        return time.monotonic() - start

    def outputs(self) -> list[str]:
        """The outputs' texts."""
        return [str(text) for text in self.place.locator(".jp-OutputArea-output").all_text_contents()]


def _opened(jupyter: Lab, tab: Window, name: str, *cells: str) -> None:
    tab.open(jupyter, jupyter.notebook(name, START, *cells))
    tab.run(0)


def test_a_run_is_seen_while_it_runs_and_is_cancelled_by_its_button(jupyter: Lab, tab: Window) -> None:
    _opened(jupyter, tab, "live.ipynb", LONG, CHAIN.replace("COUNT", "3"))
    cell = Cell(tab, 1)
    cell.begin()
    cell.until_drawn()
    assert "numerics" in cell.bar.inner_text()
    assert "of 40 k instructions" in cell.bar.inner_text()
    # What is drawn can be used, and the result takes over where the user was.
    slider = cell.place.get_by_role("toolbar", name="Transport").locator("input[type=range]")
    slider.fill("17")
    tab.visualizer().painted()
    assert "Step 18 of" in " ".join((cell.place.locator(".nki-where").text_content() or "").split())
    cell.place.locator(".nki-cancel").click()
    cell.until_over()
    tab.visualizer().painted()
    assert "Step 18 of" in tab.visualizer().where
    assert "cancelled after" in (cell.place.locator(".nki-title").text_content() or "")
    assert cell.bar.count() == 0
    said = [text for text in cell.outputs() if text.startswith("Cancelled: ")]
    assert len(said) == 1
    assert "Traceback" not in "".join(cell.outputs())
    # The kernel goes on.
    after = Cell(tab, 2)
    after.begin()
    after.until_over()
    after.place.locator(".nki-where b").wait_for(timeout=SECONDS * 1000)
    assert "cancelled" not in (after.place.locator(".nki-title").text_content() or "")


def test_a_run_grows_while_it_is_traced_and_timed_and_what_grew_stays(jupyter: Lab, tab: Window) -> None:
    # Tiles of sizes that do not repeat, so that timing takes its time.
    many = CHAIN.replace("COUNT", "60000").replace("12288", "64")
    many = many.replace("nl.load(a)", "nl.load(a[:, 0:width])").replace("nl.store(out,", "nl.store(out[:, 0:width],")
    many = many.replace("(n):\n", "(n):\n        width = 1 + (i * 2654435761 >> 16) % 61\n")
    # A slow page is told so rarely that it could miss all of the walk, which takes a second.
    often = "from nki_lab.magic import live\nlive._LONGEST = live._EVERY"
    _opened(jupyter, tab, "grows.ipynb", often, many)
    tab.run(1)
    cell = Cell(tab, 2)
    cell.begin()
    growing = cell.place.locator(".nki-growing")
    growing.get_by_text("program order so far").first.wait_for(timeout=SECONDS * 1000)
    assert {"Vector", "Scalar", "DMA", "SBUF"} <= set(growing.inner_text().split())
    growing.get_by_text("timed until").wait_for(timeout=PATIENCE * 1000)  # all of it is traced before
    cell.place.locator(".nki-cancel").click()
    cell.until_over()
    assert "cancelled" in cell.bar.inner_text()
    assert "timed until" in growing.inner_text()
    assert cell.place.locator(".nki-cancel").is_hidden()
    assert [text for text in cell.outputs() if text.startswith("Cancelled: chain was cancelled after 300,000 ")]


def test_a_run_that_ends_gives_its_view_to_the_result_once(jupyter: Lab, tab: Window) -> None:
    _opened(
        jupyter,
        tab,
        "ends.ipynb",
        CHAIN.replace("chain(np", "run = nki_lab.run(chain, np").replace("COUNT", "400") + "run\n",
        "_.name",
    )
    cell = Cell(tab, 1)
    cell.begin()
    cell.bar.wait_for(timeout=SECONDS * 1000)
    cell.until_over()
    cell.place.locator(".nki-where b").wait_for(timeout=SECONDS * 1000)
    assert cell.bar.count() == 0
    assert cell.place.locator(".nki-visualizer").count() == 1
    value = Cell(tab, 2)
    value.begin()
    value.until_over()
    assert value.outputs() == ["'chain'"]


def test_a_long_run_that_is_too_large_for_the_notebook_gives_its_view_to_a_widget(jupyter: Lab, tab: Window) -> None:
    limit = "import os\nos.environ['NKI_LAB_NOTEBOOK_BYTES'] = '100'"
    _opened(jupyter, tab, "long_and_large.ipynb", limit, CHAIN.replace("COUNT", "400"))
    tab.run(1)
    cell = Cell(tab, 2)
    cell.begin()
    cell.bar.wait_for(timeout=SECONDS * 1000)
    cell.until_over()
    drawn = tab.visualizer()
    assert cell.bar.count() == 0
    assert cell.place.locator(".nki-visualizer").count() == 1
    drawn.focus()
    drawn.press("End")
    assert drawn.step == 1999
    assert "Too large to be kept" not in cell.place.inner_text()


@pytest.mark.slow
def test_escape_stops_a_run(jupyter: Lab, tab: Window) -> None:
    _opened(jupyter, tab, "escape.ipynb", LONG)
    cell = Cell(tab, 1)
    cell.begin()
    cell.until_drawn()
    cell.place.locator(".nki-where").click()
    tab.page.keyboard.press("Escape")
    cell.until_over()
    assert any(text.startswith("Cancelled: ") for text in cell.outputs())


@pytest.mark.slow
def test_a_run_goes_on_without_its_view(jupyter: Lab, tab: Window) -> None:
    _opened(jupyter, tab, "closed.ipynb", CHAIN.replace("COUNT", "1200"))
    cell = Cell(tab, 1)
    cell.begin()
    cell.bar.wait_for(timeout=SECONDS * 1000)
    tab.command("notebook:clear-cell-output")
    assert cell.bar.count() == 0
    cell.until_over()
    assert not any("Cancelled" in text or "Error" in text for text in cell.outputs())


@pytest.mark.slow
def test_a_cell_that_runs_again_draws_its_second_run(jupyter: Lab, tab: Window) -> None:
    _opened(jupyter, tab, "again.ipynb", LONG)
    cell = Cell(tab, 1)
    cell.begin()
    cell.until_drawn()
    cell.begin()  # it waits for the first run, whose view goes
    tab.page.wait_for_timeout(500)
    assert cell.place.locator(".nki-visualizer").count() == 0
    tab.command("notebook:interrupt-kernel")  # JupyterLab gives up what waits, too
    cell.until_over()
    cell.begin()
    cell.until_drawn()
    assert cell.place.locator(".nki-visualizer").count() == 1
    cell.place.locator(".nki-cancel").click()
    cell.until_over()
    assert cell.place.locator(".nki-visualizer").count() == 1


def test_a_restarted_kernel_leaves_what_is_drawn(jupyter: Lab, tab: Window) -> None:
    _opened(jupyter, tab, "restart.ipynb", LONG)
    cell = Cell(tab, 1)
    cell.begin()
    cell.until_drawn()
    tab.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    cell.place.get_by_text("The kernel was restarted, and the run ended with it.").wait_for(timeout=SECONDS * 1000)
    assert cell.place.locator(".nki-tl").is_visible()
    assert "What is drawn stays" in cell.bar.inner_text()
    cell.place.get_by_role("toolbar", name="Transport").locator("input[type=range]").fill("5")
    tab.visualizer().painted()
    assert "Step 6 of" in " ".join((cell.place.locator(".nki-where").text_content() or "").split())
