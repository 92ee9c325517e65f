"""The charts of a summary: bokeh's, drawn when they are asked for, in the page's theme, without any network."""

from __future__ import annotations

import os
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import ADD, SECONDS, START, Lab, Window, window

pytestmark = pytest.mark.extended

RUN = ADD + 'nki_lab.run(add, x, x, target="trn2").view(step=0)'
WITHOUT = "import sys; sys.modules['bokeh'] = None"
OURS = "globalThis[Symbol.for('nki-lab.bokeh')]"
FIGURES = f"{OURS}.documents.flatMap(one => one.roots())"


def _summary(tab: Window) -> Any:
    drawn = tab.visualizer()
    drawn.root.get_by_role("tab", name="Summary").click()
    return drawn.root.get_by_role("region", name="Charts")


def _drawn(tab: Window, place: Any) -> None:
    place.get_by_role("button", name="Show charts").click()
    expect(place.locator(".nki-chart")).to_have_count(6, timeout=SECONDS * 1000)
    tab.page.wait_for_function(f"() => {FIGURES}.length === 6 && {FIGURES}.every(one => one.inner_width > 0)")
    tab.page.wait_for_timeout(300)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_summary_draws_charts_in_the_theme_of_the_page(jupyter: Lab, browser: Browser, *, dark: bool) -> None:
    with window(browser, dark=dark) as tab:
        tab.open(jupyter, jupyter.notebook(f"charts-{dark}.ipynb", START, RUN))
        if dark:
            tab.theme("dark")
        tab.run_all()
        place = _summary(tab)
        _drawn(tab, place)
        place.scroll_into_view_if_needed()
        fills = tab.page.evaluate(f"() => {FIGURES}.map(one => one.background_fill_color?.value ?? null)")
        grounds = {str(fill).upper() for fill in fills if fill}
        assert grounds <= ({"#16181C"} if dark else {"#FFFFFF"}), fills
        if folder := os.environ.get("NKI_LAB_PICTURES"):
            place.screenshot(path=f"{folder}/charts-{'dark' if dark else 'light'}.png")
        assert not tab.requests and not tab.errors

        # They are linked with the timeline.
        tab.page.evaluate(
            f"""() => {{ const figure = {FIGURES}.find(one => one.tags.includes('nki-over-time'));
                figure.trigger_event({{event_name: 'tap', x: figure.x_range.bounds[1] / 2, y: 0, origin: figure}}); }}"""
        )
        tab.page.get_by_role("tab", name="Explore").click()
        assert tab.visualizer().step > 0
        tab.theme("light")  # which the other tests' pages begin with


def test_without_bokeh_a_summary_says_what_to_install(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("without.ipynb", START, WITHOUT, RUN))
    tab.run_all()
    place = _summary(tab)
    place.get_by_role("button", name="Show charts").click()
    expect(place).to_contain_text("pip install 'nki-lab[plots]'", timeout=SECONDS * 1000)
    expect(place.get_by_role("button", name="Show charts")).to_be_enabled()
