"""A small project with a kernel, a helper in another file, and tests; in its own processes and in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

SETTINGS = """
[tool.nki-lab]
record-signatures = true
target = "trn2"
"""
HELPERS = """
from dataclasses import dataclass
from enum import Enum

import nki.isa as nisa
import nki.language as nl


class Layout(Enum):
    rows = 1
    columns = 2


@dataclass
class Config:
    width: int
    layout: Layout = Layout.rows


def scale(tile, factor, config, wide=False):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    if wide:
        nisa.tensor_scalar(dst=out, data=tile, op0=nl.multiply, operand0=factor)
    else:
        nisa.tensor_copy(dst=out, src=tile)
    return out


def load(x, rows):
    rows = int(rows)
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:rows, :])
    return tile
"""
KERNELS = """
import nki
import nki.isa as nisa
import nki.language as nl

from helpers import load, scale


@nki.jit
def double(x, config):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(x, x.shape[0])
    for k in range(2):
        tile = scale(tile, 2.0, config, wide=k == 1 and x.shape[1] > 256)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
TESTS = """
import helpers
import kernels
import numpy as np
import pytest


@pytest.fixture
def run():
    return lambda *sizes: kernels.double(np.ones(sizes, np.float32), helpers.Config(sizes[1]))


@pytest.mark.parametrize("columns", [128, 512])
def test_double(run, columns):
    run(128, columns)


def test_refused(run):
    with pytest.raises(Exception, match="NKI"):
        run(256, 512)
"""
CONFTEST = """
import sys
from pathlib import Path

import nki_lab

sys.path.insert(0, str(Path(__file__).parent))
nki_lab.activate()
"""


def project(folder: Path, settings: str = SETTINGS) -> Path:
    """Write the project."""
    files = {
        "pyproject.toml": settings,
        "helpers.py": HELPERS,
        "kernels.py": KERNELS,
        "conftest.py": CONFTEST,
        "tests/test_double.py": TESTS,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text.lstrip(), encoding="utf-8")
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the project."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("NEURON_PLATFORM_TARGET_OVERRIDE", None)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def session_of(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the project's tests with the plugin of this source tree."""
    return python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "nki_lab.pytest_plugin", *options)


def recorded(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the project's recorded calls by function."""
    text = (folder / ".nki-lab" / "signatures.json").read_text(encoding="utf-8")
    found: dict[str, list[dict[str, Any]]] = json.loads(text)["functions"]
    return found
