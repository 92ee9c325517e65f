"""A run is the same wherever it is drawn: in a cell, run again, reopened, in a second view, as a widget, on a page, on
paper, exported by nbconvert, and in a host that loads the widget alone."""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import nbconvert
import nbformat
import pytest
from playwright.sync_api import Browser

import nki_lab
from nki_lab import quantities
from nki_lab.export import formatting
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.widgets import MIME
from nki_lab.wire import STATIC
from tests.browser.doors import Facts, facts, hues, plain
from tests.browser.lab import ADD, ROOT, START, Lab, Visualizer, Window, window

pytestmark = pytest.mark.extended

LINES: Final = "\n".join(f"print('line {number}')" for number in range(120))  # more than a window shows
CORES: Final = f"""import sys
sys.path.insert(0, {str(ROOT / "examples" / "kernels")!r})
import k10_two_cores as cores
run = nki_lab.run(cores.layer_by_exchange[2], *cores.inputs(D=256, hidden=512, tokens=128), target="trn2")
run"""
FIRST, TWO_CORES, VIEW = 2, 3, 4  # cells
THEMES: Final = ("light", "dark")


class Doors:
    """The notebook after it ran, and what its outputs showed: facts by place, colours by theme."""

    def __init__(self, notebook: Any, shown: dict[str, Facts], colours: dict[str, Facts], page: str) -> None:
        self.notebook, self.shown, self.colours, self.page = notebook, shown, colours, page


def told(window: Window, number: int) -> Facts:
    return facts(window.visualizer(number))


def in_theme(tab: Window, theme: str) -> None:
    """Give JupyterLab a theme, and wait until the views follow."""
    tab.theme(theme)
    tab.page.wait_for_function("theme => document.querySelector('.nki-root').dataset.nkiTheme === theme", arg=theme)
    tab.page.wait_for_timeout(300)


@pytest.fixture(scope="module")
def doors(jupyter: Lab, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Doors:
    """Run a notebook with two kernels and three drawings, run a cell again, open a second view, and save it."""
    page = tmp_path_factory.mktemp("page") / "run.html"
    name = jupyter.notebook("doors.ipynb", START, LINES, f"%%nki --target trn2\n{ADD}add(x, x);", CORES, "run.view()",
                            f"run.to_html({str(page)!r});")  # fmt: skip
    with window(browser) as made:
        made.open(jupyter, name)
        made.run_all()
        in_theme(made, "light")
        shown = {"first": told(made, 0), "fresh": told(made, 1), "view()": told(made, 2)}
        colours = {theme: (in_theme(made, theme), hues(made.visualizer(1)))[1] for theme in reversed(THEMES)}
        made.run(TWO_CORES)
        shown["run again"] = told(made, 1)
        made.save()
        made.page.evaluate("number => { jupyterapp.shell.currentWidget.content.activeCellIndex = number; }", TWO_CORES)
        made.command("notebook:create-output-view")
        made.page.wait_for_function("() => document.querySelectorAll('.jp-LinkedOutputView .nki-where b').length > 0")
        second = Visualizer(made.page, made.page.locator(".jp-LinkedOutputView .nki-visualizer"))
        shown["second view"] = facts(second)
        assert hues(second)["timeline"] == colours["light"]["timeline"]
        assert made.requests == made.errors == []
    return Doors(nbformat.read(jupyter.folder / name, 4), shown, colours, str(page))


@pytest.fixture(scope="module")
def run() -> Any:
    """The same run, made here."""
    space: dict[str, Any] = {"nki_lab": nki_lab}
    exec(CORES, space)
    return space["run"]


def without_layout(found: Facts) -> Facts:
    """What does not depend on the size of the place: a low one has no rows of figures."""
    kept = {name: value for name, value in found.items() if name not in {"memory", "theme"}}
    return kept | {"gutter": {name: text for name, text in found["gutter"].items() if "%" in text}}


def test_the_numbers_drawn_are_those_recorded(doors: Doors, run: Any) -> None:
    shown, times, summary = doors.shown["fresh"], digest(run.recording), run.summary
    assert plain(shown["latency"]) == plain(formatting.makespan(run.recording.summary, times.makespan))
    assert shown["meta"] == f"trn2 · {len(run.recording)} instructions"
    assert shown["where"].startswith(f"Step 1 of {len(run.recording)} ")
    expected = {
        f"{lane.name.title() if lane.name != 'gpsimd' else 'GpSimd'}, core {lane.core}": lane.busy
        for lane in times.lanes
        if lane.kind != "dma" and lane.rows
    } | {f"DMA, core {core}": busy for core, busy in times.dma.items()}
    gutter = {name: plain(text).split(" %")[0] + " %" for name, text in shown["gutter"].items() if "%" in text}
    assert {name: text for name, text in gutter.items() if text != "0 %"} == {
        name: plain(quantities.share(busy / times.makespan)) for name, busy in expected.items()
    }
    assert sum(times.dma.values()) == 1000 * summary.engine_busy_ns["dma"]
    for space, peak in (("SBUF", summary.sbuf_occupied_bytes_per_partition),
                        ("PSUM", summary.psum_occupied_bytes_per_partition)):  # fmt: skip
        assert plain(shown["numbers"][f"{space} peak, core 0"]).startswith(plain(quantities.size(peak)).split(" ")[0])
        assert plain(shown["gutter"][f"{space}, core 0"]) == f"max {plain(quantities.size(peak))}"


def test_every_place_in_jupyterlab_shows_the_same(doors: Doors) -> None:
    fresh = doors.shown["fresh"]
    assert doors.shown["run again"] == fresh
    assert without_layout(doors.shown["view()"]) == without_layout(fresh)
    assert without_layout(doors.shown["second view"]) == without_layout(fresh)
    for theme in THEMES:
        timeline, memory = doors.colours[theme]["timeline"], doors.colours[theme]["memory"]
        assert timeline["canvases"] >= 2 and {"tensor", "vector", "scalar", "dma"} <= set(timeline["hues"])
        assert memory["canvases"] >= 2, memory
    assert doors.colours["light"] == doors.colours["dark"]


def test_a_reopened_notebook_shows_the_same(doors: Doors, jupyter: Lab, tab: Window) -> None:
    notebook = copy.deepcopy(doors.notebook)
    spec = {"kernelspec": {"name": "elsewhere", "display_name": "", "language": "other"}}
    notebook.metadata = nbformat.from_dict(spec)
    nbformat.write(notebook, jupyter.folder / "doors-again.ipynb")
    tab.open(jupyter, "doors-again.ipynb", kernel=False)
    assert told(tab, 0) == doors.shown["first"]
    assert told(tab, 1) == doors.shown["fresh"]
    assert hues(tab.visualizer(1)) == doors.colours["light"]


@pytest.mark.parametrize("theme", THEMES)
def test_a_page_and_its_print_show_the_same(doors: Doors, browser: Browser, theme: str) -> None:
    with window(browser, dark=theme == "dark") as made:
        made.page.goto(Path(doors.page).as_uri())
        drawn = made.visualizer()
        assert without_layout(facts(drawn)) == without_layout(doors.shown["fresh"])
        assert hues(drawn)["timeline"] == doors.colours[theme]["timeline"]
        # Whatever part is on the screen, A4 landscape has the whole run.
        drawn.focus()
        drawn.press("w", "w", "w")
        assert facts(drawn)["gutter"] != doors.shown["fresh"]["gutter"]
        made.page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        made.page.emulate_media(media="print")
        made.page.set_viewport_size({"width": 1047, "height": 718})  # A4 landscape less a centimetre on each side
        assert without_layout(facts(drawn)) | {"where": ""} == without_layout(doors.shown["fresh"]) | {"where": ""}
        assert hues(drawn)["timeline"] == doors.colours[theme]["timeline"]
        cut = made.page.evaluate(
            """() => [...document.querySelectorAll('.nki-visualizer canvas')].filter(item => item.checkVisibility()
                 && item.getBoundingClientRect().right > innerWidth + 1).length"""
        )
        assert cut == 0
        made.page.emulate_media(media="screen")
        made.page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
        assert facts(drawn)["gutter"] != doors.shown["fresh"]["gutter"]  # as it was
        assert made.requests == made.errors == []


def test_nbconvert_shows_the_same_numbers(doors: Doors, browser: Browser, tmp_path: Path) -> None:
    body, _ = nbconvert.HTMLExporter(embed_images=True).from_notebook_node(doors.notebook)
    assert MIME not in body
    file = tmp_path / "doors.html"
    file.write_text(body, encoding="utf-8")
    fresh = doors.shown["fresh"]
    with window(browser) as made:
        made.page.route(re.compile("^https?:"), lambda route: route.abort())
        made.page.goto(file.as_uri())
        card = made.page.locator(".jp-OutputArea-output", has_text="layer_by_exchange").first
        written = plain(card.inner_text())
        image = card.locator("img")
        assert image.evaluate("item => item.complete && item.naturalWidth") > 0
    assert plain(fresh["latency"]) in written
    assert "42 instructions" in written
    assert plain(fresh["why"]).partition(". ")[0] in written
    for name, text in fresh["gutter"].items():
        if "%" in text and not text.startswith("0 %"):
            assert f"{name} {plain(text).split(' %')[0]} %" in written
    for space in ("SBUF", "PSUM"):
        assert f"{space} {formatted_peak(fresh['gutter'][f'{space}, core 0'])}" in written


def formatted_peak(text: str) -> str:
    return plain(text).removeprefix("max ")


HOST: Final = """<!DOCTYPE html><html{attributes}><head><meta charset="utf-8"></head>
<body{body}><div id="output"></div><script type="module">
const source = {source};
const {{ default: widget }} = await import(URL.createObjectURL(new Blob([source], {{ type: 'text/javascript' }})));
const listeners = {{}};
const values = {{ step: -1 }};
const emit = (event, ...given) => (listeners[event] ?? []).forEach(listener => listener(...given));
const model = {{
  get: name => values[name],
  set(name, value) {{ values[name] = value; emit(`change:${{name}}`); }},
  save_changes() {{}},
  on(event, listener) {{ (listeners[event] ??= []).push(listener); }},
  off(event, listener) {{ listeners[event] = (listeners[event] ?? []).filter(one => one !== listener); }},
  async send(content) {{
    for (const [told, buffers] of await window.kernel(JSON.parse(JSON.stringify(content))))
      emit('msg:custom', told, buffers.map(text => Uint8Array.from(atob(text), one => one.charCodeAt(0)).buffer));
  }},
}};
window.ended = await widget.render({{ model, el: document.getElementById('output') }});
</script></body></html>"""
"""A host that knows of widgets only that a module has `render`: it hands over plain buffers, as Colab does."""


@pytest.fixture
def kernel(run: Any) -> Iterator[Any]:
    """The kernel's side of a widget, as a function from what the page sends to what it gets."""
    widget = run.view()
    sent: list[Any] = []
    widget.send = lambda content, buffers=None: sent.append(
        [content, [base64.b64encode(bytes(item)).decode() for item in buffers or []]]
    )

    def answers(content: Any) -> list[Any]:
        sent.clear()
        widget._answer(widget, content, [])
        return list(sent)

    yield answers
    widget.close()


@pytest.mark.parametrize(
    ("attributes", "body", "theme"),
    [("", ' class="vscode-light" data-vscode-theme-kind="vscode-light"', "light"), (' theme="dark"', "", "dark")],
    ids=["VS Code", "Colab"],
)
def test_a_host_without_the_extension_shows_the_same(
    doors: Doors, browser: Browser, tmp_path: Path, kernel: Any, attributes: str, body: str, theme: str
) -> None:
    source = json.dumps((STATIC / "widget.js").read_text(encoding="utf-8")).replace("</", "<\\/")
    file = tmp_path / "host.html"
    file.write_text(HOST.format(source=source, attributes=attributes, body=body), encoding="utf-8")
    with window(browser, dark=theme == "light") as made:  # the page's theme counts, and not the system's
        made.page.expose_function("kernel", kernel)
        made.page.goto(file.as_uri())
        drawn = made.visualizer()
        found = facts(drawn)
        assert found["theme"] == theme
        assert without_layout(found) == without_layout(doors.shown["fresh"])
        assert hues(drawn)["timeline"] == doors.colours[theme]["timeline"]
        drawn.root.get_by_role("tab", name="Values").click()
        drawn.root.get_by_role("region", name="Values of").wait_for()
        made.page.evaluate("() => window.ended()")
        assert made.page.locator(".nki-visualizer").count() == 0
        assert made.requests == made.errors == []
