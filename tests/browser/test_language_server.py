"""The language server in `%%nki` cells of a real JupyterLab, over the extension of Jupyter Server."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
from tests.browser.lab import START, Lab, Window, lab, window

CELL = """%%nki --target trn2
import nki.typing as nt
@nki.jit
def copied(x: nt.tensor[128, 64]):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, tile)
    return out
"""
FAULTY = CELL.replace("nl.load(x)", "nl.loat(x)")


def squiggle(tab: Window, kind: str = "error") -> Any:
    return tab.page.locator(f".nki-lab-squiggle.nki-lab-{kind}")


def edit(tab: Window, number: int, text: str) -> None:
    """Put the cursor behind a text in a cell, as a click does."""
    tab.page.evaluate(
        """async ([number, text]) => {
            const notebook = jupyterapp.shell.currentWidget.content;
            notebook.activeCellIndex = number;
            notebook.mode = 'edit';
            const { editor } = notebook.widgets[number];
            const anchor = editor.model.sharedModel.getSource().indexOf(text) + text.length;
            editor.editor.dispatch({ selection: { anchor }, scrollIntoView: true });
            editor.focus();
        }""",
        [number, text],
    )


def source(tab: Window, number: int) -> str:
    found: str = tab.page.evaluate(
        "number => jupyterapp.shell.currentWidget.content.widgets[number].model.sharedModel.getSource()", number
    )
    return found


def test_an_error_has_a_squiggle_and_a_fix_by_keyboard(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("fault.ipynb", START, FAULTY))
    squiggle(tab).first.wait_for()
    assert squiggle(tab).first.text_content() == "nl.loat"
    edit(tab, 1, "nl.loat")
    tab.page.keyboard.press("Control+.")
    tab.page.locator(".nki-lab-menu").wait_for()
    tab.page.keyboard.press("Enter")
    squiggle(tab).first.wait_for(state="detached")
    assert source(tab, 1) == CELL
    tab.page.locator(".nki-lab-hint", has_text="128×64 float32 SBUF").wait_for()


def test_names_are_completed_with_the_keyboard_in_jupyterlabs_own_list(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("complete.ipynb", START, CELL))
    edit(tab, 1, "tile = nl.load(x)")
    tab.page.locator(".nki-lab-hint").first.wait_for()  # the server is ready
    tab.page.keyboard.type("\nnisa.nc_")
    tab.page.keyboard.press("Tab")
    tab.page.locator(".jp-Completer .jp-Completer-item", has_text="nc_transpose").wait_for()
    tab.page.keyboard.type("transp")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_function(
        "() => jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.getSource().includes('nc_transpose')"
    )


def test_missing_arguments_come_first_with_their_sign(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("arguments.ipynb", START, CELL))
    edit(tab, 1, "tile = nl.load(x)")
    tab.page.locator(".nki-lab-hint").first.wait_for()
    tab.page.keyboard.type("\nnl.zeros((128, 64), ")
    tab.page.keyboard.press("Tab")
    tab.page.locator(".jp-Completer-item").first.wait_for()
    assert tab.page.locator(".jp-Completer-match").first.inner_text() == "dtype="
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_function(
        "() => jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.getSource().includes('64), dtype=')"
    )


def test_completions_are_those_that_begin_as_typed(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("begun.ipynb", START, CELL))
    edit(tab, 1, "tile = nl.load(x)")
    tab.page.locator(".nki-lab-hint").first.wait_for()
    tab.page.keyboard.type("\nnisa.nc_ma")
    tab.page.keyboard.press("Tab")
    tab.page.locator(".jp-Completer-item").first.wait_for()
    shown = tab.page.locator(".jp-Completer-match").all_inner_texts()
    assert "nc_matmul" in shown
    assert all(name.startswith("nc_ma") for name in shown)


def test_a_call_shows_its_signature_while_it_is_typed(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("signature.ipynb", START, CELL))
    edit(tab, 1, "tile = nl.load(x)")
    tab.page.locator(".nki-lab-hint").first.wait_for()
    tab.page.keyboard.type("\nnisa.nc_matmul(")
    card = tab.page.locator(".nki-lab-signature")
    card.wait_for()
    assert "nc_matmul(" in card.inner_text()
    assert card.locator("b").inner_text().startswith("dst")
    tab.page.keyboard.type("dst=tile, stationary=")
    card.locator("b", has_text="stationary").wait_for()


def test_a_hover_has_the_finding_with_its_fix_and_the_page_of_its_code(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("hover.ipynb", START, FAULTY))
    squiggle(tab).first.hover()
    card = tab.page.locator(".nki-lab-card")
    card.wait_for()
    assert card.locator(".nki-lab-code").inner_text().startswith("NKI")
    card.locator(".nki-lab-fix").first.click()
    card.wait_for(state="detached")
    squiggle(tab).first.wait_for(state="detached")
    assert source(tab, 1) == CELL


def test_findings_come_while_the_kernel_is_busy_and_a_run_is_stepped_through(jupyter: Lab, tab: Window) -> None:
    busy = "import time; time.sleep(600)"
    run = f"{CELL}\ncopied(np.ones((128, 64), np.float32))"
    tab.open(jupyter, jupyter.notebook("busy.ipynb", START, run, busy))
    tab.run(0)
    tab.run(1)
    drawn = tab.visualizer()
    drawn.focus()
    drawn.press("Home", "ArrowRight")
    assert drawn.step == 1
    edit(tab, 2, "600)")
    tab.page.keyboard.press("Control+Enter")
    tab.page.wait_for_function(f"() => ({_BUSY})() === 'busy'")
    edit(tab, 1, "nl.loa")
    tab.page.keyboard.type("f")
    squiggle(tab).first.wait_for()
    assert tab.kernel_status() == "busy"
    tab.command("notebook:interrupt-kernel")


_BUSY = "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"


def test_cells_without_the_magic_are_left_alone(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("plain.ipynb", START, FAULTY, FAULTY.partition("\n")[2]))
    squiggle(tab).first.wait_for()
    assert squiggle(tab).count() == 1


def test_a_language_server_that_is_lost_comes_back(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("lost.ipynb", START, FAULTY))
    squiggle(tab).first.wait_for()
    kill_servers()
    squiggle(tab).first.wait_for(state="detached")
    squiggle(tab).first.wait_for()


def kill_servers() -> None:
    """End every language server that a Jupyter Server of this process has started."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            grandparent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
            if grandparent == os.getpid() and b"nki_lab.lsp" in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def test_the_notebooks_findings_are_listed_and_one_is_gone_to(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("listed.ipynb", START, FAULTY, CELL.replace("64]", "64]]")))
    tab.page.locator(".nki-lab-status", has_text="2 findings").click()
    rows = tab.page.locator(".jp-Dialog .nki-lab-row")
    assert rows.count() == 2
    assert "loat" in rows.nth(0).inner_text()
    assert _bottom(rows.nth(0).locator(".nki-lab-message")) <= _bottom(rows.nth(0))  # it is in sight
    rows.nth(1).click()
    tab.page.locator(".jp-Dialog").wait_for(state="detached")
    assert tab.page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex") == 2


def _bottom(place: Any) -> float:
    box = place.bounding_box()
    return float(box["y"] + box["height"])


def test_the_menu_sets_the_target(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("target.ipynb", START, CELL))
    tab.page.locator(".nki-lab-hint").first.wait_for()
    tab.page.locator(".lm-MenuBar-item", has_text="NKI").click()
    tab.page.locator(".lm-Menu-item", has_text="Target").hover()
    tab.page.locator(".lm-Menu-item", has_text="Target trn1").click()
    tab.page.locator(".nki-lab-status", has_text="NKI · trn1 · 0 findings").wait_for()
    tab.command("nki-lab:target", target="")
    tab.page.locator(".nki-lab-status", has_text=f"NKI · {DEFAULT_TARGET} · 0 findings").wait_for()


def test_the_status_bar_has_the_target_of_the_project(jupyter: Lab, tab: Window) -> None:
    project = jupyter.folder / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text('[tool.nki-lab]\ntarget = "trn1"\n', encoding="utf-8")
    tab.open(jupyter, jupyter.notebook("project/own.ipynb", START, CELL))
    tab.page.locator(".nki-lab-status", has_text="NKI · trn1 · ").wait_for()


def test_the_launcher_opens_the_examples(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("launcher.ipynb", START))
    tab.command("launcher:create")
    tab.page.locator(".jp-LauncherCard", has_text="NKI Examples").click()
    tab.page.locator(".jp-NotebookPanel", has_text="first kernel").first.wait_for()
    assert (jupyter.folder / "nki-examples" / "05_flash_attention.ipynb").is_file()


def test_beside_jupyterlab_lsp_nothing_is_drawn_twice(browser: Browser, tmp_path: Path) -> None:
    with lab(tmp_path) as both, window(browser) as tab:
        tab.open(both, both.notebook("both.ipynb", START, FAULTY))
        tab.page.locator("#jp-main-statusbar", has_text="Initialized").wait_for()  # jupyterlab-lsp's server
        squiggle(tab).first.wait_for()
        tab.page.wait_for_timeout(2000)  # findings of another client would be there by now
        assert squiggle(tab).count() == 1
        assert tab.page.locator("[class*=cm-lintRange], .cm-lsp-hover-available").count() == 0
        squiggle(tab).first.hover()
        tab.page.locator(".nki-lab-card").wait_for()
        tab.page.wait_for_timeout(1000)
        assert tab.page.locator(".nki-lab-card").count() == 1
        assert tab.page.locator(".lsp-hover, .lsp-completer-panel").count() == 0
        assert tab.errors == []
