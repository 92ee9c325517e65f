"""NKI124: kernel code that uses names of a module which is not found is checked in part, and the editor says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import arch_of
from nki_lab.query import Document, EvaluationRequest, check, configuration_of

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n"
KERNEL = """

@nki.jit
def k(x: nt.tensor[128, 512]):
    tile = nl.load(x)
    fill(tile, sizes.TILE)
    return x


def fill(tile, size):
    nisa.memset(dst=tile[:, 0:size], value=VALUE)


def on_host(data):
    return plot(data)
"""


def found(folder: Path, imports: str, kernel: str = KERNEL, name: str = "kernels.py") -> list[Diagnostic]:
    """NKI124 findings in a file of a project."""
    (folder / "pyproject.toml").write_text("[tool.nki-lab]\n")
    file = folder / name
    file.write_text(HEAD + imports + kernel)
    document = Document(str(file))
    document.update(file.read_text())
    request = EvaluationRequest(arch=arch_of("trn2"), library=configuration_of(file).library())
    return [item for item in document.examine(request).findings if item.code == "NKI124"]


def test_the_names_that_kernels_use_are_told_at_the_first_import(tmp_path: Path) -> None:
    (item,) = found(tmp_path, "from shop.values import VALUE, OTHER\nfrom shop import sizes\nfrom shop import plot\n")
    assert item.line == 5
    assert item.message == "no module shop is found: what kernels do with VALUE and sizes is not checked"
    assert item.severity == "information"


def test_modules_are_told_apart(tmp_path: Path) -> None:
    first, second = found(tmp_path, "import sizes, os\nfrom values import OTHER\nfrom values import VALUE\n")
    assert (first.line, second.line) == (5, 6)
    assert "with sizes is" in first.message
    assert "with VALUE is" in second.message


@pytest.mark.parametrize(
    ("imports", "size", "value"),
    [
        ("from plots import plot\n", "512", "0.0"),
        ("try:\n    import sizes\nexcept ImportError:\n    sizes = None\n", "sizes.TILE", "0.0"),
        ("import math as sizes\nfrom numpy import pi as VALUE\n", "int(sizes.tau)", "VALUE"),
    ],
)
def test_what_no_kernel_uses_and_what_may_fail_is_not_told(tmp_path: Path, imports: str, size: str, value: str) -> None:
    assert found(tmp_path, imports, KERNEL.replace("sizes.TILE", size).replace("VALUE", value)) == []


def test_a_local_name_hides_the_module(tmp_path: Path) -> None:
    kernel = KERNEL.replace("    tile = nl.load(x)\n", "    tile = nl.load(x)\n    sizes = nl.tile_size\n")
    assert found(tmp_path, "import sizes\n", kernel.replace("sizes.TILE", "sizes.pmax").replace("VALUE", "0.0")) == []


def test_relative_imports_are_looked_for_in_their_package(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (package / "__init__.py").write_text("")
    (package / "values.py").write_text("VALUE = 0.0\n")
    kernel = KERNEL.replace("sizes.TILE", "TILE")
    (item,) = found(package, "from .values import VALUE\nfrom .sizes import TILE\nfrom . import plot\n", kernel)
    assert item.message == "no module .sizes is found: what kernels do with TILE is not checked"
    (package / "sizes.py").write_text("TILE = 256\n")
    assert found(package, "from .values import VALUE\nfrom .sizes import TILE\n", kernel) == []


def test_a_text_without_a_file_has_no_neighbours() -> None:
    text = HEAD + "from .values import VALUE\nfrom . import sizes\n" + KERNEL
    assert "NKI124" not in {item.code for item in check(source=text)}


def test_of_a_missing_module_everything_may_be_imported(tmp_path: Path) -> None:
    (item,) = found(tmp_path, "from values import *\n", KERNEL.replace("sizes.TILE", "min(TILE, 512)"))
    assert item.message == "no module values is found: what kernels do with TILE and VALUE is not checked"
    kernel = KERNEL.replace("sizes.TILE", "len('abc')").replace("VALUE", "0.0")
    assert found(tmp_path, "from values import *\n", kernel) == []


def test_many_names_are_counted(tmp_path: Path) -> None:
    names = [f"N{n}" for n in range(7)]
    kernel = KERNEL.replace("sizes.TILE", " + ".join(names)).replace("VALUE", "0.0")
    (item,) = found(tmp_path, f"from values import {', '.join(names)}\n", kernel)
    assert "with N0, N1, N2, N3 and 3 more is not checked" in item.message
