"""Charts that are linked with a visualizer: in JupyterLab, whatever is chosen in the one moves the other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.lab import ADD, START, Lab, Window, answer

pytestmark = pytest.mark.extended

CHARTS = """from bokeh.io import output_notebook, show
from bokeh.resources import INLINE
from nki_lab import plots
output_notebook(INLINE, hide_banner=True)
chart = plots.utilisation(run, width=600)
view = run.view(step=0)
view.link(chart)
view
"""
RUN = 'run = nki_lab.run(add, x, x, target="trn2")'
FIGURE = "Bokeh.documents.flatMap(one => one.roots()).find(one => one.tags.includes('nki-over-time'))"


def told(tab: Window, expression: str) -> Any:
    return tab.page.evaluate(f"() => {{ const figure = {FIGURE}; return {expression}; }}")


def test_a_chart_moves_the_step_and_the_step_moves_the_chart(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook("linked.ipynb", START, ADD + RUN, CHARTS, "show(chart)", "print('step', view.step)")
    tab.open(jupyter, name)
    tab.run_all()
    drawn = tab.visualizer()
    tab.page.wait_for_function(f"() => window.Bokeh && {FIGURE}?.tags.some(tag => tag.startsWith('nki-linked'))")
    makespan = told(tab, "figure.x_range.bounds[1]")

    # From the chart: a tap goes to that time.
    told(tab, "figure.trigger_event({event_name: 'tap', x: figure.x_range.bounds[1] / 2, y: 0, origin: figure})")
    drawn.painted()
    moved = drawn.step
    assert moved > 0
    cursor = "figure.center.find(one => one.type === 'Span' && one.visible && one.dimension === 'height')"
    assert told(tab, f"{cursor}.location") > 0.25 * makespan

    # Its zoom is the view's, and the other way round.
    told(tab, "figure.x_range.setv({start: 0, end: figure.x_range.bounds[1] / 4})")
    drawn.painted()
    label = str(drawn.root.locator(".nki-tl").get_attribute("aria-label"))
    drawn.root.locator(".nki-tl-plot").focus()
    drawn.press("s")
    assert drawn.root.locator(".nki-tl").get_attribute("aria-label") != label
    assert told(tab, "figure.x_range.end") > makespan / 4

    # From the view: the next step moves the line of the chart, and the kernel knows it too.
    drawn.press("End")
    assert told(tab, f"{cursor}.location") > 0.5 * makespan
    tab.page.wait_for_timeout(300)
    tab.run(4)
    assert f"step {drawn.step}" in str(tab.page.locator(".jp-OutputArea-output").last.text_content())

    # From the kernel, through the view, to the chart.
    answer(
        tab.page,
        "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({code: 'view.step = 0'}).done",
    )
    tab.page.wait_for_function(f"() => {{ const figure = {FIGURE}; return {cursor}.location < 0.25 * {makespan}; }}")
