"""The visualizer in a real JupyterLab: what is drawn is what was recorded."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

import nki_lab
from nki_lab.export import formatting
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.widgets import MIME
from tests.browser.lab import Lab, Visualizer, Window

START = "%load_ext nki_lab\nimport numpy as np, nki, nki.isa as nisa, nki.language as nl, nki_lab\n"
ADD = """@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out

x = np.ones((128, 512), np.float32)
"""
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
    return f"Step {step + 1} of {len(recording)} · {formatting.duration(start)}"


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


def test_a_notebook_that_was_saved_steps_without_a_kernel(jupyter: Lab, tab: Window, browser: Any) -> None:
    name = jupyter.notebook("saved.ipynb", START, f"%%nki --target trn2\n{ADD}add(x, x);")
    tab.open(jupyter, name)
    tab.run_all()
    tab.visualizer()
    tab.save()
    notebook = nbformat.read(jupyter.folder / name, 4)
    (output,) = notebook.cells[1].outputs
    assert set(output.data) == {"text/plain", "text/html", "image/png", MIME}
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": {"name": "elsewhere", "display_name": "", "language": "other"}}
    )
    nbformat.write(notebook, jupyter.folder / "reopened.ipynb")
    tab.open(jupyter, "reopened.ipynb", kernel=False)
    drawn = tab.visualizer()
    assert tab.kernel_status() is None
    drawn.focus()
    drawn.press("Home", "ArrowRight", "ArrowRight")
    assert drawn.step == 2


def test_a_reopened_run_below_the_first_viewport_has_its_colours(jupyter: Lab, tab: Window) -> None:
    calls = "\n".join(f"print('line {number}')" for number in range(120))
    name = jupyter.notebook("below.ipynb", START, calls, f"%%nki --target trn2\n{ADD}add(x, x);")
    tab.open(jupyter, name)
    tab.run_all()
    expected = timeline_colours(tab.visualizer())
    assert {"rgb(184, 64, 12)", "rgb(7, 128, 95)", "rgb(255, 255, 255)"} <= expected  # DMA, Vector, the ground
    tab.save()
    tab.open(jupyter, name)
    drawn = tab.visualizer()
    assert timeline_colours(drawn) == expected


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


def test_a_damaged_message_says_so_and_leaves_the_rest(jupyter: Lab, tab: Window) -> None:
    name = jupyter.notebook("damaged.ipynb", START, f"%%nki\n{ADD}add(x, x);")
    tab.open(jupyter, name)
    tab.run_all()
    tab.visualizer()
    tab.save()
    notebook = nbformat.read(jupyter.folder / name, 4)
    good = notebook.cells[1].outputs[0]
    bad = nbformat.from_dict({**good, "data": {MIME: {"version": 1, "message": good.data[MIME]["message"][:200]}}})
    notebook.cells[1].outputs = [bad, good]
    nbformat.write(notebook, jupyter.folder / "damaged2.ipynb")
    tab.open(jupyter, "damaged2.ipynb")
    drawn = tab.visualizer(1)
    assert drawn.name == "add"
    assert "cannot be shown" in tab.page.locator(".nki-visualizer").first.inner_text()


def test_findings_stand_under_the_cell(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, "04_three_faults.ipynb")
    tab.run(1)
    tab.run(2)
    card = tab.page.locator(".nki-lab-cell .card").first
    card.wait_for()
    assert "Not run: 3 errors" in card.inner_text()
    marked = [item.inner_text() for item in card.locator(".mark.error").all()]
    assert marked == ["right", "offset", "total"]


@pytest.mark.parametrize("kind", ["light", "dark"])
def test_the_drawing_follows_jupyterlabs_theme(jupyter: Lab, tab: Window, kind: str) -> None:
    name = jupyter.notebook("theme.ipynb", START, f"%%nki\n{ADD}add(x, x);")
    tab.open(jupyter, name)
    tab.command("apputils:change-theme", theme=f"JupyterLab {kind.title()}")
    tab.run_all()
    drawn = tab.visualizer()
    ground = drawn.root.evaluate("item => getComputedStyle(item).backgroundColor")
    shades = [int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(",")[:3]]
    assert (sum(shades) > 600) == (kind == "light"), ground
