"""Two runs over one another, in a page and in JupyterLab: what is drawn is what the comparison says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

import nki_lab
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.result.comparison import RunComparison
from tests.browser.lab import START, Lab, Window, painted
from tests.comparison.versions import COMPUTE, KERNEL, SCALED, as_of_a_device, edited, loaded, profiled

pytestmark = pytest.mark.extended

CELL = "%%nki --target trn2 --no-view{more}\nTILE = {tile}\n" + SCALED + "\n_ = scaled(a)\n"


def spaced(text: str | None) -> str:
    return " ".join((text or "").split())


def opened(tab: Window, folder: Path, found: RunComparison) -> Any:
    """Show the page of a comparison; return its frame."""
    tab.page.goto(found.to_html(folder / "compared.html").as_uri())
    frame = tab.page.locator(".nki-cmp")
    frame.locator(".nki-cmp-plot").wait_for()
    painted(tab.page)
    return frame


def hues(frame: Any) -> set[str]:
    """The engines whose colour fills some of the picture."""
    found: list[str] = frame.evaluate(
        """root => {
          const style = getComputedStyle(root), canvas = root.querySelector('.nki-cmp-plot canvas');
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          const counts = new Map();
          for (let at = 0; at < data.length; at += 4) {
            const key = [data[at], data[at + 1], data[at + 2]].map(n => n.toString(16).padStart(2, '0')).join('');
            counts.set(key, (counts.get(key) ?? 0) + 1);
          }
          return ['vector', 'dma', 'tensor'].filter(
            name => (counts.get(style.getPropertyValue(`--nki-${name}`).trim().slice(1).toLowerCase()) ?? 0) > 40);
        }"""
    )
    return set(found)


def test_the_page_says_what_the_comparison_says(tab: Window, tmp_path: Path) -> None:
    found = profiled(KERNEL).compare(profiled(edited("operand0=2.0)\n", "operand0=2.0)\n" + COMPUTE)))
    frame = opened(tab, tmp_path, found)
    assert spaced(frame.locator(".nki-cmp-sentence").text_content()) == spaced(found.sentence.replace("`", ""))
    assert [spaced(item.text_content()) for item in frame.locator(".nki-cmp-note").all()] == [
        spaced(note) for note in found.notes
    ]
    assert hues(frame) == {"vector", "dma"}
    frame.get_by_role("button", name="Edited").click()
    assert "operand0=2.0" in str(frame.locator(".nki-cmp-edits").text_content())
    lines = [spaced(item.text_content()) for item in frame.locator(".nki-cmp-lines .nki-cmp-number").all()]
    changed = [item.place for item in found.figures.lines if item.place and item.place.state != "same"]
    assert changed
    assert {str(place.other_line or place.line) for place in changed} <= set(lines)


def profile_and_run(folder: Path) -> RunComparison:
    run = profiled(edited("operand0=2.0)\n", "operand0=2.0)\n" + 3 * COMPUTE))
    return run.compare(nki_lab.open(as_of_a_device(run.to_explorer(folder / "profile"))))


def cores(_: Path) -> RunComparison:
    parted = edited("for i in range(a.shape[1] // TILE):",
                    "for i in range(nl.program_id(0), a.shape[1] // TILE, nl.num_programs(0)):")  # fmt: skip
    module = loaded(Path("version_cores.py"), parted)
    spec = nki_lab.spec((128, 4096), "float32")
    one, two = (nki_lab.profile(module.scaled[number], spec, target="trn2") for number in (1, 2))
    return one.compare(two)


@pytest.mark.parametrize(
    ("made", "labels"), [(profile_and_run, ["predicted", "measured"]), (cores, ["1 core", "2 cores"])]
)
def test_a_run_is_drawn_beside_the_profile_of_a_device_and_one_core_beside_two(
    tab: Window, tmp_path: Path, made: Callable[[Path], RunComparison], labels: list[str]
) -> None:
    found = made(tmp_path)
    frame = opened(tab, tmp_path, found)
    assert spaced(frame.locator(".nki-cmp-sentence").text_content()) == spaced(found.sentence.replace("`", ""))
    assert [spaced(item.text_content()) for item in frame.locator(".nki-cmp-side span").all()] == labels
    assert hues(frame) == {"vector", "dma"}
    heights = {}
    for name in ("Start", "Line"):
        frame.get_by_role("radio", name=name, exact=True).click()
        painted(tab.page)
        heights[name] = frame.locator(".nki-cmp-plot").bounding_box()["height"]
    assert heights["Start"] < heights["Line"]  # nothing lies between the runs then
    frame.locator(".nki-cmp-plot").focus()
    for _ in range(4):
        tab.page.keyboard.press("ArrowRight")
        painted(tab.page)
    steps = [frame.locator(f"[data-side={side}] [role=listitem][id]").count() for side in ("before", "after")]
    assert max(steps) == 1
    frame.get_by_role("tab", name="Memory").click()
    assert "SBUF peak" in str(frame.text_content())


def test_an_instruction_shows_its_partner(tab: Window, tmp_path: Path) -> None:
    runs = profiled(KERNEL), profiled(KERNEL, target="trn3")
    found = runs[0].compare(runs[1])
    frame = opened(tab, tmp_path, found)
    frame.locator(".nki-cmp-plot").focus()
    pairs = dict(zip(found.figures.rows.before.tolist(), found.figures.rows.after.tolist(), strict=True))
    orders = [whole(run.recording.order).tolist() for run in runs]
    for _ in range(3):
        tab.page.keyboard.press("ArrowRight")
        painted(tab.page)
        told = [frame.locator(f"[data-side={side}] [role=listitem][id]").text_content() for side in ("before", "after")]
        start = found_start(told[0])
        step = next(n for n, row in enumerate(orders[0]) if shown(runs[0].recording, row) == start)
        assert found_start(told[1]) == shown(runs[1].recording, pairs[orders[0][step]])
    tab.page.keyboard.press("x")
    painted(tab.page)
    tab.page.keyboard.press("Escape")
    painted(tab.page)
    assert frame.locator("[role=listitem][id]").count() == 0


def found_start(told: str | None) -> str:
    return spaced(told).partition(" at ")[2].partition(",")[0]


def shown(recording: Recording, row: int) -> str:
    from nki_lab import quantities

    return spaced(quantities.duration(int(recording.rows["start"][row])))


def test_alignments_scale_and_tables_are_reached_by_keys(tab: Window, tmp_path: Path) -> None:
    frame = opened(tab, tmp_path, profiled(edited("TILE = 512", "TILE = 256")).compare(profiled(KERNEL)))
    frame.locator(".nki-cmp-plot").focus()
    chosen = frame.get_by_role("radio", checked=True)
    assert [item.text_content() for item in chosen.all()] == ["Iteration", "Same"]
    for key, name in (("3", "Line"), ("1", "Start"), ("2", "Iteration")):
        tab.page.keyboard.press(key)
        assert chosen.first.text_content() == name
    tab.page.keyboard.press("r")
    assert chosen.last.text_content() == "Relative"
    label = frame.locator(".nki-cmp-plot").get_attribute("aria-label")
    tab.page.keyboard.press("w")
    painted(tab.page)
    assert frame.locator(".nki-cmp-plot").get_attribute("aria-label") != label
    for name in ("Engines", "Waits", "Memory", "Critical path"):
        tab.page.keyboard.press("t")
        assert frame.get_by_role("tab", selected=True).text_content() == name
        assert frame.get_by_role("tabpanel").locator("tr").count() > 1
    tab.page.keyboard.press("n")  # an instruction that only the earlier run has
    painted(tab.page)
    assert frame.locator("[data-side=before] [role=listitem][id]").count() == 1
    assert frame.locator("[data-side=after] [role=listitem][id]").count() == 0


def test_different_kernels_are_aligned_by_time(tab: Window, tmp_path: Path) -> None:
    other = profiled(
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n@nki.jit\ndef other(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(dst=out, src=a)\n    return out\n",
        name="other",
    )
    frame = opened(tab, tmp_path, profiled(KERNEL).compare(other))
    assert "different kernels" in str(frame.locator(".nki-cmp-sentence").text_content())
    assert frame.get_by_role("radio", checked=True).first.text_content() == "Start"
    assert frame.get_by_role("radio", name="Iteration").is_disabled()


@pytest.mark.parametrize("empty", [(True, True), (True, False), (False, True)])
def test_empty_runs_are_drawn(tab: Window, tmp_path: Path, empty: tuple[bool, bool]) -> None:
    nothing = Recording({}, {"kernel": "scaled", "target": "trn2"})
    full = profiled(KERNEL).recording
    frame = opened(tab, tmp_path, RunComparison(*(nothing if is_empty else full for is_empty in empty)))
    frame.locator(".nki-cmp-plot").focus()
    for key in ("ArrowRight", "x", "n", "p", ".", "ArrowDown", "f", "w", "Escape"):
        tab.page.keyboard.press(key)
    painted(tab.page)
    assert frame.locator(".nki-cmp-sentence").text_content()


def test_a_cell_draws_what_its_edit_changed(jupyter: Lab, tab: Window) -> None:
    start = START + "a = nki_lab.spec((128, 8192), 'float32')"
    cells = [CELL.format(tile=256, more=""), CELL.format(tile=1024, more=" --compare last")]
    name = jupyter.notebook("compared.ipynb", start, *cells, "nki_lab.profile(scaled, a).compare("
                            "nki_lab.profile(scaled, a, target='trn2')).view()")  # fmt: skip
    tab.open(jupyter, name)
    tab.run_all()
    frame = tab.page.locator(".nki-cmp").first
    frame.locator(".nki-cmp-plot").wait_for()
    text = spaced(frame.text_content())
    assert "TILE = 256" in text
    assert "Edited: 1 line" in text
    assert "faster" in text
    # The widget, fed by the kernel, draws the same way.
    widget = tab.page.locator(".nki-cmp").nth(1)
    widget.locator(".nki-cmp-plot").wait_for()
    assert "trn3" in spaced(widget.locator(".nki-cmp-bar").text_content())
    # A saved notebook draws it without a kernel.
    tab.save()
    notebook = nbformat.read(jupyter.folder / name, 4)
    notebook.metadata = nbformat.from_dict({
        "kernelspec": {"name": "elsewhere", "display_name": "", "language": "other"}
    })  # fmt: skip
    nbformat.write(notebook, jupyter.folder / "compared-again.ipynb")
    tab.open(jupyter, "compared-again.ipynb", kernel=False)
    tab.page.locator(".nki-cmp .nki-cmp-plot").first.wait_for()
