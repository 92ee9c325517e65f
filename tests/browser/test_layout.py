"""The visualizer at every width and theme: nothing is cut, nothing lies over anything, all can be read and hit."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import nki_lab
from nki_lab import demo
from nki_lab.export.html import html
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.vocabulary import ORIGIN_LABELS
from tests.browser.lab import Window, window

pytestmark = pytest.mark.extended

WIDTHS: Final = (480, 720, 1100, 1440, 1920, 2560)
CHECK: Final = (Path(__file__).parent / "layout_check.js").read_text(encoding="utf-8")
SELECTED: Final = """() => {
  const root = document.querySelector('.nki-visualizer');
  root.querySelector('.nki-control-last').click();
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
OPEN: Final = """name => {
  const tab = [...document.querySelectorAll('[role=tab]')].find(tab => tab.textContent === name && tab.checkVisibility());
  if (tab) tab.click();
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(Boolean(tab)))));
}"""

# Long names, letters of other scripts, markup, a helper, nested loops, and more tiles than SBUF has room for.
CROWDED: Final = '''
import nki
import nki.isa as nisa
import nki.language as nl


def doubled_with_a_name_that_is_longer_than_any_column(größe):
    nisa.tensor_scalar(dst=größe, data=größe, op0=nl.multiply, operand0=2.0)  # a comment that goes on and on, <b>so</b>
    return größe


@nki.jit
def keeps_more_tiles_than_there_is_room_for_and_says_so_in_its_name_at_some_length(a):
    """A line of text that is far longer than the column of the source view has room for, whatever the width of it."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    kept = []
    for outer in range(2):
        for i in range(a.shape[0] // 256):
            rows = nl.ds((outer * (a.shape[0] // 256) + i) * 128, 128)
            größe_eines_sehr_lang_benannten_tiles = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=größe_eines_sehr_lang_benannten_tiles, src=a[rows, :])
            kept.append(größe_eines_sehr_lang_benannten_tiles)
    for i in range(a.shape[0] // 128):
        nisa.dma_copy(dst=out[nl.ds(i * 128, 128), :], src=doubled_with_a_name_that_is_longer_than_any_column(kept[i]))
    return out
'''
FAILING: Final = '''
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def failing(a):
    """Writes beyond the end of its result, which is found while it runs."""
    import json
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        tile = nl.load(a)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nl.store(out[:, 0 : json.loads(str(512 + i))], tile)
    return out
'''
COMPILED: Final = '''
import neuronxcc.nki.language as nl
from neuronxcc import nki


@nki.jit
def loads_twice_and_keeps_more_than_there_is_room_for(a, b):
    """The compiler model moves copies, leaves out loads, and inserts transfers of tiles that it spills."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((52, nl.par_dim(128), 1024), a.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(52):
        kept[i] = nl.exp(nl.load(a[i]))
    for i in nl.affine_range(52):
        nl.store(out[i], nl.copy(nl.add(kept[i], nl.load(a[i]))))
    small = nl.ndarray((4, 128, 64), b.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(small[i], nl.exp(nl.load(b)))
    return out, small
'''


def recorded(
    folder: Path, text: str, name: str, *arrays: np.ndarray, target: str = "trn2", model: str = "all"
) -> Recording:
    path = folder / f"{name[:20]}.py"
    path.write_text(text, encoding="utf-8")
    kernel = runpy.run_path(str(path), run_name=name)[name]
    return nki_lab.run(kernel, *arrays, target=target, on_error="report", compiler_model=model).recording


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a good run, one with too much of everything, one that failed, one with the compiler model and without."""
    folder = tmp_path_factory.mktemp("pages")
    ones = np.ones
    matmul = (Path(demo.__file__).parent / "matmul.py").read_text(encoding="utf-8")
    name = "keeps_more_tiles_than_there_is_room_for_and_says_so_in_its_name_at_some_length"
    runs = {
        "matmul": recorded(folder, matmul, "matmul", ones((512, 256), np.float32), ones((512, 1024), np.float32)),
        "crowded": recorded(folder, CROWDED, name, ones((4096, 2048), np.float32)),
        "failing": recorded(folder, FAILING, "failing", ones((128, 512), np.float32)),
        **{
            f"compiler model: {model}": recorded(
                folder,
                COMPILED,
                "loads_twice_and_keeps_more_than_there_is_room_for",
                ones((52, 128, 1024), np.float32),
                ones((128, 64), np.float32),
                target="trn1",
                model=model,
            )
            for model in ("all", "none")
        },
    }
    out = {}
    for each, recording in runs.items():
        out[each] = folder / f"{each.replace(': ', '-')}.html"
        out[each].write_text(html(recording), encoding="utf-8")
    return out


@pytest.fixture(params=("light", "dark"))
def themed(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Window]:
    with window(browser, dark=request.param == "dark") as made:
        yield made
        assert made.requests == []
        assert made.errors == []


def problems(page: Page) -> list[str]:
    found: list[str] = page.evaluate(CHECK)
    return found


PAGES: Final = ("matmul", "crowded", "failing", "compiler model: all", "compiler model: none")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_or_overlaps_or_is_hard_to_read(name: str, themed: Window, pages: dict[str, Path]) -> None:
    page = themed.page
    page.goto(pages[name].as_uri())
    page.locator(".nki-where b").wait_for()
    found: list[str] = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 1100})
        page.evaluate(OPEN, "Explore")
        page.evaluate(SELECTED)
        found += [f"{width} Explore: {what}" for what in problems(page)]
        for tab in ("Details", "Source", "Summary", "Instructions"):
            if page.evaluate(OPEN, tab):
                found += [f"{width} {tab}: {what}" for what in problems(page)]
    assert found == []


BESIDE: Final = """() => {
  const [left, right] = ['left', 'right'].map(side => document.querySelector(`.nki-mo-dialog .nki-mo-${side}`));
  const end = Math.max(...[...left.querySelectorAll('*')].map(item => item.getBoundingClientRect().right));
  const table = right.getBoundingClientRect();
  return end <= table.left || table.top >= left.getBoundingClientRect().bottom;
}"""


def test_the_pictures_of_an_expanded_motion_lie_beside_it_or_below(themed: Window, pages: dict[str, Path]) -> None:
    page = themed.page
    page.goto(pages["matmul"].as_uri())
    drawn = themed.visualizer()
    drawn.slide(drawn.step + 3)
    for width in (480, 800, 900, 1000, 1100, 1400):
        page.set_viewport_size({"width": width, "height": 1100})
        drawn.painted()
        drawn.focus()
        drawn.press("x")
        assert page.evaluate(BESIDE), width
        drawn.press("Escape")


@pytest.mark.parametrize(("width", "hidden"), [(480, ()), (900, ("9",)), (1400, ("8",)), (1400, ("2",))], ids=str)
def test_a_motion_out_of_sight_is_expanded_and_closed(
    width: int, hidden: tuple[str, ...], browser: Browser, pages: dict[str, Path]
) -> None:
    """At 480 pixels the dialog was open and not to be seen, and nothing in the page could be clicked."""
    with window(browser, width=width) as made:
        made.page.goto(pages["matmul"].as_uri())
        drawn = made.visualizer()
        drawn.focus()
        drawn.press(*hidden, "x")
        dialog = made.page.get_by_role("dialog", name="Motion")
        dialog.wait_for()
        dialog.get_by_role("button", name="Next on the same engine").click()
        drawn.painted()
        assert "Step 1 " not in drawn.where
        assert "Access pattern" in str(dialog.text_content())
        drawn.press("Escape")
        dialog.wait_for(state="hidden")
        step = drawn.step
        drawn.root.get_by_role("button", name="Step forward").click()
        drawn.painted()
        assert drawn.step == step + 1


PRINTED: Final = """() => {
  window.printed = [];
  window.addEventListener('beforeprint', () => {
    const plot = document.querySelector('.nki-tl-plot');
    const canvas = plot.querySelector('canvas');
    printed.push([canvas.getBoundingClientRect().width, plot.clientWidth, document.documentElement.scrollWidth]);
  });
}"""
A4_LANDSCAPE: Final = 1047  # pixels between the usual margins


def test_paper_shows_the_whole_run(themed: Window, pages: dict[str, Path]) -> None:
    """Pictures are drawn for the paper before it is printed, and for the window again after that."""
    page = themed.page
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(pages["matmul"].as_uri())
    page.locator(".nki-where b").wait_for()
    width = "() => document.querySelector('.nki-tl-plot canvas').getBoundingClientRect().width"
    before = page.evaluate(width)
    page.evaluate(PRINTED)
    page.pdf(format="A4", landscape=True, print_background=True)
    (canvas, plot, _), *more = page.evaluate("() => printed")
    assert more == []
    assert canvas == plot < before
    assert canvas + 132 < A4_LANDSCAPE
    assert page.evaluate(width) == before
    # Whatever the paper, nothing of a picture is beside it.
    page.emulate_media(media="print")
    for paper in (A4_LANDSCAPE, 718):
        page.set_viewport_size({"width": paper, "height": 900})
        ends = page.evaluate(
            "() => [...document.querySelectorAll('.nki-visualizer canvas')].filter(canvas => canvas.checkVisibility())"
            ".map(canvas => canvas.getBoundingClientRect().right)"
        )
        assert max(ends) <= paper


def test_forced_colours_keep_what_is_chosen(browser: Browser, pages: dict[str, Path]) -> None:
    ground = "button => getComputedStyle(button).backgroundColor"
    for theme in ("light", "dark"):
        context = browser.new_context(forced_colors="active", color_scheme=theme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(pages["matmul"].as_uri())
        page.locator(".nki-where b").wait_for()
        grounds = [radio.evaluate(ground) for radio in page.locator(".nki-tl-choice [role=radio]").all()]
        assert grounds[0] not in grounds[1:]
        assert len(set(grounds[1:])) == 1
        critical = page.get_by_role("button", name="Critical path")
        pressed = critical.evaluate(ground)
        critical.click()
        assert critical.evaluate(ground) != pressed
        context.close()


def test_the_check_finds_what_is_wrong(themed: Window, pages: dict[str, Path]) -> None:
    page = themed.page
    page.goto(pages["matmul"].as_uri())
    page.locator(".nki-where b").wait_for()
    page.add_style_tag(
        content=".nki-where { overflow: hidden; width: 20px; min-width: 0; flex: none } .nki-transport { height: 30px }"
        " .nki-meta { margin-left: -60px; overflow: visible } .nki-meta { color: var(--nki-line2) }"
        " .nki-control-search { width: 12px; min-width: 0; overflow: hidden }"
    )
    found = "\n".join(problems(page))
    for kind in (
        "cut: nki-where",
        "height: nki-transport",
        "overlaps: nki-",
        "contrast: nki-meta",
        "small target: nki-",
    ):
        assert kind in found


SAID: Final = """async () => {
  const root = document.querySelector('.nki-visualizer');
  const said = new Set();
  root.querySelector('.nki-control-first').click();
  for (let step = 0; step < 345; step++) {
    root.querySelector('.nki-control-forward').click();
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    for (const item of root.querySelectorAll('.nki-details dl > div'))
      if (item.firstChild.textContent === 'Compiler') said.add(item.lastChild.textContent.replace(/[0-9,]+/, 'n'));
  }
  return [...said].sort();
}"""


@pytest.mark.parametrize("model", ["all", "none"])
def test_details_say_what_the_compiler_model_did(model: str, browser: Browser, pages: dict[str, Path]) -> None:
    with window(browser) as made:
        made.page.goto(pages[f"compiler model: {model}"].as_uri())
        made.page.locator(".nki-where b").wait_for()
        assert made.page.evaluate(OPEN, "Details")
        said = made.page.evaluate(SAID)
        assert made.errors == []
    if model == "none":
        assert said == []
    else:
        assert {ORIGIN_LABELS["left out"], ORIGIN_LABELS["inserted"]} <= set(said)
        assert "stands for n instructions" in said
