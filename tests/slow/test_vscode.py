"""The extension does in a real VS Code what it says: code-server shows it to Chromium.

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
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Locator, Page, expect

from tests.browser.lab import chromium

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
INSTALLATION = ROOT / "build" / "code-server"
EXTENSION = ROOT / "editors" / "vscode"
SECONDS = 90  # VS Code takes half a minute to show the first finding on a busy machine
SOUND = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt


@nki.jit
def scale(x: nt.tensor[128, 512]):
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
FILES = {
    "sound.py": SOUND,
    "typed.py": SOUND,
    "faulty.py": SOUND.replace("nl.exp,", "nl.exq,"),
    "plain.py": "import os\n\nos.exq\n",
}
SETTINGS = {
    "nki-lab.server.interpreter": sys.executable,
    "security.workspace.trust.enabled": False,
    "workbench.startupEditor": "none",
    "chat.disableAIFeatures": True,
    "telemetry.telemetryLevel": "off",
    "editor.minimap.enabled": False,
}


@dataclass(frozen=True)
class Code:
    """A window of VS Code over a folder."""

    page: Page

    def open(self, name: str) -> None:
        """Show a file, as it is on the disk."""
        self.page.keyboard.press("Escape")
        self.page.get_by_role("treeitem", name=name).first.dblclick()
        expect(self.page.locator(".tab.active", has_text=name)).to_be_visible()

    def text(self, part: str) -> Locator:
        """The last place in the editor that has some text."""
        return self.page.locator(".view-line span:not(:has(span))", has_text=part).last

    def command(self, title: str) -> None:
        """Run a command by the palette."""
        self.page.keyboard.press("F1")
        box = self.page.locator(".quick-input-widget input.input")
        box.fill(f">{title}")
        row = self.page.locator(".quick-input-list .monaco-list-row").first
        expect(row).to_contain_text(title)
        row.click()

    def actions(self, part: str) -> Locator:
        """Ask for the quick fixes at some text; gives the list."""
        self.text(part).click()
        self.page.keyboard.press("Control+.")
        return self.page.locator(".action-widget .monaco-list-row")

    @property
    def squiggles(self) -> Locator:
        return self.page.locator(".squiggly-error")

    @property
    def status(self) -> Locator:
        return self.page.locator(".statusbar-item", has_text=re.compile("^NKI"))


def done(*command: str | Path) -> None:
    """Run a command of npm's; the test is skipped where that fetches nothing."""
    words = [str(item) for item in command]
    ran = subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True, timeout=900)
    if ran.returncode:
        pytest.skip(f"{command[0]} failed: {ran.stderr[-500:]}")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packed extension."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    if not (EXTENSION / "node_modules" / ".ready").exists():
        done(ROOT / "scripts" / "node-modules", "editors/vscode")
    done(ROOT / "scripts" / "code-server", INSTALLATION)
    shutil.copy(ROOT / "LICENSE", EXTENSION / "LICENSE.txt")
    path = tmp_path_factory.mktemp("package") / "nki-lab.vsix"
    for script in (["build"], ["pack", "--", "--out", str(path)]):
        subprocess.run(["npm", "run", "--silent", *script], cwd=EXTENSION, check=True, timeout=300)
    return path


@pytest.fixture(scope="module")
def address(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a VS Code with the extension answers, over a folder with `FILES`."""
    folder, state = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("code")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (state / "User").mkdir()
    (state / "User" / "settings.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
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
        answering(f"http://127.0.0.1:{port}/healthz", server)
        yield f"http://127.0.0.1:{port}/?folder={folder}"
    finally:
        server.terminate()
        server.wait(60)


def answering(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + SECONDS
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=5).read()
            return
        assert server.poll() is None
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.fixture(scope="module")
def code(address: str) -> Iterator[Code]:
    """A window whose server has given the first findings."""
    expect.set_options(timeout=SECONDS * 1000)
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
        context.set_default_timeout(SECONDS * 1000)
        page = context.new_page()
        page.goto(address)
        made = Code(page)
        made.open("faulty.py")
        expect(made.squiggles.first).to_be_attached()
        yield made
        context.close()
    expect.set_options(timeout=5000)


def test_a_fault_is_underlined_and_counted(code: Code) -> None:
    code.open("faulty.py")
    expect(code.squiggles).to_have_count(1)
    expect(code.status).to_have_text("NKI: 1 finding")


def test_hover_tells_the_finding_and_its_page(code: Code) -> None:
    code.open("faulty.py")
    code.text("exq").hover()
    shown = code.page.locator(".monaco-hover-content").first
    expect(shown).to_contain_text("nki.language has no exq")
    expect(shown).to_contain_text("The NKI module has no such name")


def test_shapes_stand_behind_names(code: Code) -> None:
    code.open("faulty.py")
    expect(code.page.locator(".view-lines")).to_contain_text(re.compile(r"tile:\s128×512\sfloat32\sSBUF"))


def test_lenses_stand_above_the_kernel(code: Code) -> None:
    code.open("faulty.py")
    lens = code.page.locator(".codelens-decoration").first
    expect(lens).to_contain_text("▶ run in a notebook cell")
    expect(lens).to_contain_text("no latency estimate: NKI006 stops it")


def test_a_code_is_explained_in_a_page_of_its_own(code: Code) -> None:
    code.open("faulty.py")
    code.actions("exq").filter(has_text="Explain NKI006").first.click()
    expect(code.page.locator(".tab.active", has_text="NKI006")).to_be_visible()
    expect(code.page.locator(".view-lines")).to_contain_text("What")


def test_a_quick_fix_removes_the_fault(code: Code) -> None:
    code.open("faulty.py")
    code.actions("exq").filter(has_text="Change exq to exp").first.click()
    expect(code.squiggles).to_have_count(0)
    expect(code.status).to_have_text("NKI: 0 findings")


def test_names_are_completed_with_their_engines(code: Code) -> None:
    code.open("typed.py")
    code.text("return").click()
    code.page.keyboard.press("Control+Shift+Enter")  # a line above
    code.page.keyboard.type("nisa.tensor_c")
    row = code.page.locator(".suggest-widget .monaco-list-row", has_text="tensor_copy").first
    expect(row).to_contain_text("Vector Engine")


def test_the_profile_of_a_kernel_is_shown_beside_it(code: Code) -> None:
    code.open("sound.py")
    code.text("activation").click()
    code.command("NKI: Profile this kernel")
    expect(code.page.locator(".tab", has_text="scale")).to_be_visible()
    shown = visualizer(code.page)
    expect(shown.locator(".nki-kernel").first).to_have_text("scale")
    expect(shown.locator(".nki-where").first).to_contain_text("of 3")


def visualizer(page: Page) -> Frame:
    """The frame, in a frame of the webview, that shows a run."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for frame in page.frames:
            with contextlib.suppress(Exception):  # a frame may be gone
                if frame.locator(".nki-visualizer").count():
                    return frame
        page.wait_for_timeout(200)
    raise AssertionError([frame.url for frame in page.frames])


def test_a_file_without_nki_has_no_status(code: Code) -> None:
    code.open("plain.py")
    expect(code.status).to_have_count(0)
