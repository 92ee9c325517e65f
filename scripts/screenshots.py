"""Writes docs/images/*.png, the pictures of the README: python scripts/screenshots.py [--out FOLDER].

They are taken of the real thing: a notebook in JupyterLab, in the machine's Chromium.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

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
                    keep(tab, card, out / f"findings-{theme}.png")


def prepared(tab: Window, theme: str) -> None:
    """Nothing but the notebook, in its theme."""
    tab.command("apputils:change-theme", theme=f"JupyterLab {theme.title()}")
    if tab.page.locator(".jp-FileBrowser").is_visible():
        tab.command("application:toggle-left-area")
    tab.page.mouse.move(0, 0)


def visualizer(tab: Window, file: Path) -> None:
    """The visualizer in the middle of the run."""
    drawn = tab.visualizer()
    drawn.slide(int(drawn.slider.get_attribute("max") or 0) * 2 // 3)
    drawn.focus()
    drawn.press("Escape")  # nothing selected
    tab.page.mouse.move(0, 0)
    tab.page.evaluate("() => document.activeElement.blur()")
    tab.page.wait_for_timeout(500)
    keep(tab, drawn.root, file)


_PIXELS: Final = """async source => {
  const picture = new Image();
  picture.src = source;
  await picture.decode();
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const context = canvas.getContext('2d');
  context.drawImage(picture, 0, 0);
  const bytes = context.getImageData(0, 0, picture.width, picture.height).data;
  const parts = [];
  for (let at = 0; at < bytes.length; at += 32768) parts.push(String.fromCharCode(...bytes.subarray(at, at + 32768)));
  return [picture.width, picture.height, btoa(parts.join(''))];
}"""
_COLOURS: Final = 256


def keep(tab: Window, place: Any, file: Path) -> None:
    """Write a picture of an element as a PNG with a palette, a third of what the browser writes."""
    taken = base64.b64encode(place.screenshot()).decode("ascii")
    width, height, pixels = tab.page.evaluate(_PIXELS, f"data:image/png;base64,{taken}")
    image = np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(height * width, 4)[:, :3].astype(np.int64)
    colours, number, counts = np.unique(image @ [65536, 256, 1], return_inverse=True, return_counts=True)
    rgb = np.stack([colours >> shift & 255 for shift in (16, 8, 0)], axis=1)
    # The most frequent ones, then whatever is farthest from them: a swatch is small, and has a hue of its own.
    chosen = np.argsort(-counts)[: _COLOURS // 2].tolist()
    away = np.min([((rgb - rgb[place]) ** 2).sum(axis=1) for place in chosen], axis=0)
    while len(chosen) < min(_COLOURS, len(rgb)):
        chosen.append(int((away * np.minimum(counts, 40)).argmax()))
        away = np.minimum(away, ((rgb - rgb[chosen[-1]]) ** 2).sum(axis=1))
    palette = rgb[chosen]
    nearest = np.array([int(((palette - colour) ** 2).sum(axis=1).argmin()) for colour in rgb], np.uint8)
    lines = np.hstack((np.zeros((height, 1), np.uint8), nearest[number].reshape(height, width)))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    written = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
               for kind, data in chunks)  # fmt: skip
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(written))


if __name__ == "__main__":
    main()
