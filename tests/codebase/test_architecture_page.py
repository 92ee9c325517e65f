"""The architecture page names what exists: its dotted names are modules, classes or functions, its paths are files."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUOTED = re.findall(r"`([^`\n]+)`", (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## From", 2)[2])
DOTTED = sorted({name for name in QUOTED if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", name)})
PATHS = sorted({name for name in QUOTED if re.fullmatch(r"[\w/]+/[\w/]*(\.py)?|\w+\.ts|scripts/\w+\.py", name)})
BASES = ("nki_lab", "nki_lab.kernel_runtime")


def exists(name: str) -> bool:
    """Check whether a name leads to a module, or to something defined in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        for base in BASES:
            try:
                found = importlib.import_module(".".join([base, *parts[:end]]))
            except ModuleNotFoundError:
                continue
            for part in parts[end:]:
                found = getattr(found, part, None)
            if found is not None:
                return True
    return False


@pytest.mark.parametrize("name", [name for name in DOTTED if not name.endswith((".ts", ".py"))])
def test_a_dotted_name_exists(name: str) -> None:
    owners = (name, f"magic.{name}", f"lsp.checker.{name}", f"query.checking.{name}")
    assert any(exists(each) for each in owners)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_exists(path: str) -> None:
    folders = ("nki_lab", "nki_lab/kernel_runtime", "labextension/src", "")
    assert any((ROOT / folder / path).exists() for folder in folders)


def test_both_kinds_occur() -> None:
    assert len(DOTTED) > 20
    assert len(PATHS) > 5
