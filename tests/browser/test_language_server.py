"""The language server in `%%nki` cells of a real JupyterLab, over the extension of Jupyter Server."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from nki_lab.export import code_looks
from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
from tests.browser.lab import OTHER_CLIENT, START, Lab, Window, lab, window

pytestmark = pytest.mark.extended

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


LOOKS = """%%nki --target trn2
import nki.typing as nt
@nki.jit
def looks(x: nt.tensor[128, 64]):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def looks(tab: Window, name: str) -> tuple[set[str], str]:
    """The modifiers and the colour of the last mention of a name in the page, as soon as names have looks."""
    tab.page.locator(".nki-lab-is-hbm").first.wait_for()
    found = tab.page.evaluate(
        """name => {
            const all = [...document.querySelectorAll('.nki-lab-token')].filter(node => node.textContent === name);
            const node = all[all.length - 1];
            return [[...node.classList], getComputedStyle(node.querySelector('*') ?? node).color];
        }""",
        name,
    )
    return {item.removeprefix("nki-lab-is-") for item in found[0]} - {"nki-lab-token", "defaultLibrary"}, found[1]


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


def test_names_have_the_looks_of_their_engine_and_memory_in_both_themes(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("looks.ipynb", START, LOOKS))
    for theme, shade in (("light", 0), ("dark", 1)):
        tab.theme(theme)
        dma, scalar, grey = (code_looks.LOOKS[name].colour for name in ("dma", "scalarEngine", "hbm"))
        assert dma
        assert scalar
        assert grey
        assert looks(tab, "dma_copy") == ({"dma"}, rgb(dma[shade]))
        assert looks(tab, "activation") == ({"scalarEngine"}, rgb(scalar[shade]))
        assert looks(tab, "out") == ({"hbm"}, rgb(grey[shade]))
        assert looks(tab, "tile")[0] == {"sbuf"}
    tab.page.emulate_media(forced_colors="active")
    tile = tab.page.locator(".nki-lab-is-sbuf").first
    assert tile.evaluate("node => getComputedStyle(node).fontWeight") == "600"
    tab.theme("light")


def test_looks_of_names_follow_what_is_typed_and_can_be_switched_off(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("looks_off.ipynb", START, LOOKS))
    assert looks(tab, "tile")[0] == {"sbuf"}
    edit(tab, 1, "buffer=nl.sbuf")
    tab.page.keyboard.press("Control+Backspace")
    tab.page.keyboard.type("psum")
    tab.page.locator(".nki-lab-is-psum", has_text="tile").first.wait_for()
    shown = tab.page.locator(".nki-lab-token")
    switch(tab, "colours")
    shown.first.wait_for(state="detached")
    assert squiggle(tab).count() > 0  # an activation of PSUM to PSUM is none, the copies into PSUM are
    switch(tab, "colours")
    shown.first.wait_for()


def switch(tab: Window, name: str) -> None:
    """Click on a switch of ours in the editor of settings, and leave that."""
    tab.command("settingeditor:open", query="NKI")
    tab.page.locator(f".jp-SettingsForm input[type=checkbox][id$='_{name}']").click()
    tab.page.wait_for_timeout(1000)  # the editor saves a little later
    tab.command("application:close")


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


def test_the_status_bar_has_the_target_of_the_cell_at_hand(jupyter: Lab, tab: Window) -> None:
    unnamed = CELL.replace(" --target trn2", "")
    named = unnamed.replace("%%nki", "%%nki --target trn1").replace("copied", "named")
    tab.open(jupyter, jupyter.notebook("own_target.ipynb", START, unnamed, named))
    status = tab.page.locator(".nki-lab-status")
    edit(tab, 2, "tile = nl.load(x)")
    status.filter(has_text="NKI · trn1 · ").wait_for()
    edit(tab, 1, "tile = nl.load(x)")
    status.filter(has_text=f"NKI · {DEFAULT_TARGET} · ").wait_for()
    edit(tab, 1, "%%nki")
    tab.page.keyboard.type(" --target trn2")
    status.filter(has_text="NKI · trn2 · ").wait_for()


def test_the_launcher_opens_the_examples(jupyter: Lab, tab: Window) -> None:
    tab.open(jupyter, jupyter.notebook("launcher.ipynb", START))
    tab.command("launcher:create")
    tab.page.locator(".jp-LauncherCard", has_text="NKI Examples").click()
    tab.page.locator(".jp-NotebookPanel", has_text="first kernel").first.wait_for()
    assert (jupyter.folder / "nki-examples" / "05_flash_attention.ipynb").is_file()


def test_where_the_server_lacks_the_extension_the_page_says_how_to_install_it(browser: Browser, tmp_path: Path) -> None:
    with lab(tmp_path, without=(OTHER_CLIENT,), serving=False) as bare, window(browser) as tab:
        tab.open(bare, bare.notebook("plain.ipynb", "import nki_lab"))
        notice = tab.page.locator(".Toastify__toast", has_text="No findings in %%nki cells")
        assert notice.count() == 0  # such a notebook needs nothing
        tab.open(bare, bare.notebook("bare.ipynb", START, FAULTY, FAULTY))
        notice.wait_for()
        assert notice.count() == 1
        assert "pip install 'nki-lab[notebook]'" in notice.inner_text()


def test_beside_jupyterlab_lsp_nothing_is_drawn_twice(browser: Browser, tmp_path: Path) -> None:
    with lab(tmp_path) as both, window(browser) as tab:
        tab.open(both, both.notebook("both.ipynb", START, FAULTY))
        tab.page.locator("#jp-main-statusbar", has_text="Initialized").wait_for()  # jupyterlab-lsp's server
        squiggle(tab).first.wait_for()
        tab.page.wait_for_timeout(2000)  # findings of another client would be there by now
        assert squiggle(tab).count() == 1
        assert looks(tab, "out")[0] == {"hbm"}
        assert tab.page.locator(".nki-lab-token .nki-lab-token, [class*=cm-semantic]").count() == 0
        assert tab.page.locator("[class*=cm-lintRange], .cm-lsp-hover-available").count() == 0
        squiggle(tab).first.hover()
        tab.page.locator(".nki-lab-card").wait_for()
        tab.page.wait_for_timeout(1000)
        assert tab.page.locator(".nki-lab-card").count() == 1
        assert tab.page.locator(".lsp-hover, .lsp-completer-panel").count() == 0
        assert tab.errors == []
