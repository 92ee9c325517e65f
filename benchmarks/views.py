"""Measures of the views in Chromium: painting, stepping and memory, each beside what an empty page takes.

`pages()` measures stand-alone pages of made rows, up to a million, and of recorded flash attention, `notebooks()` the
same views in JupyterLab.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the driver of the browser tests

from tests.browser.lab import Window, chromium, lab, window  # noqa: E402 - the path stands above
from tests.recordings import synthetic  # noqa: E402

SIZES: Final = (1_000, 100_000, 1_000_000)
FIRST_PAINT: Final = {1_000: 300.0, 100_000: 600.0, 1_000_000: 1000.0}  # milliseconds
ATTENTION: Final = (6144, 20480)
"""Lengths of sequences for which flash attention takes about 10,000 and 100,000 instructions."""
STEP_MEDIAN, STEP_P95 = 8.0, 16.0  # milliseconds of the page over an empty one's
WRITING: Final = 3.0  # seconds for a page of a million rows
KEPT: Final = 50.0  # bytes a row in a notebook
STEPS: Final = 120
OPENED: Final = 50

# Notes when the transport says a step for the first time, in milliseconds since the page began.
_NOTE_PAINT: Final = """(() => {
  const look = () => {
    if (document.querySelector('.nki-where b')) requestAnimationFrame(() => (window.nkiPainted = performance.now()));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();"""
# Milliseconds from an input to the task after the frame that shows it. Every other input is a jump of the slider.
_STEPPING: Final = """async ([count, acts]) => {
  const painted = () => new Promise(done => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  }));
  const root = document.querySelector('.nki-visualizer');
  const slider = root && root.querySelector('.nki-transport input[type=range]');
  const times = [];
  for (let number = 0; number < count; number++) {
    await painted();
    await new Promise(done => setTimeout(done, (number * 7) % 16));
    const start = performance.now();
    if (acts && number % 2) {
      slider.value = String(Math.floor(((number * 0.6180339887) % 1) * Number(slider.max)));
      slider.dispatchEvent(new Event('input', { bubbles: true }));
    } else if (acts) {
      root.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
    }
    await painted();
    times.push(performance.now() - start);
  }
  return times;
}"""
# Milliseconds of a plain loop: what the machine has left for one page just now.
_LOOP: Final = """() => {
  const start = performance.now();
  let sum = 0;
  for (let turn = 0; turn < 2e7; turn++) sum = (sum * 31 + turn) | 0;
  return performance.now() - start + (sum === 0.5 ? 1 : 0);
}"""
_HEAP: Final = "() => { gc(); gc(); return performance.memory.usedJSHeapSize / 2 ** 20; }"

# A cell that shows a widget of one word.
_PLAIN: Final = """import anywidget
class Plain(anywidget.AnyWidget):
    _esm = 'export default { render({ el }) { el.innerHTML = "<p class=nki-plain>plain</p>"; } }'
Plain()"""

Told = dict[str, Any]


def recorded(count: int) -> Any:
    """A recording of `count` rows, whose tiles take turns at the addresses of SBUF and PSUM."""
    import numpy as np

    from nki_lab.kernel_runtime.recording import Recording

    tables = synthetic(count)
    tile = np.arange(len(tables["buffers"]["byte"]))
    in_psum = tile % 8 == 7
    tables["buffers"]["space"] = in_psum.astype(np.int64)
    tables["buffers"]["byte"] = np.where(in_psum, tile // 8 % 8 * 2048, tile * 1024 % (192 * 1024))
    tables["buffers"]["name"] = [f"tile_{number}" for number in tile]
    return Recording(tables, {"kernel": "recorded", "target": "trn2"})


def _p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def attention(length: int) -> Any:
    """A recording of the example's flash attention of two heads."""
    folder = str(ROOT / "examples" / "kernels")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    import nki_lab

    nki_lab.activate()
    import k06_flash_attention as module

    return nki_lab.profile(module.flash_attention, *module.inputs(2, length)).recording


def _subjects() -> Iterator[tuple[str, Any, float]]:
    """Yield recordings by name, and the milliseconds that a first paint of each may take."""
    for size in SIZES:
        yield f"{size:,} rows", recorded(size), FIRST_PAINT[size]
    for length in ATTENTION:
        recording = attention(length)
        rows = len(recording.table("rows")["start"])
        yield f"flash attention, {rows:,} rows", recording, next(FIRST_PAINT[size] for size in SIZES if rows <= size)


def pages() -> Iterator[Told]:
    """Writing and first paint of pages in files, what a step costs them, and what a notebook keeps of them."""
    from nki_lab.export.html import html
    from nki_lab.wire import compact, encode

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for name, recording, budget in _subjects():
            file = Path(folder) / "page.html"
            start = time.perf_counter()
            file.write_text(html(recording), encoding="utf-8")
            writing = time.perf_counter() - start
            rows = len(recording.table("rows")["start"])
            yield {"name": f"writing a page, {name}", "value": writing, "unit": "s",
                   "reference": f"file {file.stat().st_size / 2**20:.1f} MiB", "budget": WRITING}  # fmt: skip
            kept = len(compact(encode(recording))) * 4 / 3
            yield {"name": f"bytes a row in a notebook, {name}", "value": kept / rows, "unit": "B",
                   "reference": f"{kept / 2**20:.2f} MiB in base64", "budget": KEPT}  # fmt: skip
            with window(browser) as tab:
                tab.page.set_content("<p>empty</p>")
                empty = tab.page.evaluate(_STEPPING, [STEPS, False])
                loop = f"loop of 20 M turns {tab.page.evaluate(_LOOP):.0f} ms"
                tab.page.add_init_script(_NOTE_PAINT)
                tab.page.goto(file.as_uri())
                tab.page.wait_for_function("() => window.nkiPainted > 0")
                paint = tab.page.evaluate("() => window.nkiPainted")
                yield {"name": f"first paint of a page, {name}", "value": paint, "unit": "ms",
                       "reference": f"{loop}, file {file.stat().st_size / 2**20:.1f} MiB",
                       "budget": budget}  # fmt: skip
                tab.visualizer().focus()
                times = tab.page.evaluate(_STEPPING, [STEPS, True])
                reference = f"{loop}, empty page {statistics.median(empty):.1f} ms, p95 {_p95(empty):.1f}"
                yield {"name": f"step over an empty page median, {name}", "unit": "ms", "reference": reference,
                       "value": max(0.0, statistics.median(times) - statistics.median(empty)),
                       "budget": STEP_MEDIAN}  # fmt: skip
                yield {"name": f"step over an empty page p95, {name}", "unit": "ms", "reference": reference,
                       "value": max(0.0, _p95(times) - _p95(empty)), "budget": STEP_P95}  # fmt: skip


def notebooks() -> Iterator[Told]:
    """First paint of a million rows as a widget, and what opening a run fifty times leaves in the page's memory."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        recorded(1_000).save(folder / "small.nkirec")
        recorded(1_000_000).save(folder / "large.nkirec")
        with lab(folder) as jupyter, chromium() as browser, window(browser) as tab:
            cells = ("import nki_lab\nsmall, large = (nki_lab.open(f'{name}.nkirec') for name in ('small', 'large'))",
                     "view = large.view()", "view", "small", _PLAIN)  # fmt: skip
            tab.open(jupyter, jupyter.notebook("measured.ipynb", *cells))
            tab.run(0)
            tab.run(1)
            yield _widget(tab)
            yield from _opening(tab)


def _widget(tab: Window) -> Told:
    tab.page.evaluate(f"() => {{ window.nkiStart = performance.now(); {_NOTE_PAINT} }}")
    tab.run(2)
    tab.page.wait_for_function("() => window.nkiPainted > 0")
    paint = tab.page.evaluate("() => window.nkiPainted - window.nkiStart")
    return {"name": "first paint of a widget, 1,000,000 rows", "value": paint, "unit": "ms",
            "reference": "from running the cell", "budget": FIRST_PAINT[1_000_000]}  # fmt: skip


def _opening(tab: Window) -> Iterator[Told]:
    """What a run keeps of the page's memory beyond a widget of one word: notebooks keep something of each widget."""
    plain, _ = _kept(tab, 4, ".jp-OutputArea .nki-plain")
    kept, heaps = _kept(tab, 3, ".jp-OutputArea .nki-where b")
    reference = (
        f"{kept:.1f} KiB, of a widget of one word {plain:.1f} KiB; {heaps[0]:.1f} MiB before, {heaps[-1]:.1f} after"
    )
    yield {"name": f"heap per opening over a plain widget's, {OPENED} times", "value": max(0.0, kept - plain),
           "unit": "KiB", "reference": reference, "budget": 20.0}  # fmt: skip


def _kept(tab: Window, cell: int, shown: str) -> tuple[float, list[float]]:
    """Return the KiB of the page's memory that a run of a cell keeps, and the MiB in use after each."""
    heaps = []
    for number in range(OPENED + 10):
        tab.run(cell)
        tab.page.locator(shown).last.wait_for()
        if number >= 9:
            heaps.append(tab.page.evaluate(_HEAP))
    half = len(heaps) // 2
    grown = statistics.median(heaps[half:]) - statistics.median(heaps[:half])
    return max(0.0, grown) / half * 1024, heaps
