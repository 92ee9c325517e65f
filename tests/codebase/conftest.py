"""What the tests of the code base look at: the checkout and the files in it that people write."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What tools and the demo make (see .gitignore); hidden folders are theirs too, but for the one with the CI script.
MADE = {"__pycache__", "build", "demo-report.html", "dev", "dist", "node_modules"}
MADE_KINDS = {".egg-info", ".nkirec", ".pyc", ".pyo", ".tsbuildinfo"}
KEPT_HIDDEN = {".ci", ".gitignore"}


def written_files(root: Path) -> list[Path]:
    """The files under `root` that belong to the project, sorted."""
    files = []
    for entry in sorted(root.iterdir()):
        if (
            entry.name in MADE
            or entry.suffix in MADE_KINDS
            or (entry.name.startswith(".") and entry.name not in KEPT_HIDDEN)
        ):
            continue
        if entry.is_dir() and not entry.is_symlink():
            files += written_files(entry)
        else:
            files.append(entry)
    return files


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def project_files() -> list[Path]:
    """Every file of the project that is not made by a tool."""
    return written_files(ROOT)
