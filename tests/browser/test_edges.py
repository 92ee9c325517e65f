"""Runs at the edges, in every view: names that look like markup, one instruction, tiles of one element and of five
dimensions, no values, and what version 0.1 saved."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.export.html import MESSAGE_ID, html
from nki_lab.kernel_runtime.recording import Recording
from tests.browser.lab import Visualizer, Window

pytestmark = pytest.mark.extended

EVIL: Final = "<img src=x onerror=window.evil=1><script>window.evil=2</script>"
SAVED: Final = json.loads((Path(__file__).parent / "saved_by_0_1.json").read_text(encoding="utf-8"))


@nki.jit
def one_instruction(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out


@nki.jit
def no_instruction(a):
    return nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)


@nki.jit
def one_element(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, 1), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def five_dimensions(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf, name=EVIL)
    other = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_copy(dst=other, src=tile)
    nisa.tensor_scalar(dst=other[:, 0:2, 1:3, :, 0:4], data=tile[:, 2:4, 0:2, :, 1:5], op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=other)
    return out


def opened(tab: Window, folder: Path, text: str) -> Visualizer:
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    tab.page.goto(file.as_uri())
    return tab.visualizer()


def looked_at(tab: Window, drawn: Visualizer) -> str:
    """Step through a run with every view open, one after the other; gives all that was written."""
    last = int(drawn.slider.get_attribute("max") or 0)
    written = [drawn.text]
    drawn.root.get_by_role("button", name="Expand across the width: memory").click()
    for name in ("Values", "Details", "Source"):
        drawn.root.get_by_role("tab", name=name).click()
        drawn.focus()
        drawn.press("Home", *["ArrowRight"] * last)
        assert drawn.step == last
        written.append(drawn.text)
    drawn.press("x")
    written.append(str(tab.page.get_by_role("dialog", name="Motion").text_content()))
    tab.page.keyboard.press("Escape")
    for name in ("Summary", "Instructions"):
        drawn.root.get_by_role("tab", name=name).click()
        drawn.painted()
        written.append(drawn.text)
    assert tab.page.evaluate("() => window.evil") is None
    assert drawn.root.locator("img, script").count() == 0
    return re.sub(r"\s+", " ", " ".join(written))


@pytest.mark.parametrize(
    ("kernel", "shape", "expected"),
    [
        (one_instruction, (128, 64), ["Step 1 of 1"]),
        (one_element, (1, 1), ["Step 3 of 3", "4 B of 224 KiB"]),
        (five_dimensions, (128, 4, 3, 2, 5), ["Step 4 of 4", "[:, 2:4, 0:2, :, 1:5]", EVIL]),
    ],
)
@pytest.mark.parametrize("has_values", [True, False])
def test_every_view_shows_it(
    tab: Window, tmp_path: Path, kernel: Any, shape: tuple[int, ...], expected: list[str], has_values: bool
) -> None:
    if has_values:
        run = nki_lab.run(kernel, np.ones(shape, np.float32), target="trn2")
        run.pin(run.program.outputs[0]._buffer.id)
    else:
        run = nki_lab.profile(kernel, nki_lab.spec(shape, "float32"), target="trn2")
    page = tmp_path / "run.html"
    run.to_html(page)
    written = looked_at(tab, opened(tab, tmp_path, page.read_text(encoding="utf-8")))
    assert not [text for text in expected if text not in written]
    assert "NaN %" not in written and "undefined" not in written and "Infinity" not in written


def test_a_kernel_without_instructions_is_said(tab: Window, tmp_path: Path) -> None:
    run = nki_lab.run(no_instruction, np.ones((128, 64), np.float32), target="trn2")
    run.to_html(tmp_path / "page.html")
    tab.page.goto((tmp_path / "page.html").as_uri())
    tab.page.locator(".nki-visualizer").get_by_text("No instructions").wait_for()


def test_what_version_0_1_saved_is_drawn(tab: Window, tmp_path: Path) -> None:
    text = html(Recording({}, {"kernel": "none"}))
    page = re.sub(rf'id="{MESSAGE_ID}">[^<]*<', lambda _: f'id="{MESSAGE_ID}">{SAVED["message"]}<', text)
    drawn = opened(tab, tmp_path, page)
    assert drawn.name == "add"
    written = looked_at(tab, drawn)
    assert "Step 4 of 4" in written
    assert "undefined" not in written and "NaN %" not in written
