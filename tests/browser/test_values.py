"""Values in JupyterLab: asked of a live kernel, missed where it is gone, and kept where the user pinned them."""

from __future__ import annotations

import pytest

from tests.browser.lab import ADD, START, Lab, Visualizer, Window

pytestmark = pytest.mark.extended

RUN = "y = 2 * x; y[3, 5] = np.nan; r = nki_lab.run(add, x, y)\n"


def open_values(shown: Visualizer) -> None:
    shown.root.get_by_role("tab", name="Values").click()
    shown.painted()


def test_values_come_from_the_kernel_until_it_is_gone(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook("values.ipynb", START + ADD, RUN + "r.view(step=0)")
    tab.open(jupyter, name)
    tab.run_all()
    shown = tab.visualizer()
    open_values(shown)
    region = shown.root.get_by_role("region", name="Values of")
    region.get_by_role("gridcell", name="1", exact=True).first.wait_for()
    assert "never written" in str(region.text_content())
    # The first NaN is loaded with the second argument; the key leads there, and on to the sum.
    shown.focus()
    shown.press("n")
    tab.page.wait_for_function("() => document.querySelector('.nki-values-figures .nki-over')")
    assert "NaN1" in str(region.locator(".nki-values-figures").text_content())
    region.locator(".nki-values-figures .nki-over button").click()
    assert "[3, 5]" in str(region.locator(".nki-values-readout").text_content())
    chosen = region.get_by_role("gridcell", selected=True)
    assert chosen.text_content() == "NaN"
    region.locator(".nki-values-box").first.focus()
    shown.press("ArrowRight")
    assert chosen.text_content() == "2"
    before = shown.step
    shown.focus()
    shown.press("n")
    tab.page.wait_for_function("step => Number(document.querySelector('input[type=range]').value) > step", arg=before)
    # Without a kernel the view says so, and goes on.
    tab.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    shown.slide(0)
    region.get_by_text("The kernel is").wait_for(timeout=15_000)


def test_a_saved_notebook_shows_pinned_values_without_a_kernel(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook("pinned.ipynb", START + ADD, RUN + "r.pin(r.program.outputs[0]._buffer.id)")
    tab.open(jupyter, name)
    tab.run_all()
    tab.visualizer()
    tab.save()
    tab.open(jupyter, name)
    shown = tab.visualizer()
    open_values(shown)
    shown.slide(int(shown.slider.get_attribute("max") or 0))
    region = shown.root.get_by_role("region", name="Values")
    region.get_by_text("Kept in the notebook").wait_for()
    assert "NaN1" in str(region.locator(".nki-values-figures").text_content())
    shown.slide(0)
    region.get_by_text("need the kernel").wait_for()
