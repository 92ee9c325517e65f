"""Writes docs/images/*.png, the pictures of the README and the docs: python scripts/screenshots.py [--out FOLDER].

`--all FOLDER` also writes pictures of every view of several kernels, to look at; `--only WORD` takes those whose names
contain it. They are taken of the real thing: a notebook in JupyterLab, in the machine's Chromium.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from playwright.sync_api import Browser

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the driver of the browser tests

from tests.browser.lab import Lab, Visualizer, Window, chromium, lab, window  # noqa: E402 - the path stands above

PLACE: Final = Path("docs") / "images"
WIDTH: Final = 1590  # the visualizer is as wide as most windows, 1440 pixels
FAULTS: Final = "04_three_faults.ipynb"
START: Final = """%load_ext nki_lab
import sys
import numpy as np
import nki, nki.isa as nisa, nki.language as nl
import nki_lab

sys.path.insert(0, "kernels")


def view(run, name, share):
    \"""The visualizer of a run at one of the instructions with that name: the first is share 0, the last is 1.\"""
    names, ops = run.recording.texts("ops", "name"), run.recording.rows["op"]
    steps = [step for step, row in enumerate(run.recording.order[:]) if names[ops[row]] == name]
    return run.view(step=steps[int(share * (len(steps) - 1))])
"""
ATTENTION: Final = """import k06_flash_attention as attention
run = nki_lab.run(attention.flash_attention, *attention.inputs(heads=1), target="trn2")
"""
MATMUL: Final = """import k02_matmul as matmul
run = nki_lab.run(matmul.finish_in_turn, *matmul.inputs(), target="trn2")
"""
ROUTING: Final = """import k07_routing as routing
run = nki_lab.run(routing.route, *routing.inputs(), target="trn2")
"""
CORES: Final = """import k10_two_cores as cores
run = nki_lab.run(cores.layer_by_exchange[2], *cores.inputs(hidden=1024), target="trn2")
"""
COMPARE: Final = f"""{ATTENTION}run.compare(run.on("trn3"))
"""
MX: Final = """import k11_mx_matmul as mx
run = nki_lab.run(mx.mx_matmul, *mx.inputs(), target="trn3")
"""


class Scene(NamedTuple):
    """A picture: its name, the cell with the run, the instruction to stand at, and what is opened and taken."""

    name: str
    cell: str
    instruction: str
    share: float
    take: Callable[[Visualizer], Any]
    documented: bool = False


def whole(drawn: Visualizer) -> Any:
    return drawn.root


def motion(drawn: Visualizer) -> Any:
    return drawn.root.get_by_role("region", name="Motion")


def motion_expanded(drawn: Visualizer) -> Any:
    drawn.focus()
    drawn.press("x")
    return drawn.page.get_by_role("dialog", name="Motion")


def memory_expanded(drawn: Visualizer) -> Any:
    drawn.root.get_by_role("button", name="Expand across the width: memory").click()
    return drawn.root.locator(".nki-slot-memory")


def values(drawn: Visualizer) -> Any:
    drawn.root.get_by_role("tab", name="Values").click()
    region = drawn.root.get_by_role("region", name="Values")
    region.get_by_role("gridcell").first.wait_for()
    return region


def values_expanded(drawn: Visualizer) -> Any:
    region = values(drawn)
    region.get_by_role("button", name="Expand").click()
    region.get_by_label("Reference").select_option(index=1)
    drawn.page.wait_for_timeout(2000)
    grows = region.get_by_role("button", name="Work out")
    grows.click()
    grows.wait_for(state="detached")
    return region


SCENES: Final = (
    Scene("visualizer", ATTENTION, "nc_matmul", 0.4, whole, documented=True),
    Scene("motion", ATTENTION, "nc_matmul", 0.4, motion, documented=True),
    Scene("motion-expanded", MATMUL, "nc_matmul", 0.4, motion_expanded, documented=True),
    Scene("memory", MATMUL, "nc_matmul", 0.5, memory_expanded, documented=True),
    Scene("values", ATTENTION, "activation", 0.4, values_expanded, documented=True),
    Scene("matmul", MATMUL, "nc_matmul", 0.5, whole),
    Scene("routing", ROUTING, "dma_copy", 0.53, whole),
    Scene("routing-motion", ROUTING, "dma_copy", 0.53, motion_expanded),
    Scene("attention-memory", ATTENTION, "nc_matmul", 0.4, memory_expanded),
    Scene("attention-load", ATTENTION, "dma_copy", 0.3, motion_expanded),
    Scene("two-cores", CORES, "sendrecv", 0.0, whole),
    Scene("two-cores-memory", CORES, "sendrecv", 0.0, memory_expanded),
    Scene("mx", MX, "nc_matmul_mx", 0.5, whole),
    Scene("mx-motion", MX, "nc_matmul_mx", 0.5, motion_expanded),
    Scene("mx-values", MX, "quantize_mx", 0.5, values_expanded),
)


def main() -> None:
    """Take the pictures, in light and dark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="WORD")
    given = parser.parse_args()
    out = given.out / PLACE
    scenes = [scene for scene in SCENES if given.only in scene.name and (scene.documented or given.all)]
    for folder in (out, given.all):
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "examples" / FAULTS, folder)
        shutil.copytree(ROOT / "examples" / "kernels", Path(folder) / "kernels")
        with lab(Path(folder)) as jupyter, chromium() as browser:
            cells = [f"{scene.cell}view(run, {scene.instruction!r}, {scene.share})" for scene in scenes]
            name = jupyter.notebook("views.ipynb", START, *cells)
            with window(browser, width=WIDTH, height=1700) as tab:
                tab.open(jupyter, name)
                for theme in ("light", "dark"):
                    prepared(tab, theme)
                    tab.command("notebook:clear-all-cell-outputs")
                    tab.run(0)
                    for number, scene in enumerate(scenes, 1):
                        tab.run(number)
                        place = (out if scene.documented else given.all) / f"{scene.name}-{theme}.png"
                        taken(tab, scene, place)
                        tab.command("notebook:clear-cell-output")
            if given.only in "compare":
                compared(jupyter, browser, out)
            for theme in ("light", "dark"):
                with window(browser, width=WIDTH, height=1500) as tab:
                    tab.open(jupyter, FAULTS)
                    prepared(tab, theme)
                    faults(tab, out, theme, given.only)


def taken(tab: Window, scene: Scene, file: Path) -> None:
    """Take the picture of a scene from the last cell that ran."""
    drawn = tab.visualizer()
    drawn.painted()
    place = scene.take(drawn)
    quiet(tab)
    keep(tab, place, file)
    if place.get_attribute("aria-label") == "Motion" and place.evaluate("item => item.matches('dialog')"):
        tab.page.keyboard.press("Escape")


def compared(jupyter: Lab, browser: Browser, out: Path) -> None:
    """Take two runs over one another."""
    name = jupyter.notebook("compared.ipynb", START, COMPARE)
    for theme in ("light", "dark"):
        with window(browser, width=WIDTH, height=1500) as tab:
            tab.open(jupyter, name)
            prepared(tab, theme)
            tab.run_all()
            frame = tab.page.locator(".nki-cmp")
            frame.locator(".nki-cmp-plot").wait_for()
            quiet(tab)
            keep(tab, frame, out / f"compare-{theme}.png")


def faults(tab: Window, out: Path, theme: str, only: str) -> None:
    """Take the findings under a cell, and the run that failed."""
    if only in "findings":
        for number in (1, 2):
            tab.run(number)
        card = tab.page.locator(".nki-lab-cell .card").first
        card.wait_for()
        keep(tab, card, out / f"findings-{theme}.png")
        tab.command("notebook:clear-all-cell-outputs")
    if only in "fault":
        tab.run(1)
        tab.run(6)
        drawn = tab.visualizer()
        quiet(tab)
        keep(tab, drawn.root, out / f"fault-{theme}.png")


def prepared(tab: Window, theme: str) -> None:
    """Show nothing but the notebook, in its theme."""
    tab.theme(theme)
    if tab.page.locator(".jp-FileBrowser").is_visible():
        tab.command("application:toggle-left-area")
    tab.page.mouse.move(0, 0)
    tab.page.wait_for_timeout(500)


def quiet(tab: Window) -> None:
    """Take pointer and focus away."""
    tab.page.mouse.move(0, 0)
    tab.page.evaluate("() => document.activeElement.blur()")
    tab.page.wait_for_timeout(600)


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
