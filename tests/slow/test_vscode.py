"""The extension does in a real VS Code what it says."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
from tests.lsp.processes import servers
from tests.slow.code_server import SECONDS, Code, packed, serving, window

pytestmark = pytest.mark.slow

KERNEL = """@nki.jit
def scale(x: nt.tensor[128, 512]):
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
SOUND = f"import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n\n\n{KERNEL}"


def cell(text: str) -> dict[str, object]:
    """A code cell of a notebook."""
    return {"cell_type": "code", "id": f"c{len(text)}", "metadata": {}, "outputs": [], "source": text,
            "execution_count": None}  # fmt: skip


FILES = {
    "sound.py": SOUND,
    "typed.py": SOUND,
    "again.py": SOUND,
    "faulty.py": SOUND.replace("nl.exp,", "nl.exq,"),
    "plain.py": "import os\n\nos.exq\n",
    "cells.ipynb": json.dumps(
        {
            "cells": [
                cell("%load_ext nki_lab\nimport nki, nki.isa as nisa, nki.language as nl, nki.typing as nt"),
                cell("%%nki --target trn3\n" + KERNEL.replace("nl.exp,", "nl.exq,")),
            ],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `FILES`."""
    made = tmp_path_factory.mktemp("work")
    for name, text in FILES.items():
        (made / name).write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def code(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Code]:
    """A window whose server has given the first findings."""
    package, state = packed(tmp_path_factory.mktemp("package")), tmp_path_factory.mktemp("code")
    with (
        serving(package, folder, state, {"nki-lab.server.interpreter": sys.executable}) as address,
        window(address) as made,
    ):
        made.open("faulty.py")
        expect(made.squiggles.first).to_be_attached()
        yield made


def test_a_fault_is_underlined_and_counted(code: Code) -> None:
    code.open("faulty.py")
    expect(code.squiggles).to_have_count(1)
    expect(code.status).to_have_text(f"NKI {DEFAULT_TARGET}: 1 finding")


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
    expect(code.status).to_have_text(f"NKI {DEFAULT_TARGET}: 0 findings")


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
    shown = code.visualizer()
    expect(shown.locator(".nki-kernel").first).to_have_text("scale")
    expect(shown.locator(".nki-where").first).to_contain_text("of 3")


def test_a_click_in_the_profile_goes_to_the_line(code: Code) -> None:
    """The profile of the test before is there."""
    shown = code.visualizer()
    plot, lane = shown.locator(".nki-tl-over"), shown.locator(".nki-tl-cell", has_text="Scalar").first
    line = SOUND.splitlines().index("    nisa.activation(dst=tile, op=nl.exp, data=tile)") + 1
    at = code.page.locator(".line-numbers.active-line-number", has_text=re.compile(f"^{line}$"))
    code.text("return").click()
    expect(at).to_have_count(0)
    box, row = plot.bounding_box(), lane.bounding_box()
    assert box
    assert row
    middle = row["y"] + row["height"] / 2
    for share in range(5, 100, 5):  # somewhere is the only bar of the lane
        code.page.mouse.click(box["x"] + box["width"] * share / 100, middle)
        code.page.wait_for_timeout(300)
        if at.count():
            break
    expect(at).to_be_visible()
    code.page.keyboard.press("Home")  # the page has the keyboard still
    expect(shown.locator(".nki-where").first).to_contain_text("Step 1 of")
    code.text("return").click()
    code.command("View: Join All Editor Groups")


def test_a_file_without_nki_has_no_status(code: Code) -> None:
    code.open("plain.py")
    expect(code.status).to_have_count(0)


def test_cells_of_a_notebook_have_findings_and_fixes(code: Code) -> None:
    code.open("cells.ipynb")
    place = code.page.locator(".notebook-editor .squiggly-error")
    expect(place).to_have_count(1)
    code.text("exq").click()
    expect(code.status).to_have_text("NKI trn3: 1 finding")  # the cell's own target
    code.page.keyboard.press("Control+.")
    code.page.locator(".action-widget .monaco-list-row", has_text="Change exq to exp").first.click()
    expect(place).to_have_count(0)
    code.command("View: Revert and Close Editor")


def test_a_server_is_started_again_by_the_command_and_when_it_dies(code: Code) -> None:
    code.open("again.py")
    replace(code, "activation", "activatiom")
    expect(code.squiggles).to_have_count(1)
    restart, kill = lambda: code.command("NKI: Restart the language server"), lambda: os.kill(one(), signal.SIGKILL)
    for end, waits in ((restart, True), (kill, True), (kill, False)):  # what is typed meanwhile starts no second one
        before = one()
        end()
        if waits:
            until(lambda before=before: one() not in (0, before))
        replace(code, "activatiom", "activation")
        expect(code.squiggles).to_have_count(0)
        replace(code, "activation", "activatiom")
        expect(code.squiggles).to_have_count(1)


def replace(code: Code, before: str, after: str) -> None:
    """Type a name in the place of another."""
    code.text(before).dblclick()
    code.page.keyboard.type(after)
    code.page.keyboard.press("Escape")


def one() -> int:
    """The number of the language server, 0 where there is none or more than one."""
    found = list(servers())
    return found[0] if len(found) == 1 else 0


def until(done: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_target_is_chosen_from_a_list(code: Code, folder: Path) -> None:
    code.open("sound.py")
    code.command("NKI: Choose the target")
    code.page.locator(".quick-input-list .monaco-list-row", has_text="trn1").first.click()
    expect(code.status).to_have_text(re.compile("^NKI trn1"))
    settings = folder / ".vscode" / "settings.json"
    until(settings.is_file)
    assert json.loads(settings.read_text(encoding="utf-8")) == {"nki-lab.target": "trn1"}
