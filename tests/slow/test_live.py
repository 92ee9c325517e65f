"""A run of a minute in JupyterLab: how soon it stops when its view is told to, and what watching it costs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.lab import OTHER_CLIENT, SECONDS, START, Lab, Window, chromium, lab, window
from tests.browser.test_live import Cell

MOST = 0.5
"""Seconds until the run has stopped."""
SHARE = 0.02
"""The share of the run's processor time that all other threads of the kernel may take."""

KERNEL = """%%nki --target trn2
import time

@nki.jit
def chain(a, n):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(n):
        t = nl.load(a)
        u = nl.multiply(nl.exp(t), 0.5)
        nl.store(out, nl.add(u, t))
    return out

x = np.ones((128, 4096), np.float32)
chain(x, 2)
begun = time.time()
before = time.process_time(), time.thread_time()
try:
    chain(x, COUNT)
finally:
    after = time.process_time(), time.thread_time()
    stopped = time.time()
"""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Lab, Window]]:
    with lab(tmp_path, without=(OTHER_CLIENT,)) as server, chromium() as browser, window(browser) as tab:
        yield server, tab


def _value(tab: Window, number: int) -> object:
    cell = Cell(tab, number)
    cell.begin()
    cell.until_over()
    return ast.literal_eval(cell.outputs()[0])


@pytest.mark.slow
def test_a_run_of_a_minute_stops_at_once(opened: tuple[Lab, Window], capsys: pytest.CaptureFixture[str]) -> None:
    server, tab = opened
    tab.open(server, server.notebook("long.ipynb", START, KERNEL.replace("COUNT", "15000"), "stopped, begun"))
    tab.run(0)
    cell = Cell(tab, 1)
    cell.begin()
    cell.bar.wait_for(timeout=SECONDS * 1000)
    cell.place.get_by_text("numerics").wait_for(timeout=2 * SECONDS * 1000)
    tab.page.wait_for_timeout(3000)
    clicked = tab.page.evaluate(
        "() => { const at = Date.now() / 1000; document.querySelector('.nki-cancel').click(); return at; }"
    )
    drawn = cell.until_over()
    stopped, begun = _value(tab, 2)  # type: ignore[misc]
    with capsys.disabled():
        print(
            f"\nstopped {stopped - clicked:.2f} s after the click, drawn {drawn:.2f} s, after {clicked - begun:.0f} s"
        )
    assert stopped - clicked < MOST
    assert any(text.startswith("Cancelled: ") for text in cell.outputs())


@pytest.mark.slow
def test_watching_a_run_costs_next_to_nothing(opened: tuple[Lab, Window], capsys: pytest.CaptureFixture[str]) -> None:
    server, tab = opened
    show = "(after[0] - before[0], after[1] - before[1])"
    tab.open(
        server, server.notebook("watched.ipynb", START, KERNEL.replace("COUNT", "3000").replace("4096", "8192"), show)
    )
    tab.run(0)
    cell = Cell(tab, 1)
    cell.begin()
    cell.bar.wait_for(timeout=SECONDS * 1000)
    cell.until_over(10 * SECONDS)
    everything, run = _value(tab, 2)  # type: ignore[misc]
    with capsys.disabled():
        print(f"\n{everything:.2f} s of processor, {(everything - run) / run:.2%} of it beside the run")
    assert everything - run <= SHARE * run
