"""A kernel author's loop in a real JupyterLab: a place survives an edit, runs have tabs and a panel, parts fold."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.lab import ADD, START, Lab, Visualizer, Window, window

pytestmark = pytest.mark.extended

LOOP = """%%nki --target trn2
@nki.jit
def rows(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(6):
        tile = nl.load(a[i * 128 : i * 128 + 128])
        twice = nl.multiply(tile, 2.0)
        nl.store(out[i * 128 : i * 128 + 128], twice)
    return out
rows(np.ones((768, 256), np.float32));"""
EDITED = LOOP.replace("        twice", "        # one more operation\n        tile = nl.exp(tile)\n        twice")
RENAMED = LOOP.replace("    for i", "    # six tiles of rows\n    for i")
SEVERAL = f"%%nki --target trn2\n{ADD}add(x[:8], x[:8])\nadd(x, x)\nadd(x[:64], x[:64]);"
PANEL = ".nki-lab-panel"


def edit(tab: Window, number: int, text: str) -> None:
    tab.page.evaluate(
        """([number, text]) => {
            const { sharedModel } = jupyterapp.shell.currentWidget.content.widgets[number].model;
            sharedModel.setSource(text);
        }""",
        [number, text],
    )


def notebook_in_front(tab: Window) -> None:
    tab.page.evaluate(
        """() => { const all = [...jupyterapp.shell.widgets('main')];
                   jupyterapp.shell.activateById(all.find(item => item.content && item.content.widgets).id); }"""
    )
    tab.page.wait_for_function("() => jupyterapp.shell.currentWidget.content?.widgets !== undefined")


def in_panel(tab: Window) -> Visualizer:
    """The visualizer of the panel, as soon as it has drawn its run."""
    place = tab.page.locator(f"{PANEL} .nki-visualizer")
    place.locator(".nki-where b").wait_for()
    return Visualizer(tab.page, place)


def state(drawn: Visualizer) -> tuple[str, str]:
    """The line and the loops of the cursor."""
    pinned = drawn.root.locator(".nki-pinned .nki-line[aria-current=true] .nki-line-text")
    line = drawn.root.locator(".nki-source .nki-line[aria-selected=true] .nki-line-text")
    return str((pinned if pinned.count() and pinned.is_visible() else line).text_content()).strip(), " ".join(
        drawn.root.locator(".nki-loop-name").all_text_contents()
    )


def to_store_of(drawn: Visualizer, iteration: int) -> None:
    """Select the store of an iteration, and zoom in."""
    drawn.focus()
    drawn.press("Home")
    for _ in range(60):
        line, loops = state(drawn)
        if line.startswith("nl.store") and loops == f"i = {iteration}":
            break
        drawn.press("ArrowRight")
    drawn.press("w", "w", "w", "w")


def texts(where: Any, selector: str) -> list[str]:
    """What is written in elements, with ordinary spaces."""
    return [" ".join(item.split()) for item in where.locator(selector).all_inner_texts()]


@pytest.fixture
def loop(jupyter: Lab, tab: Window) -> Window:
    """A notebook whose third cell ran a loop."""
    tab.open(jupyter, jupyter.notebook("loop.ipynb", START, "x = np.ones((128, 512), np.float32)", LOOP))
    tab.run_all()
    tab.visualizer()
    return tab


# -- the place ---------------------------------------------------------------------------------------------------------


def test_a_run_again_opens_where_the_one_before_was_left(loop: Window) -> None:
    drawn = loop.visualizer()
    to_store_of(drawn, 3)
    before, where, step = state(drawn), drawn.where, drawn.step
    assert before == ("nl.store(out[i * 128 : i * 128 + 128], twice)", "i = 3")
    loop.run(2)
    again = loop.visualizer()
    again.painted()
    assert (state(again), again.where, again.step) == (before, where, step)
    assert share_shown(again) == pytest.approx(0.8**4, rel=0.05)


def share_shown(drawn: Visualizer) -> float:
    """The share of the run that the timeline shows, as the handles of its overview tell."""
    value: float = drawn.root.evaluate(
        """root => { const frame = root.querySelector('.nki-tl-window, .nki-tl-frame, .nki-tl-whole [role=slider]');
                     const whole = root.querySelector('.nki-tl-whole');
                     return frame.getBoundingClientRect().width / whole.getBoundingClientRect().width; }"""
    )
    return value


@pytest.mark.parametrize(
    "text", [EDITED, pytest.param(RENAMED, marks=pytest.mark.slow)], ids=["another operation", "a comment"]
)
def test_an_edit_keeps_the_line_and_the_iteration(loop: Window, text: str) -> None:
    to_store_of(loop.visualizer(), 4)
    edit(loop, 2, text)
    loop.run(2)
    again = loop.visualizer()
    again.painted()
    assert state(again) == ("nl.store(out[i * 128 : i * 128 + 128], twice)", "i = 4")


def test_an_edited_cell_is_told_and_what_ran_is_shown(loop: Window) -> None:
    drawn = loop.visualizer()
    note = drawn.root.locator(".nki-source-edited")
    assert not note.is_visible()
    edit(loop, 2, EDITED)
    note.wait_for(state="visible")
    assert drawn.root.locator(".nki-edited").is_visible()
    assert "nl.exp" not in drawn.text
    edit(loop, 2, LOOP)
    note.wait_for(state="hidden")


# -- tabs --------------------------------------------------------------------------------------------------------------


def test_the_runs_of_a_cell_are_tabs_and_each_is_drawn(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("tabs.ipynb", START, SEVERAL))
    tab.run_all()
    drawn = tab.visualizer()
    shown = texts(drawn.root, ".nki-run-tab")
    assert [text.split()[0] for text in shown] == ["1", "2", "3"]
    figures = []
    for number, text in enumerate(shown):
        tab.page.locator(".nki-run-tab").nth(number).click()
        tab.page.locator(f".nki-run-tab:nth-child({number + 1})[aria-selected=true]").wait_for()
        figures.append(tab.visualizer().root.locator(".nki-figure").inner_text())
        assert text.split()[1] in figures[-1]
    assert len(set(figures)) == 3
    tab.page.locator(".nki-run-tab").nth(0).click()
    tab.run(1)
    tab.visualizer()
    selected = tab.page.locator(".nki-run-tab[aria-selected=true]").inner_text()
    assert selected.split()[0] == "1"  # the tab that was looked at stays in front
    tab.page.keyboard.press("Escape")


# -- folding -----------------------------------------------------------------------------------------------------------


def height(drawn: Visualizer) -> float:
    drawn.page.wait_for_timeout(150)
    return float(drawn.root.bounding_box()["height"])


@pytest.mark.slow
@pytest.mark.parametrize("room", [700, 900, 1400])
def test_a_view_is_no_higher_than_its_window(jupyter: Lab, browser: Browser, room: int) -> None:
    with window(browser, width=1440, height=room + 120) as made:
        made.open(jupyter, jupyter.notebook("height.ipynb", START, "", LOOP))
        made.run_all()
        drawn = made.visualizer()
        seen = made.page.evaluate("() => document.querySelector('.jp-WindowedPanel-outer').clientHeight")
        assert height(drawn) <= max(seen, 720)
        assert made.errors == []


@pytest.mark.slow
def test_parts_fold_by_buttons_and_the_browser_remembers_it(loop: Window, jupyter: Lab) -> None:
    drawn = loop.visualizer()
    whole = height(drawn)
    button = lambda part: drawn.root.locator(f".nki-fold-{part}")  # noqa: E731
    button("timeline").click()
    without = height(drawn)
    assert without < whole and not drawn.root.locator(".nki-slot-timeline").is_visible()
    button("panels").click()
    drawn.painted()
    assert not drawn.root.locator(".nki-slot-source").is_visible()
    assert drawn.root.locator(".nki-slot-memory").is_visible()
    button("moment").click()
    assert height(drawn) < 200
    assert not drawn.root.locator(".nki-slot-memory").is_visible()
    loop.run(2)
    again = loop.visualizer()
    assert height(again) < 200
    again.root.locator(".nki-fold-timeline").click()
    again.painted()
    assert again.root.locator(".nki-slot-timeline").is_visible()
    # What is kept may be anything.
    for kept in ("{", '{"version": 1, "folded": 7}', '{"version": 9, "folded": ["timeline"]}', "null"):
        loop.page.evaluate("kept => localStorage.setItem('nki-lab.layout', kept)", kept)
        loop.run(2)
        assert height(loop.visualizer()) > 400, kept


@pytest.mark.slow
def test_a_view_fills_the_screen_and_comes_back(loop: Window) -> None:
    drawn = loop.visualizer()
    drawn.focus()
    before = height(drawn)
    drawn.press("0")
    loop.page.wait_for_function("() => document.fullscreenElement !== null")
    box = drawn.root.bounding_box()
    assert box["width"] >= 1430 and box["height"] >= 1090
    drawn.press("0")
    loop.page.wait_for_function("() => document.fullscreenElement === null")
    assert height(drawn) == pytest.approx(before, abs=2)


# -- the panel ---------------------------------------------------------------------------------------------------------


def open_panel(tab: Window) -> Visualizer:
    tab.command("nki-lab:panel")
    return in_panel(tab)


def test_the_panel_follows_the_last_run_and_keeps_its_place(loop: Window) -> None:
    drawn = open_panel(loop)
    assert drawn.name == "rows"
    notebook_in_front(loop)
    loop.command("nki-lab:panel")
    assert loop.page.locator(PANEL).count() == 1  # that one comes to the front
    to_store_of(drawn, 2)
    notebook_in_front(loop)
    edit(loop, 2, EDITED)
    loop.run(2)
    loop.page.wait_for_function(
        "panel => /24.instr/.test(document.querySelector(`${panel} .nki-meta`)?.textContent ?? '')", arg=PANEL
    )
    again = in_panel(loop)
    again.painted()
    assert state(again)[1] == "i = 2"
    assert state(again)[0].startswith("nl.store")
    buttons = loop.page.locator(f"{PANEL} .nki-panel-button")
    buttons.nth(1).click()
    rows = texts(loop.page, f"{PANEL} .nki-session-run")
    assert len(rows) == 2
    assert "trn2 · 24 instructions" in rows[0] and "+" in rows[0]
    loop.page.locator(f"{PANEL} .nki-session-run").nth(1).click()
    loop.page.wait_for_function(
        "panel => /18.instr/.test(document.querySelector(`${panel} .nki-meta`)?.textContent ?? '')", arg=PANEL
    )
    assert "an earlier run" in loop.page.locator(f"{PANEL} .nki-panel-bar").inner_text()


def test_a_pinned_panel_stays_and_comes_back_with_the_page(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("pinned.ipynb", START, SEVERAL, LOOP))
    tab.run_all()
    first = tab.visualizer(0)
    first.root.locator(".nki-dock").click()
    drawn = in_panel(tab)
    assert drawn.name == "add"
    assert tab.page.locator(f"{PANEL} .nki-panel-button").nth(0).inner_text() == "Pinned"
    drawn.focus()
    drawn.press("End")
    assert drawn.step == 3
    notebook_in_front(tab)
    tab.run(2)
    assert in_panel(tab).name == "add"
    tab.save()
    tab.page.wait_for_timeout(4000)  # JupyterLab saves its layout some time after a change
    tab.page.goto(f"{jupyter.url}/lab/tree/pinned.ipynb")
    again = in_panel(tab)
    assert again.name == "add"
    assert tab.page.locator(f"{PANEL} .nki-panel-button").nth(0).inner_text() == "Pinned"
    assert again.step == 3
    tab.page.locator(f"{PANEL} .nki-panel-button").nth(0).click()
    tab.page.wait_for_function(
        "panel => document.querySelector(`${panel} .nki-kernel`)?.textContent === 'rows'", arg=PANEL
    )


@pytest.mark.slow
def test_a_panel_that_plays_may_be_closed(loop: Window) -> None:
    drawn = open_panel(loop)
    drawn.focus()
    drawn.press(" ")
    loop.page.wait_for_timeout(400)
    loop.command("application:close")
    loop.page.wait_for_function("panel => document.querySelector(panel) === null", arg=PANEL)
    loop.page.wait_for_timeout(300)
    assert loop.errors == []
    notebook_in_front(loop)
    assert open_panel(loop).name == "rows"


@pytest.mark.slow
def test_a_widget_is_drawn_in_the_panel_too(jupyter: Lab, tab: Window) -> None:
    view = "view = nki_lab.run(add, x, x, target='trn2').view()\nview"
    tab.open(jupyter, jupyter.notebook("view.ipynb", START, f"%%nki --no-view\n{ADD}", view))
    tab.run_all()
    tab.visualizer()
    drawn = open_panel(tab)
    assert drawn.name == "add"
    drawn.focus()
    drawn.press("End")
    notebook_in_front(tab)
    tab.run(2)
    tab.page.wait_for_timeout(1500)
    again = in_panel(tab)
    assert again.step == 3
    host = tab.page.locator(f"{PANEL} .nki-panel-host").bounding_box()
    assert again.root.bounding_box()["height"] == pytest.approx(host["height"], abs=4)


@pytest.mark.slow
def test_of_many_runs_the_oldest_show_their_picture_until_they_are_wanted(jupyter: Lab, tab: Window) -> None:
    cells = [f"%%nki --target trn2\nadd(x[: 8 * {n}], x[: 8 * {n}]);" for n in range(1, 16)]
    tab.open(jupyter, jupyter.notebook("many.ipynb", START, f"%%nki --no-view\n{ADD}", *cells))
    for number in range(17):
        tab.run(number)
        tab.page.evaluate("number => jupyterapp.shell.currentWidget.content.scrollToItem(number)", number)
        tab.page.wait_for_timeout(200)
    drawn = tab.page.evaluate("() => document.querySelectorAll('.nki-visualizer').length")
    assert drawn <= 12
    tab.page.evaluate("() => jupyterapp.shell.currentWidget.content.scrollToItem(2)")
    rested = tab.page.locator(".nki-rested").first
    rested.wait_for()
    assert rested.locator("img").evaluate("item => item.complete && item.naturalWidth") > 0
    rested.click()
    assert tab.visualizer(0).name == "add"
