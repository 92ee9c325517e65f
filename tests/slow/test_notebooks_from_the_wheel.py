"""`pip install 'nki-lab[notebook]'` is all that `%%nki` cells need: JupyterLab and Notebook 7 from the wheel, in a browser.

Server, kernel, page and language server are those of an environment that has the wheel and what pip fetches for it. The
checkout only drives the browser.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.lab import START, Lab, Window, chromium, free_port, served, window
from tests.lsp.processes import servers
from tests.slow.environments import ROOT, Install, clean

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patience")]

NOTEBOOK = "notebook==7.6.5"
BEGUN = """%%nki --target trn2
@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)"""
FAULTY = f"""{BEGUN}
    nl.store(out, nl.loat(a))
    return out
"""
WHOLE = f"""{BEGUN}
    tile = nl.load(a)
    nl.store(out, value=tile)
    return out
copied(np.ones((128, 64), np.float32))"""


@contextlib.contextmanager
def started(python: Path, module: str, folder: Path, *, without: tuple[str, ...] = ()) -> Iterator[Lab]:
    """Start a server of an environment for a folder, `without` extensions; its own files go into a hidden one there."""
    port = free_port()
    state = folder / (f".state-without-{'-'.join(without)}" if without else ".state")
    disabled = state / "config" / "labconfig" / "page_config.json"
    disabled.parent.mkdir(parents=True)
    disabled.write_text(json.dumps({"disabledExtensions": dict.fromkeys(without, True)}), encoding="utf-8")
    kinds = ("CONFIG", "DATA", "RUNTIME")
    environment = clean(python) | {f"JUPYTER_{kind}_DIR": str(state / kind.lower()) for kind in kinds}
    environment |= {"IPYTHONDIR": str(state / "ipython"), "JUPYTERLAB_SETTINGS_DIR": str(state / "settings")}
    environment |= {"JUPYTERLAB_WORKSPACES_DIR": str(state / "workspaces")}
    news = state / "settings" / "@jupyterlab" / "apputils-extension"
    news.mkdir(parents=True)
    (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    command = [
        str(python), "-m", module, "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1",
        "--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True",
        "--JupyterNotebookApp.expose_app_in_browser=True", f"--ServerApp.root_dir={folder}",
    ]  # fmt: skip
    with served(command, environment, f"http://127.0.0.1:{port}", state / "log") as url:
        yield Lab(url, folder)


@contextlib.contextmanager
def opened(*, errors: list[str] | None = None) -> Iterator[Window]:
    """Open a window whose page asks nothing of other places and reports no errors but the given ones."""
    with chromium() as browser, window(browser) as tab:
        yield tab
        assert tab.requests == []
        assert tab.errors == (errors or [])


def text_of(tab: Window, number: int) -> str:
    found: str = tab.page.evaluate(
        "number => jupyterapp.shell.currentWidget.content.widgets[number].model.sharedModel.getSource()", number
    )
    return found


def squiggle(tab: Window) -> Any:
    return tab.page.locator(".nki-lab-squiggle.nki-lab-error")


def has(tab: Window, text: str) -> None:
    """Wait until the second cell has a text."""
    tab.page.wait_for_function(
        "text => jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.getSource().includes(text)",
        arg=text,
    )


def test_in_jupyterlab_a_fault_is_typed_seen_fixed_and_the_kernel_completed_run_and_stepped(
    install: Install, tmp_path: Path
) -> None:
    python = install("notebook")
    with started(python, "jupyterlab", tmp_path) as lab, opened() as tab:
        tab.open(lab, lab.notebook("whole.ipynb", START, BEGUN, "print(nki_lab.__file__)"))
        tab.run(0)
        tab.page.locator(".jp-Notebook .cm-content").nth(1).click()
        tab.page.keyboard.press("Control+End")
        tab.page.keyboard.type("\ntile = nl.loat(a)")
        squiggle(tab).first.wait_for()
        assert squiggle(tab).first.text_content() == "nl.loat"

        tab.page.keyboard.press("Control+.")
        tab.page.locator(".nki-lab-menu").wait_for()
        tab.page.keyboard.press("Enter")
        has(tab, "nl.load(a)")
        squiggle(tab).first.wait_for(state="detached")

        tab.page.keyboard.press("Control+End")
        tab.page.keyboard.type("\nnl.store(out, v")
        tab.page.keyboard.press("Tab")
        if "value=" not in text_of(tab, 1):  # more than one fits
            tab.page.locator(".jp-Completer-item", has_text="value=").first.wait_for()
            tab.page.keyboard.press("Enter")
        has(tab, "out, value=")
        tab.page.keyboard.type("tile)\nreturn out\n")
        tab.page.keyboard.press("Shift+Home")
        tab.page.keyboard.type("copied(np.ones((128, 64), np.float32))")
        assert text_of(tab, 1) == WHOLE
        expect(squiggle(tab)).to_have_count(0, timeout=30_000)

        tab.page.keyboard.press("Control+Enter")
        drawn = tab.visualizer()
        assert drawn.name == "copied"
        drawn.focus()
        drawn.press("Home", "ArrowRight")
        assert drawn.step == 1

        tab.run(2)
        shown = tab.page.locator(".jp-OutputArea-output pre", has_text="__init__.py").inner_text()
        assert Path(shown.strip()).is_relative_to(python.parents[1])
        interpreters = servers().values()
        assert interpreters
        assert all(interpreter.is_relative_to(python.parents[1]) for interpreter in interpreters)
        assert str(ROOT) not in str(python)


_KERNEL_IS_IDLE = """async () => {
    const sessions = await (await fetch('/api/sessions')).json();
    return sessions.some(session => session.kernel.execution_state === 'idle');
}"""


def errors_of_its_own(python: Path, folder: Path) -> list[str]:
    """Return what Notebook's page reports without our extension.

    In 7.6.5 its keyboard shortcuts fail on settings of another of its plugins that are there before their own ("reading
    'schema'").
    """
    with (
        started(python, "notebook", folder, without=("nki-lab",)) as bare,
        chromium() as browser,
        window(browser) as tab,
    ):
        tab.page.goto(f"{bare.url}/notebooks/{bare.notebook('bare.ipynb', START)}")
        tab.page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
        tab.page.wait_for_function(_KERNEL_IS_IDLE)  # a server that is ended while it starts a kernel waits for ever
        assert tab.page.locator(".lm-MenuBar-item", has_text="NKI").count() == 0
        return tab.errors


def test_notebook_7_has_squiggles_and_fixes(install: Install, tmp_path: Path) -> None:
    python = install("notebook", more=(NOTEBOOK,))
    own = errors_of_its_own(python, tmp_path)
    with started(python, "notebook", tmp_path) as lab, opened(errors=own) as tab:
        tab.page.goto(f"{lab.url}/notebooks/{lab.notebook('fault.ipynb', START, FAULTY)}")
        squiggle(tab).first.wait_for()
        assert squiggle(tab).first.text_content() == "nl.loat"
        squiggle(tab).first.hover()
        tab.page.locator(".nki-lab-card .nki-lab-fix").first.click()
        squiggle(tab).first.wait_for(state="detached")


def test_jupyterlab_says_what_is_missing_and_how_to_install_it(install: Install, tmp_path: Path) -> None:
    python = install("notebook", without="pygls")
    with started(python, "jupyterlab", tmp_path) as lab, opened() as tab:
        tab.open(lab, lab.notebook("plain.ipynb", "import nki_lab"))
        tab.page.wait_for_timeout(1000)
        assert tab.page.get_by_text("No findings in %%nki cells").count() == 0  # a notebook without kernels
        tab.open(lab, lab.notebook("missing.ipynb", START, FAULTY, FAULTY))
        notice = tab.page.locator(".Toastify__toast", has_text="No findings in %%nki cells")
        notice.wait_for()
        assert notice.count() == 1
        assert "pygls" in notice.inner_text()
        assert "pip install 'nki-lab[lsp]'" in notice.inner_text()
