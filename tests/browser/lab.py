"""A JupyterLab of this checkout and a Chromium to use it with. Both keep everything they write in one folder.

The browser's requests are noted: whatever does not go to the local server is a fault of the page.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import TimeoutError as PageTimeoutError

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "nki_lab" / "widgets" / "labextension"
ENABLED = ROOT / "nki_lab" / "jupyter" / "nki_lab.json"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--js-flags=--expose-gc", "--enable-precise-memory-info",
)  # fmt: skip
SECONDS = 45
PATIENCE = 120  # seconds for what takes as long as a kernel does
# What our users need not have: where it is installed, the list of completions is in its order.
OTHER_CLIENT = "@jupyter-lsp/jupyterlab-lsp"
# The cells of a notebook that runs a small kernel.
START = "%load_ext nki_lab\nimport numpy as np, nki, nki.isa as nisa, nki.language as nl, nki_lab\n"
ADD = """@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out

x = np.ones((128, 512), np.float32)
"""
LOCAL = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:", "about:")


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: where it answers, and the folder whose notebooks it shows."""

    url: str
    folder: Path

    def notebook(self, name: str, *cells: str | dict[str, Any], kernel: str = "python3") -> str:
        """Write a notebook of code cells; gives its name."""
        made = [nbformat.v4.new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
        spec = {"kernelspec": {"name": kernel, "display_name": "Python 3", "language": "python"}}
        nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=spec), self.folder / name)
        return name


@contextlib.contextmanager
def lab(folder: Path, *, without: tuple[str, ...] = (), serving: bool = True) -> Iterator[Lab]:
    """Start JupyterLab for a folder, `without` some extensions; what it keeps of itself goes into a hidden one there.

    Without `serving` the extension of Jupyter Server is not enabled, as where nki_lab is in the kernel's environment only.
    """
    state = folder / ".lab"
    extensions = state / "extensions"
    shutil.copytree(EXTENSION, extensions / "nki-lab")
    settings = state / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False}), encoding="utf-8"
    )
    enabled = state / "config" / "jupyter_server_config.d"
    enabled.mkdir(parents=True)
    switched = json.loads(ENABLED.read_text(encoding="utf-8"))
    switched["ServerApp"]["jpserver_extensions"]["nki_lab.jupyter"] = serving
    (enabled / ENABLED.name).write_text(json.dumps(switched), encoding="utf-8")
    disabled = state / "config" / "labconfig" / "page_config.json"
    disabled.parent.mkdir()
    disabled.write_text(json.dumps({"disabledExtensions": dict.fromkeys(without, True)}), encoding="utf-8")
    port = free_port()
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(state / "config"), "JUPYTER_DATA_DIR": str(state / "data"),
        "JUPYTER_RUNTIME_DIR": str(state / "runtime"), "JUPYTERLAB_WORKSPACES_DIR": str(state / "workspaces"),
        "JUPYTERLAB_SETTINGS_DIR": str(state / "settings"), "IPYTHONDIR": str(state / "ipython"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "JUPYTER_PREFER_ENV_PATH": "0",  # what stands in the folder counts, not what the environment enables
    }  # fmt: skip
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1",
        "--IdentityProvider.token=", "--ServerApp.password=", "--ServerApp.disable_check_xsrf=True",
        "--LabApp.expose_app_in_browser=True", f"--ServerApp.root_dir={folder}",
        f"--LabApp.extra_labextensions_path={extensions}",
    ]  # fmt: skip
    with served(command, environment, f"http://127.0.0.1:{port}", state / "lab.log") as url:
        yield Lab(url, folder)


@contextlib.contextmanager
def served(command: list[str], environment: dict[str, str], url: str, log: Path) -> Iterator[str]:
    """Start a Jupyter Server that answers at a URL, and end it; gives the URL."""
    with log.open("w", encoding="utf-8") as stream:
        server = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment)
    try:
        wait(f"{url}/api/status", server, log)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(20)  # it ends its kernels first
        except subprocess.TimeoutExpired:
            # JupyterLab looks in a thread whether its build is up to date; told to end meanwhile, it waits for that
            # thread for ever, after its kernels are gone.
            server.kill()
            server.wait()


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


def wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers; one that does not has its log in the error."""
    end = time.monotonic() + SECONDS
    while True:
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(url, timeout=2).read()
            return
        if server.poll() is not None or time.monotonic() > end:
            raise RuntimeError(log.read_text(encoding="utf-8")[-3000:])
        time.sleep(0.1)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start the machine's Chromium."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Window:
    """A window of the browser: its page, what the page asked of other places, and the errors it reported."""

    page: Page
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    # -- JupyterLab ----------------------------------------------------------------------------------------------------

    def open(self, lab: Lab, name: str, *, kernel: bool = True) -> None:
        """Open a notebook in JupyterLab, and wait until its kernel is ready; without `kernel` choose to have none."""
        self.page.goto(f"{lab.url}/lab/tree/{name}?reset")
        self.page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=SECONDS * 1000)
        if kernel:
            self.page.wait_for_function(f"() => ({_STATUS})() === 'idle'", timeout=SECONDS * 1000)
        else:
            self.page.locator(".jp-Dialog button", has_text="No Kernel").click(timeout=SECONDS * 1000)

    def kernel_status(self) -> str | None:
        """What the notebook's kernel does; None where it has none."""
        status: str | None = self.page.evaluate(_STATUS)
        return status

    def command(self, name: str, **arguments: Any) -> None:
        """Execute a command of JupyterLab and wait for its end."""
        answer(self.page, "([name, given]) => jupyterapp.commands.execute(name, given)", [name, arguments])

    def theme(self, name: str) -> None:
        """Give JupyterLab its "light" or "dark" theme, and wait for it.

        JupyterLab shows a splash while it changes and takes it away twice, with an error the second time, if another
        change begins before it is gone.
        """
        splash = self.page.locator("#jupyterlab-splash")
        splash.wait_for(state="detached")
        self.command("apputils:change-theme", theme=f"JupyterLab {name.title()}")
        self.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light", arg=str(name == "light").lower()
        )
        splash.wait_for(state="detached")

    def run_all(self) -> None:
        """Run every cell of the notebook, also those after one that fails, and wait for the last."""
        count = self.page.evaluate(f"() => {_NOTEBOOK}.widgets.length")
        for number in range(count):
            self.run(number)

    def run(self, number: int) -> None:
        """Run a cell, and wait until what it shows is there."""
        answer(
            self.page,
            f"async number => {{ {_NOTEBOOK}.activeCellIndex = number;"
            " await jupyterapp.commands.execute('notebook:run-cell'); }",
            number,
        )

    def save(self) -> None:
        """Save the notebook as its menu does."""
        self.command("docmanager:save")

    # -- a visualizer --------------------------------------------------------------------------------------------------

    def visualizers(self) -> list[Visualizer]:
        """The visualizers of the page, those that are drawn, from top to bottom."""
        return [Visualizer(self.page, item) for item in self.page.locator(".nki-visualizer:visible").all()]

    def visualizer(self, number: int = 0) -> Visualizer:
        """A visualizer of the page, as soon as it has drawn its run."""
        place = self.page.locator(".nki-visualizer").nth(number)
        place.wait_for(state="attached", timeout=SECONDS * 1000)
        place.scroll_into_view_if_needed()
        place.locator(".nki-where b").wait_for(timeout=SECONDS * 1000)
        return Visualizer(self.page, place)


_NOTEBOOK = "jupyterapp.shell.currentWidget.content"
_STATUS = """() => {
  const shown = window.jupyterapp && jupyterapp.shell.currentWidget;
  const session = shown && shown.sessionContext && shown.sessionContext.session;
  return (session && session.kernel && session.kernel.status) || null;
}"""


class Visualizer:
    """A visualizer as a user finds it: by roles and by what is written."""

    def __init__(self, page: Page, root: Any) -> None:
        self.page = page
        self.root = root

    @property
    def where(self) -> str:
        """What the transport says: "Step 3 of 176 · 1.00 µs"."""
        return " ".join((self.root.locator(".nki-where").text_content() or "").split())

    @property
    def name(self) -> str:
        """The kernel in the header."""
        return str(self.root.locator(".nki-kernel").text_content())

    @property
    def text(self) -> str:
        """Everything that is written."""
        return str(self.root.text_content())

    @property
    def step(self) -> int:
        """The step that is drawn, from 0 on, as the slider tells it to a screen reader."""
        return int(self.slider.input_value())

    @property
    def slider(self) -> Any:
        """The slider of steps."""
        return self.root.get_by_role("toolbar", name="Transport").locator("input[type=range]")

    def focus(self) -> None:
        """Give it the keyboard, as a click does."""
        self.root.get_by_role("toolbar", name="Transport").locator(".nki-where").click()

    def press(self, *keys: str) -> None:
        """Press keys one after the other, and wait until what they do is drawn."""
        for key in keys:
            self.page.keyboard.press(key)
        self.painted()

    def slide(self, step: int) -> None:
        """Move the slider to a step."""
        self.slider.fill(str(step))
        self.painted()

    def painted(self) -> None:
        """Wait for the next frame but one: by then what was asked for is on the screen."""
        painted(self.page)


def painted(page: Page) -> None:
    """Wait for the next frame but one: by then what was asked for is on the screen."""
    answer(page, "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def answer(page: Page, expression: str, given: Any = None) -> None:
    """Call a function in the page and wait for its end, up to a limit, which `page.evaluate` does not have.

    A function that does not end, since its kernel never answers, fails the test with what the page says then.
    """
    try:
        page.wait_for_function(
            f"async given => {{ await ({expression})(given); return true; }}", arg=given, timeout=PATIENCE * 1000
        )
    except PageTimeoutError as late:
        shown = page.locator("body").inner_text(timeout=5000)
        raise AssertionError(
            f"{expression} took more than {PATIENCE} seconds; the page says: {shown[-2000:]}"
        ) from late


@contextlib.contextmanager
def window(browser: Browser, *, width: int = 1440, height: int = 1100, dark: bool = False) -> Iterator[Window]:
    """Open a window with a profile of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    context.set_default_timeout(SECONDS * 1000)
    made = Window(context.new_page())
    made.page.on("request", lambda asked: None if asked.url.startswith(LOCAL) else made.requests.append(asked.url))
    made.page.on("pageerror", lambda error: made.errors.append(str(error)))
    try:
        yield made
    finally:
        context.close()
