"""The stand-alone page: it opens from a file, and draws what was recorded."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import numpy as np
import pytest

from nki_lab import quantities
from nki_lab.export.html import MESSAGE_ID, html
from nki_lab.kernel_runtime.recording import Recording
from tests.browser.lab import Window
from tests.recordings import synthetic


def opened(tab: Window, folder: Path, text: str) -> None:
    """Show a page from a file."""
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    tab.page.goto(file.as_uri())


@pytest.mark.parametrize(("count", "chunk"), [(1, 1000), (2, 1000), (700, 1000), (700, 150)])
def test_every_step_is_the_recorded_one(
    tab: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, chunk: int
) -> None:
    monkeypatch.setattr("nki_lab.export.html.CHUNK", chunk)
    recording = Recording(synthetic(count), {"kernel": "k", "target": "trn2"})
    opened(tab, tmp_path, html(recording))
    drawn = tab.visualizer()
    drawn.focus()
    for step in sorted({0, 1, count // 2, count - 1} & set(range(count))):
        drawn.press("Home") if step == 0 else drawn.slide(step)
        start = quantities.duration(int(recording.rows["start"][recording.step(step)]))
        assert re.sub(r"\s", " ", drawn.where) == f"Step {step + 1} of {count} · {start}"
    drawn.press("End")
    assert drawn.step == count - 1
    drawn.press("ArrowRight")
    assert drawn.step == count - 1


def test_next_on_the_same_engine_is_the_recorded_one(tab: Window, tmp_path: Path) -> None:
    recording = Recording(synthetic(300), {"kernel": "k", "target": "trn2"})
    opened(tab, tmp_path, html(recording))
    drawn = tab.visualizer()
    drawn.focus()
    drawn.slide(40)
    lanes, steps = recording.rows["lane"][:], recording.order[:]
    mine = [step for step in range(41, 300) if lanes[steps[step]] == lanes[steps[40]]]
    for step in mine[:3]:
        drawn.press(".")
        assert drawn.step == step


def test_a_run_without_instructions_is_said(tab: Window, tmp_path: Path) -> None:
    opened(tab, tmp_path, html(Recording({}, {"kernel": "empty", "target": "trn2"})))
    tab.page.locator(".nki-visualizer").get_by_text("empty").first.wait_for()


@pytest.mark.parametrize("damage", ["cut", "changed", "replaced"])
def test_a_damaged_run_is_said(tab: Window, tmp_path: Path, damage: str) -> None:
    text = html(Recording(synthetic(50), {"kernel": "k"}))
    (message,) = re.findall(rf'id="{MESSAGE_ID}">([^<]*)<', text)
    broken = {
        "cut": message[: len(message) // 2 // 4 * 4],
        "changed": base64.b64encode(np.frombuffer(base64.b64decode(message), np.uint8)[::-1].tobytes()).decode(),
        "replaced": "no base64 at all!",
    }[damage]
    opened(tab, tmp_path, text.replace(message, broken))
    tab.page.get_by_text("This run cannot be shown").wait_for()


def test_without_scripts_the_page_is_a_report(tab: Window, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(html(Recording(synthetic(50), {"kernel": "flash_fwd"})), encoding="utf-8")
    browser = tab.page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "flash_fwd: " in page.locator("noscript").inner_text()
    context.close()
