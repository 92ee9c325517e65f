"""Writes docs/images/*.png, the pictures of the README: python scripts/screenshots.py [--out FOLDER].

They are taken of the real thing: a notebook in JupyterLab, in the machine's Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the driver of the browser tests

from tests.browser.lab import Window, chromium, lab, window  # noqa: E402 - the path stands above

PLACE: Final = Path("docs") / "images"
WIDTH: Final = 1280
NOTEBOOKS: Final = ("02_matmul_in_stages.ipynb", "04_three_faults.ipynb")


def main() -> None:
    """Take the pictures, in light and dark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT)
    out = parser.parse_args().out / PLACE
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in NOTEBOOKS:
            shutil.copy(ROOT / "examples" / name, folder)
        with lab(Path(folder)) as jupyter, chromium() as browser:
            for theme in ("light", "dark"):
                with window(browser, width=WIDTH, height=1500, dark=theme == "dark") as tab:
                    tab.open(jupyter, NOTEBOOKS[0])
                    prepared(tab, theme)
                    for number in (1, 3):
                        tab.run(number)
                    visualizer(tab, out / f"visualizer-{theme}.png")
                    tab.open(jupyter, NOTEBOOKS[1])
                    prepared(tab, theme)
                    for number in (1, 2):
                        tab.run(number)
                    card = tab.page.locator(".nki-lab-cell .card").first
                    card.wait_for()
                    card.screenshot(path=out / f"findings-{theme}.png")


def prepared(tab: Window, theme: str) -> None:
    """Nothing but the notebook, in its theme."""
    tab.command("apputils:change-theme", theme=f"JupyterLab {theme.title()}")
    if tab.page.locator(".jp-FileBrowser").is_visible():
        tab.command("application:toggle-left-area")
    tab.page.mouse.move(0, 0)


def visualizer(tab: Window, file: Path) -> None:
    """The visualizer with an instruction in the middle of the run selected."""
    drawn = tab.visualizer()
    drawn.slide(int(drawn.slider.get_attribute("max") or 0) * 2 // 3)
    drawn.focus()
    drawn.press("ArrowRight", "Enter")
    tab.page.mouse.move(0, 0)
    tab.page.wait_for_timeout(500)
    drawn.root.screenshot(path=file)


if __name__ == "__main__":
    main()
