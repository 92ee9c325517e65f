"""Writes what VS Code's manifest repeats of Python's declarations: python scripts/vscode_manifest.py [--out FOLDER].

`editors/vscode/package.json` gets the version, the settings of the server beside the extension's own, and the types and
modifiers of semantic tokens that are not the protocol's.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from nki_lab import __version__
from nki_lab.lsp.settings import schema

ROOT = Path(__file__).resolve().parents[1]
FILE = Path("editors") / "vscode" / "package.json"
CAPABILITIES = ROOT / "nki_lab" / "lsp" / "capabilities.json"

OWN: dict[str, object] = {
    "nki-lab.server.interpreter": {
        "type": "string",
        "default": "",
        "scope": "machine-overridable",
        "description": "The Python in which nki_lab is installed; the server runs in it. Empty: the environment that "
        "the Python extension has active, else python.defaultInterpreterPath, else python3 on PATH.",
    },
}
"""The settings that the extension itself reads."""

STANDARD = frozenset({"declaration", "defaultLibrary"})
"""The modifiers of the protocol that VS Code declares by itself."""


def renewed(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest with the parts that are declared in Python."""
    properties = schema()["properties"]
    assert isinstance(properties, dict)
    settings = {name: {**entry, "scope": "resource"} for name, entry in properties.items()}
    legend = json.loads(CAPABILITIES.read_text(encoding="utf-8"))["capabilities"]["semanticTokensProvider"]["legend"]
    modifiers = [name for name in legend["tokenModifiers"] if name not in STANDARD]
    contributes = manifest["contributes"] | {
        "configuration": {"title": "NKI", "properties": OWN | settings},
        "semanticTokenModifiers": [{"id": name, "description": _described(name)} for name in modifiers],
    }
    return manifest | {"version": __version__, "contributes": contributes}


def _described(name: str) -> str:
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return f"NKI: {words}"


def text() -> str:
    """Return the file."""
    manifest = json.loads((ROOT / FILE).read_text(encoding="utf-8"))
    return json.dumps(renewed(manifest), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT)
    path = parser.parse_args().out / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
