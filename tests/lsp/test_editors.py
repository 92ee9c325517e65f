"""Editors as people use them, without a screen: Emacs with eglot, and Neovim, start the server and ask it things.

Versions that know neither pulled diagnostics nor inlay hints, as Debian 12 has them, suffice.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).resolve().parent
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.ndarray((256, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_matmul(dst=tile, stationary=tile, moving=tile)
    return nl.exq(tile)
"""
SESSIONS = {
    "emacs": ["--batch", "-l", str(HERE / "editors" / "session.el")],
    "nvim": ["--headless", "-u", "NONE", "-i", "NONE", "-c", f"luafile {HERE / 'editors' / 'session.lua'}"],
}


def session(editor: str, folder: Path) -> dict[str, Any]:
    """What a session of an editor with a kernel in a folder says, by key."""
    program = shutil.which(editor)
    if program is None:
        pytest.skip(f"{editor} is not installed")
    file = folder / "kernel.py"
    file.write_text(KERNEL, encoding="utf-8")
    server = f"{sys.executable}\t-m\tnki_lab\tlsp"
    environment = os.environ | {"NKI_FILE": str(file), "NKI_SERVER": server, "HOME": str(folder), "TERM": "dumb"}
    done = subprocess.run(
        [program, *SESSIONS[editor]],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=240,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    if "eglot" in done.stderr and "Cannot open load file" in done.stderr:
        pytest.skip("eglot is not installed")
    assert file.read_text(encoding="utf-8") == KERNEL
    found = dict(json.loads(line) for line in lines)
    assert found.keys() == {"server", "diagnostics", "hover", "completion"}, (done.stdout, done.stderr)
    return found


@pytest.mark.parametrize("editor", SESSIONS)
def test_an_editor_gets_findings_hovers_and_completion(editor: str, tmp_path: Path) -> None:
    found = session(editor, tmp_path)
    assert any("exq" in text for text in found["diagnostics"])
    assert "stationary" in found["hover"]
    assert "nc_matmul" in [text.partition("(")[0].strip() for text in found["completion"]]
