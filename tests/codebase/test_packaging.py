"""What is installed, and what is shipped."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

PIN = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.]+")


def pins(root: Path) -> dict[str, str]:
    """The versions in requirements/dev.txt by normalised name."""
    lines = (root / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.partition("#")[0].strip() for line in lines]
    return dict(entry.lower().replace("_", "-").split("==") for entry in entries if entry)


def direct(root: Path) -> list[Requirement]:
    """What the package and its tests ask for by name."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(text) for text in project["dependencies"] + project["optional-dependencies"]["test"]]


def test_every_line_of_the_pinned_set_is_a_name_and_a_version(root: Path) -> None:
    lines = (root / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.partition("#")[0].strip() for line in lines]
    assert not [entry for entry in entries if entry and not PIN.fullmatch(entry)]


def test_every_direct_dependency_is_pinned_within_its_range(root: Path) -> None:
    pinned = pins(root)
    names = {requirement.name.lower().replace("_", "-"): requirement for requirement in direct(root)}
    assert names.keys() <= pinned.keys()
    assert not [name for name, requirement in names.items() if pinned[name] not in requirement.specifier]


def test_a_direct_dependency_says_why_it_is_there(root: Path) -> None:
    text = (root / "requirements" / "dev.txt").read_text(encoding="utf-8")
    silent = [
        requirement.name
        for requirement in direct(root)
        if not re.search(rf"^{requirement.name}==\S+ +# \w", text, re.MULTILINE)
    ]
    assert not silent


def test_the_wheel_carries_the_whole_package(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("nki_lab/")}
    package = {
        file.relative_to(root).as_posix()
        for file in (root / "nki_lab").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert shipped == package
    assert "nki_lab/py.typed" in shipped
    assert len([name for name in shipped if re.fullmatch(r"nki_lab/codes/.+\.md", name)]) > 1
