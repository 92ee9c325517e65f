"""VS Code's manifest repeats what Python declares."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nki_lab.lsp.requests import COMMANDS
from nki_lab.lsp.server import EXPLAIN
from scripts import vscode_manifest


def test_the_manifest_is_fresh(root: Path) -> None:
    assert (root / vscode_manifest.FILE).read_text(encoding="utf-8") == vscode_manifest.text()


def test_a_stale_manifest_is_renewed() -> None:
    stale = {"version": "0", "contributes": {"commands": [1], "configuration": {}}}
    found = vscode_manifest.renewed(stale)
    assert found["version"] != "0"
    assert found["contributes"]["commands"] == [1]
    assert "nki-lab.target" in found["contributes"]["configuration"]["properties"]
    assert "psum" in {item["id"] for item in found["contributes"]["semanticTokenModifiers"]}


def test_no_command_of_the_palette_is_one_of_the_server(root: Path) -> None:
    manifest = json.loads((root / vscode_manifest.FILE).read_text(encoding="utf-8"))
    commands = {item["command"] for item in manifest["contributes"]["commands"]}
    assert not commands & {EXPLAIN, *COMMANDS}  # the language client registers those
    source = (root / "editors/vscode/src/extension.ts").read_text(encoding="utf-8")
    assert commands == set(re.findall(r"^    '(nki-lab\.\w+)': ", source, re.MULTILINE))


def test_npm_packages_are_pinned_and_name_no_registry(root: Path) -> None:
    manifest = json.loads((root / vscode_manifest.FILE).read_text(encoding="utf-8"))
    assert not [name for name, version in manifest["devDependencies"].items() if not re.fullmatch(r"[\d.]+", version)]
    lock = json.loads((root / "editors/vscode/package-lock.json").read_text(encoding="utf-8"))
    assert lock["packages"][""]["devDependencies"] == manifest["devDependencies"]
    others = {name: entry for name, entry in lock["packages"].items() if name}
    assert not [name for name, entry in others.items() if "resolved" in entry or "integrity" not in entry]
