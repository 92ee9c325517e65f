"""Frames with runs on pages of the site: drawn from a folder, as high as their views, in the theme of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.pages.__main__ import write
from scripts.pages.markdown import frame
from tests.browser.lab import Window

RUN = "k01_add-add_long_rows.html"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a small kernel, and a page with a frame for it."""
    out = tmp_path_factory.mktemp("site")
    write(out, ["gallery/k01_add.md"])
    head = '<!DOCTYPE html>\n<meta charset="utf-8"><script src="_static/site.js"></script>'
    body = f'<body data-theme="auto" style="height: 3000px">{frame(RUN, "a run", depth=0)}</body>'
    (out / "page.html").write_text(f"{head}{body}", encoding="utf-8")
    return out


def test_a_frame_is_as_high_as_its_views_and_follows_the_theme(tab: Window, folder: Path) -> None:
    tab.page.goto((folder / "page.html").as_uri())
    inner = tab.page.frame_locator("figure.run iframe")
    inner.get_by_text("add_long_rows").first.wait_for()
    tab.page.wait_for_function("() => parseInt(document.querySelector('iframe').style.height) > 400")
    height = tab.page.locator("figure.run iframe").evaluate("frame => frame.getBoundingClientRect().height")
    assert inner.locator("#nki-lab").evaluate("views => views.getBoundingClientRect().height") <= height
    for theme in ("dark", "light"):
        tab.page.evaluate("theme => { document.body.dataset.theme = theme }", theme)
        inner.locator(f'[data-nki-theme="{theme}"]').first.wait_for(state="attached")
    tab.page.evaluate("() => { document.body.dataset.theme = 'dark' }")
    inner.locator('[data-nki-theme="dark"]').first.wait_for(state="attached")
    tab.page.evaluate("() => { document.body.dataset.theme = 'auto' }")  # the system prefers light
    inner.locator('[data-nki-theme="light"]').first.wait_for(state="attached")


def test_the_page_of_a_run_stands_alone_too(tab: Window, folder: Path) -> None:
    tab.page.goto((folder / "_static" / "runs" / RUN).as_uri())
    drawn = tab.visualizer()
    drawn.focus()
    drawn.press("End")
    assert drawn.step > 0
