"""Whose interpreter VS Code starts: the user's own in a workspace that is not trusted, the one that is chosen elsewhere."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import venv
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError as StillThere
from playwright.sync_api import expect

from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
from tests.lsp.processes import servers
from tests.slow.code_server import SECONDS, packed, serving, window

pytestmark = pytest.mark.slow

FAULTY = """import nki
import nki.language as nl
import nki.typing as nt


@nki.jit
def scale(x: nt.tensor[128, 512]):
    return nl.exq(x)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(tmp_path_factory.mktemp("package"))


def hostile(folder: Path) -> Path:
    """Write a workspace that tries to be executed in each way known; gives the file that is there where one works."""
    mark = folder.parent / "executed"
    program = folder / ".venv" / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\nexec '{sys.executable}' \"$@\"\n", encoding="utf-8")
    program.chmod(0o755)
    (program.parent / "python").symlink_to(program)
    for name in ("sitecustomize.py", "usercustomize.py", "numpy.py", "ast.py", "nki_lab.py", "pygls.py"):
        (folder / name).write_text(f"open({str(mark)!r}, 'w')\n", encoding="utf-8")
    names = ("nki-lab.server.interpreter", "python.defaultInterpreterPath", "nki-lab.python")
    (folder / ".vscode").mkdir()
    (folder / ".vscode" / "settings.json").write_text(json.dumps(dict.fromkeys(names, str(program))), encoding="utf-8")
    (folder / "pyproject.toml").write_text(f"[tool.nki-lab]\npython = '{program}'\n", encoding="utf-8")
    (folder / "kernel.py").write_text(FAULTY, encoding="utf-8")
    return mark


def test_nothing_of_an_untrusted_workspace_is_executed_until_it_is_trusted(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    mark = hostile(folder)
    settings = {
        "nki-lab.server.interpreter": sys.executable,
        "security.workspace.trust.enabled": True,
        "security.workspace.trust.startupPrompt": "never",
    }
    with serving(package, folder, tmp_path / "state", settings) as address, window(address) as code:
        code.open("kernel.py")
        expect(code.squiggles).to_have_count(1)
        assert list(servers().values()) == [Path(sys.executable)]
        expect(code.found("NKI: Profile this kernel").filter(has_text="Profile this kernel")).to_have_count(0)
        assert not mark.exists()

        code.command("Workspaces: Manage Workspace Trust")
        code.page.locator(".workspace-trust-editor .monaco-button", has_text="Trust").first.click()
        end = time.monotonic() + SECONDS
        while not mark.exists():  # the interpreter of the workspace's settings counts now, so that the mark works
            assert time.monotonic() < end
            code.page.wait_for_timeout(200)


def test_a_python_without_the_package_is_told_once_and_another_one_is_chosen(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "kernel.py").write_text(FAULTY, encoding="utf-8")
    venv.create(tmp_path / "bare", symlinks=True)
    bare = tmp_path / "bare" / "bin" / "python"
    with (
        serving(package, folder, tmp_path / "state", {"nki-lab.server.interpreter": str(bare)}) as address,
        window(address) as code,
    ):
        code.open("kernel.py")
        notices = code.page.locator(".notification-list-item", has_text="NKI:")
        expect(notices).to_have_count(1)
        expect(notices).to_contain_text(f"nki_lab is not installed in {bare}")
        code.text("exq").click()
        code.page.keyboard.press("End")
        code.page.keyboard.type("  # typing does not try it again")
        code.page.wait_for_timeout(2000)
        expect(notices).to_have_count(1)
        notices.get_by_role("button", name="Choose interpreter").click()
        box = code.page.locator(".quick-input-widget input.input")
        expect(box).to_be_visible()
        box.fill(sys.executable)
        for _ in range(9):  # the dialogue takes a file once it has found it, and looks again at each Enter
            code.page.keyboard.press("Enter")
            with contextlib.suppress(StillThere):
                box.wait_for(state="hidden", timeout=SECONDS * 1000 / 9)
                break
        expect(code.squiggles).to_have_count(1)
        expect(code.status).to_have_text(f"NKI {DEFAULT_TARGET}: 1 finding")
