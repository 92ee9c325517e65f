"""The references that kernels are compared with share nothing with what they judge."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

JUDGED = {"nki_lab", "nki", "neuronxcc"}


def judged_imports(folder: Path) -> list[str]:
    """Places under `folder` that import the package, or the dialects that it makes importable."""
    out = []
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    modules = [alias.name for alias in names]
                case ast.ImportFrom(module=str(module)):
                    modules = [module]
                case ast.Call(args=[ast.Constant(value=str(module)), *_]):
                    modules = [module]
                case _:
                    continue
            out += [f"{file.name}:{node.lineno}: {name}" for name in modules if name.partition(".")[0] in JUDGED]
    return out


def test_references_import_nothing_of_the_package(root: Path) -> None:
    assert (root / "tests" / "reference").is_dir()
    assert not judged_imports(root / "tests" / "reference")


@pytest.mark.parametrize(
    "text",
    [
        "import nki_lab",
        "import numpy, nki_lab.isa.dtype",
        "def f():\n    from nki_lab.isa import dtype",
        "import nki.language as nl",
        "from neuronxcc import nki",
        "import importlib\nimportlib.import_module('nki_lab.isa')",
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "matmul.py").write_text(text, encoding="utf-8")
    assert len(judged_imports(tmp_path)) == 1


def test_numpy_is_let_through(tmp_path: Path) -> None:
    (tmp_path / "matmul.py").write_text("import numpy as np\nfrom math import exp\nnp.zeros(4)", encoding="utf-8")
    assert not judged_imports(tmp_path)
