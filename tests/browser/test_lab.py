"""The visualizer in a real JupyterLab: what is drawn is what was recorded."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from playwright.sync_api import Browser

import nki_lab
from nki_lab import quantities
from nki_lab.kernel_runtime.recording import Recording
from tests.browser.lab import ADD, START, Lab, Visualizer, Window, window

pytestmark = pytest.mark.extended

FAILING = """import json

@nki.jit
def failing(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nl.store(out[:, 0:json.loads("513")], tile)
    return out
"""
EVIL = "<img src=x onerror=window.evil=1><script>window.evil=2</script>"


def add_of_the_examples() -> Recording:
    """The recording of the first example's first kernel, made here."""
    source = nbformat.read(Path(__file__).parents[2] / "examples" / "01_first_kernel.ipynb", 4).cells[3].source
    tree = ast.parse("\n" + source.partition("\n")[2])
    tree.body.pop()
    import nki
    import nki.isa as nisa
    import nki.language as nl

    space: dict[str, Any] = {"nki": nki, "nisa": nisa, "nl": nl, "np": np}
    exec(compile(tree, "example", "exec"), space)
    return nki_lab.run(space["add"], space["a"], space["b"], target="trn2").recording


def told(recording: Recording, step: int) -> str:
    """What the transport says of a step of a recording."""
    start = int(recording.rows["start"][recording.step(step)])
    return f"Step {step + 1} of {len(recording)} · {quantities.duration(start)}"


def spaced(text: str) -> str:
    return text.replace("\u202f", " ").replace("\u00a0", " ").replace("\u2009", " ")


def test_the_first_example_steps_through_what_was_recorded(jupyter: Lab, tab: Window) -> None:
    recording = add_of_the_examples()
    tab.open(jupyter, "01_first_kernel.ipynb")
    tab.run_all()
    drawn = tab.visualizer()
    assert drawn.name == "add"
    drawn.focus()
    drawn.press("Home")
    for step in range(len(recording)):
        assert spaced(drawn.where) == told(recording, step)
        drawn.press("ArrowRight")
    assert drawn.step == len(recording) - 1
    for step in (2, 0, 3, 1):
        drawn.slide(step)
        assert spaced(drawn.where) == told(recording, step)
        assert drawn.step == step
    drawn.press("End")
    assert drawn.step == len(recording) - 1


def test_a_view_takes_the_height_that_the_window_has(jupyter: Lab, browser: Browser) -> None:
    height = "() => document.querySelector('.nki-visualizer').style.getPropertyValue('--nki-columns')"
    found = {}
    for room in (800, 1600):
        with window(browser, height=room) as tab:
            tab.open(
                jupyter,
                jupyter.notebook(f"height_{room}.ipynb", START, ADD + "run = nki_lab.run(add, x, x)\nrun.view()"),
            )
            tab.run_all()
            tab.visualizer().painted()
            found[room] = int(tab.page.evaluate(height).removesuffix("px"))
    assert found[800] >= 228
    assert found[1600] >= 420  # what the views take where nothing is in the way


def test_two_views_of_a_run_are_apart(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook("two.ipynb", START, f"%%nki --no-view\n{ADD}run = nki_lab.run(add, x, x)",
                            "from IPython.display import display\ndisplay(run, run)")  # fmt: skip
    tab.open(jupyter, name)
    tab.run_all()
    tab.visualizer(1)
    first = tab.visualizer(0)
    first.focus()
    first.press("End")
    assert first.step == 3
    assert tab.visualizer(1).step == 0


def test_a_widget_follows_the_kernel_and_the_kernel_the_widget(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook("widget.ipynb", START, f"%%nki --no-view\n{ADD}view = nki_lab.run(add, x, x).view(step=1)",
                            "view", "view.step = 3", "print('step', view.step)")  # fmt: skip
    tab.open(jupyter, name)
    for number in range(3):
        tab.run(number)
    drawn = tab.visualizer()
    assert drawn.step == 1
    tab.run(3)
    wait_for_step(tab, drawn, 3)
    drawn.root.scroll_into_view_if_needed()
    drawn.focus()
    drawn.press("ArrowLeft")
    assert drawn.step == 2
    tab.page.wait_for_timeout(400)  # the kernel hears of steps ten times a second
    tab.run(4)
    tab.page.get_by_text("step 2", exact=True).wait_for()


def wait_for_step(tab: Window, drawn: Visualizer, step: int) -> None:
    """Wait until a step that comes from the kernel is drawn."""
    for _ in range(100):
        if drawn.step == step:
            return
        tab.page.wait_for_timeout(50)
    assert drawn.step == step


def test_a_failed_run_is_drawn_up_to_the_fault(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook(
        "failed.ipynb", START, f"%%nki --target trn2\n{FAILING}\nfailing(np.ones((128, 512), np.float32))"
    )
    tab.open(jupyter, name)
    tab.run_all()
    drawn = tab.visualizer()
    assert "of 2 · " in spaced(drawn.where)
    assert "NKI303" in drawn.text
    drawn.focus()
    drawn.press("End")
    assert drawn.step == 1


def test_markup_in_names_is_text(jupyter: Lab, tab: Window) -> None:
    source = ADD.replace("nl.load(a)", "tile").replace(
        "    nl.store", f"    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf, name={EVIL!r})\n"
        "    nisa.dma_copy(dst=tile, src=a)\n    nl.store")  # fmt: skip
    name = jupyter.notebook(
        "markup.ipynb", START, f"%%nki\n{source}# {EVIL}\nadd(x, x);\nadd.__name__ = {EVIL!r}\nadd(x, x);"
    )
    tab.open(jupyter, name)
    tab.run_all()
    drawn = tab.visualizer()
    drawn.focus()
    drawn.press("Home", "ArrowRight", "ArrowRight", "Enter")
    assert tab.page.evaluate("() => window.evil") is None
    assert drawn.root.locator("img, script").count() == 0
    assert "<img src=x" in drawn.text


def test_findings_stand_under_the_cell(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, "04_three_faults.ipynb")
    tab.run(1)
    tab.run(2)
    card = tab.page.locator(".nki-lab-cell .card").first
    card.wait_for()
    assert "Not run: 3 errors" in card.inner_text()
    marked = [item.inner_text() for item in card.locator(".mark.error").all()]
    assert marked == ["right", "offset", "total"]


def test_the_drawing_follows_jupyterlabs_theme(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook("theme.ipynb", START, f"%%nki\n{ADD}add(x, x);")
    tab.open(jupyter, name)
    tab.run_all()
    drawn = tab.visualizer()
    for kind in ("dark", "light"):
        tab.theme(kind)
        # A theme is a style sheet that arrives later than the command ends.
        drawn.root.evaluate(
            """(item, light) => new Promise(resolve => {
            const look = () => {
                const [red, green, blue] = getComputedStyle(item).backgroundColor.match(/\\d+/g).map(Number);
                return red + green + blue > 600 === light ? resolve() : requestAnimationFrame(look);
            };
            look();
            setTimeout(resolve, 10000);
        })""",
            kind == "light",
        )
        drawn.painted()
        ground = drawn.root.evaluate("item => getComputedStyle(item).backgroundColor")
        shades = [int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(",")[:3]]
        assert (sum(shades) > 600) == (kind == "light"), ground
