"""What is installed, and what is shipped."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import nki_lab

EXTENSION = "nki_lab/widgets/labextension"
PIN = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.]+")


def pins(root: Path, name: str = "dev.txt") -> dict[str, str]:
    """The versions in a file of requirements by normalised name."""
    lines = (root / "requirements" / name).read_text(encoding="utf-8").splitlines()
    entries = [line.partition("#")[0].partition(";")[0].strip(" \\") for line in lines if not line.startswith(" ")]
    return dict(entry.lower().replace("_", "-").split("==") for entry in entries if entry)


def direct(root: Path) -> list[Requirement]:
    """What the package and its tests ask for by name, extras of the package itself apart."""
    project = project_of(root)
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["test"] + extras["notebook"] + extras["lsp"] + extras["plots"]
    return [requirement for text in wanted if (requirement := Requirement(text)).name != project["name"]]


def project_of(root: Path) -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def installed_with(extra: str, requirements: Iterable[str]) -> set[str]:
    """The distributions that the requirements of a wheel ask for with an extra."""
    wanted = (Requirement(text) for text in requirements)
    return {
        item.name.lower().replace("_", "-")
        for item in wanted
        if not item.marker or item.marker.evaluate({"extra": extra})
    }


def imported_from_outside(package: Path) -> set[str]:
    """The distributions of all modules that a package imports, the standard library and its own apart."""
    nodes = [node for file in package.rglob("*.py") for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"nki_lab"}
    known = packages_distributions()
    return {distribution.lower().replace("_", "-") for module in modules for distribution in known[module]}


HASHED = ("checkers", "dev", "docs", "tools")


@pytest.mark.parametrize("name", HASHED)
def test_every_line_of_the_pinned_set_is_a_name_a_version_and_hashes(root: Path, name: str) -> None:
    text = (root / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.sub(r" \\\n +", " ", re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    form = rf"{PIN.pattern}( ; [^#]+?)?( --hash=sha256:[0-9a-f]{{64}})+"
    assert entries and not [entry for entry in entries if not re.fullmatch(form, entry)]


@pytest.mark.parametrize("name", HASHED)
def test_the_hashed_set_has_the_versions_that_were_chosen(root: Path, name: str) -> None:
    chosen, hashed = pins(root, f"{name}.in"), pins(root, f"{name}.txt")
    assert chosen and chosen.items() <= hashed.items(), "make requirements"


def test_every_direct_dependency_is_pinned_within_its_range(root: Path) -> None:
    pinned = pins(root)
    names = {requirement.name.lower().replace("_", "-"): requirement for requirement in direct(root)}
    assert names.keys() <= pinned.keys()
    assert not [name for name, requirement in names.items() if pinned[name] not in requirement.specifier]


def test_a_direct_dependency_says_why_it_is_there(root: Path) -> None:
    text = (root / "requirements" / "dev.in").read_text(encoding="utf-8")
    silent = [
        requirement.name
        for requirement in direct(root)
        if not re.search(rf"^{requirement.name}==\S+ +# \w", text, re.MULTILINE)
    ]
    assert not silent


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_carries_the_whole_package_and_the_extension(root: Path, wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    package = {
        file.relative_to(root).as_posix()
        for file in (root / "nki_lab").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    extension = {name for name in package if name.startswith(f"{EXTENSION}/")}
    assert {name for name in names if name.startswith("nki_lab/")} == package - extension
    assert {"nki_lab/py.typed", "nki_lab/widgets/static/widget.js"} <= package
    assert len([name for name in package if re.fullmatch(r"nki_lab/codes/.+\.md", name)]) > 1
    shared = re.compile(r"[^/]+\.data/data/share/jupyter/labextensions/nki-lab/(.+)")
    found = {match[1] for name in names if (match := shared.fullmatch(name))}
    assert found == {name.removeprefix(f"{EXTENSION}/") for name in extension} | {"install.json"}


def test_the_wheel_enables_the_extension_of_jupyter_server_and_carries_the_examples(root: Path, wheel: Path) -> None:
    packed = zipfile.ZipFile(wheel)
    data = {name.partition(".data/data/")[2]: name for name in packed.namelist() if ".data/data/" in name}
    enabled = json.loads(packed.read(data["etc/jupyter/jupyter_server_config.d/nki_lab.json"]))
    assert enabled == {"ServerApp": {"jpserver_extensions": {"nki_lab.jupyter": True}}}
    examples = {name.rpartition("/")[2] for name in data if name.startswith("share/jupyter/nki-lab/examples/")}
    assert examples == {file.name for file in (root / "examples").glob("*.ipynb")}


def test_the_notebook_extra_brings_what_the_language_server_imports(root: Path, wheel: Path) -> None:
    entry = project_of(root)["entry-points"]["jupyter_lsp_spec_v1"]["nki-ls"]
    server = imported_from_outside(root.joinpath(*entry.partition(":")[0].split(".")[:-1]))
    assert {"pygls", "lsprotocol"} <= server
    packed = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
    requirements = message_from_bytes(packed.read(metadata)).get_all("Requires-Dist", [])
    assert server <= installed_with("notebook", requirements)


def test_jupyterlab_finds_what_the_extension_says_that_it_has(root: Path) -> None:
    told = json.loads((root / EXTENSION / "package.json").read_text(encoding="utf-8"))
    assert told["jupyterlab"]["_build"].keys() == {"load", "extension", "mimeExtension"}
    assert [file.name for file in (root / EXTENSION / "static").iterdir()] == [
        Path(told["jupyterlab"]["_build"]["load"]).name
    ]


def test_the_extension_has_the_version_of_the_package(root: Path) -> None:
    sources = json.loads((root / "labextension" / "package.json").read_text(encoding="utf-8"))
    assert sources["version"] == nki_lab.__version__
    assert not sources.get("dependencies")


def test_npm_packages_are_pinned_and_name_no_registry(root: Path) -> None:
    told = json.loads((root / "labextension" / "package.json").read_text(encoding="utf-8"))
    assert not [name for name, version in told["devDependencies"].items() if not re.fullmatch(r"[\d.]+", version)]
    lock = json.loads((root / "labextension" / "package-lock.json").read_text(encoding="utf-8"))
    assert lock["packages"][""]["devDependencies"] == told["devDependencies"]
    others = {name: entry for name, entry in lock["packages"].items() if name}
    assert not [name for name, entry in others.items() if "resolved" in entry or "integrity" not in entry]
