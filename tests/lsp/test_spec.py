"""What jupyter-lsp finds."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from nki_lab.lsp.spec import spec


def test_the_entry_point_names_the_function(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["jupyter_lsp_spec_v1"] == {"nki-ls": "nki_lab.lsp.spec:spec"}


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[2]


def test_nki_cells_are_served_and_python_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NKI_LAB_LSP_PYTHON", raising=False)
    assert spec(None)["nki-ls"]["languages"] == ["nki"]
    monkeypatch.setenv("NKI_LAB_LSP_PYTHON", "1")
    found = spec(None)["nki-ls"]
    assert found["languages"] == ["nki", "python"]
    assert found["mime_types"] == ["text/x-nki", "text/python", "text/x-ipython"]
    assert found["version"] == 2


def test_the_command_starts_a_server() -> None:
    done = subprocess.run([*spec()["nki-ls"]["argv"], "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "--stdio" in done.stdout
