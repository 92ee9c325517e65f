"""A real VS Code with the extension, shown to Chromium by code-server.

npm fetches code-server and what packs the extension. Without npm, or without packages from it, nothing is tested.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error, Frame, Locator, Page, expect

from tests.browser.lab import chromium

ROOT = Path(__file__).resolve().parents[2]
INSTALLATION = ROOT / "build" / "code-server"
EXTENSION = ROOT / "editors" / "vscode"
SECONDS = 90  # VS Code takes long to start on a busy machine
SETTINGS = {
    "security.workspace.trust.enabled": False,
    "workbench.startupEditor": "none",
    "chat.disableAIFeatures": True,
    "telemetry.telemetryLevel": "off",
    "editor.minimap.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
}


@dataclass(frozen=True)
class Code:
    """A window of VS Code over a folder."""

    page: Page

    def open(self, name: str) -> None:
        """Show a file, as it is on the disk."""
        self.page.keyboard.press("Escape")
        self.page.get_by_role("treeitem", name=name).first.dblclick()
        expect(self.page.locator(".tab.active", has_text=name).first).to_be_visible()

    def text(self, part: str) -> Locator:
        """The last place in the editor that has some text."""
        return self.page.locator(".view-line span:not(:has(span))", has_text=part).last

    def command(self, title: str) -> None:
        """Run a command by the palette."""
        row = self.found(title).first
        expect(row).to_contain_text(title)
        row.click()

    def found(self, title: str) -> Locator:
        """The rows of the palette for a title."""
        self.page.keyboard.press("F1")
        self.page.locator(".quick-input-widget input.input").fill(f">{title}")
        return self.page.locator(".quick-input-list .monaco-list-row")

    def actions(self, part: str) -> Locator:
        """Ask for the quick fixes at some text; gives the list."""
        rows = self.page.locator(".action-widget .monaco-list-row")
        for _ in range(3):  # VS Code gives up where a busy machine takes long to answer
            self.text(part).click()
            self.page.keyboard.press("Control+.")
            with contextlib.suppress(Error):
                rows.first.wait_for(timeout=20_000)
                break
            self.page.keyboard.press("Escape")
        return rows

    @property
    def squiggles(self) -> Locator:
        return self.page.locator(".squiggly-error")

    @property
    def status(self) -> Locator:
        return self.page.locator(".statusbar-item", has_text=re.compile("^NKI"))

    def visualizer(self) -> Frame:
        """The frame, in a frame of the webview, that shows a run."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for frame in self.page.frames:
                with contextlib.suppress(Exception):  # a frame may be gone
                    if frame.locator(".nki-visualizer").count():
                        return frame
            self.page.wait_for_timeout(200)
        raise AssertionError([frame.url for frame in self.page.frames])


def packed(folder: Path) -> Path:
    """Return the packed extension; the test is skipped where npm fetches nothing."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    if not (EXTENSION / "node_modules" / ".ready").exists():
        _fetched(ROOT / "scripts" / "node-modules", "editors/vscode")
    _fetched(ROOT / "scripts" / "code-server", INSTALLATION)
    shutil.copy(ROOT / "LICENSE", EXTENSION / "LICENSE.txt")
    path = folder / "nki-lab.vsix"
    for script in (["build"], ["pack", "--", "--out", str(path)]):
        subprocess.run(["npm", "run", "--silent", *script], cwd=EXTENSION, check=True, timeout=300)
    return path


def _fetched(*command: str | Path) -> None:
    words = [str(item) for item in command]
    ran = subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True, timeout=900)
    if ran.returncode:
        pytest.skip(f"{command[0]} failed: {ran.stderr[-500:]}")


@contextlib.contextmanager
def serving(package: Path, folder: Path, state: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """Start a VS Code with the extension over a folder; gives its URL. `settings` are the user's own."""
    (state / "User").mkdir(parents=True)
    (state / "User" / "settings.json").write_text(json.dumps(SETTINGS | dict(settings)), encoding="utf-8")
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    command = [
        str(INSTALLATION / "node"), str(INSTALLATION / "node_modules/code-server/out/node/entry.js"),
        f"--user-data-dir={state}", f"--extensions-dir={state / 'extensions'}", f"--config={state / 'config.yaml'}",
    ]  # fmt: skip
    homes = {name: str(state / name) for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME")}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | homes | {"PYTHONPATH": path}
    subprocess.run([*command, "--install-extension", str(package)], env=environment, check=True, timeout=SECONDS)
    more = ["--auth=none", f"--bind-addr=127.0.0.1:{port}", "--disable-telemetry", "--disable-update-check"]
    with (state / "log").open("wb") as log:
        server = subprocess.Popen([*command, *more], env=environment, stdout=log, stderr=log)
    try:
        _answering(f"http://127.0.0.1:{port}/healthz", server)
        yield f"http://127.0.0.1:{port}/?folder={folder}"
    finally:
        server.terminate()
        server.wait(60)


def _answering(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + SECONDS
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=5).read()
            return
        assert server.poll() is None
        assert time.monotonic() < end
        time.sleep(0.2)


@contextlib.contextmanager
def window(address: str) -> Iterator[Code]:
    """Open a window of a VS Code."""
    expect.set_options(timeout=SECONDS * 1000)
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
        context.set_default_timeout(SECONDS * 1000)
        page = context.new_page()
        page.goto(address)
        yield Code(page)
        context.close()
    expect.set_options(timeout=5000)
