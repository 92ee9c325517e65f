"""Words and paths that do not belong into the project: they mean nothing to its reader, or promise and do not keep."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest


def whole(seamed: str) -> str:
    """The text without its seams: words here are cut by one, so that this file passes its own test."""
    return seamed.replace("¦", "")


UNFINISHED = whole("TO¦DO|FIX¦ME|XX¦X|HA¦CK")
# Of the places where the project is written, not of the project.
WORKPLACE = whole(
    r"sub-?ag¦ents?|cla¦ude|anth¦ropic|chat¦gpt|co¦pilot|before-¦stop|farm-(?:bench|studio)|br¦ief\.md|des¦ign\.md|"
    r"des¦ign §\s*[\d.]+"
)
# A folder of one machine. Part of a longer path, or of an address, is none.
MACHINE = whole(r"(?<![\w./}~-])/(?:wo¦rk|tm¦p|ro¦ot|ho¦me)(?![\w-])")
REGISTRY = whole(r"\b(?:pypi\.¦org|pythonhosted\.¦org|npmjs\.¦(?:com|org))")
NETWORK = whole(r"\b(?:unpkg\.¦com|jsde¦livr|cdn¦js)")
RULES = {
    "unfinished": re.compile(rf"\b(?:{UNFINISHED})\b"),
    "workplace word": re.compile(rf"(?<!\w)(?:{WORKPLACE})(?!\w)", re.IGNORECASE),
    "machine path": re.compile(MACHINE),
    "registry host": re.compile(REGISTRY, re.IGNORECASE),
    "network copy of a library": re.compile(NETWORK, re.IGNORECASE),
}
# Lock files name hosts because their tool writes them so; the licence is not ours to edit.
EXCEPT = {"LICENSE", "package-lock.json", "yarn.lock"}


def is_text(file: Path) -> bool:
    with file.open("rb") as stream:
        return b"\0" not in stream.read(4096)


def words(files: list[Path]) -> list[str]:
    """Every forbidden word with its place and rule."""
    out = []
    for file in files:
        if file.name in EXCEPT or not is_text(file):
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            out += [f"{file}:{number}: {rule}: {found[0]}" for rule, rx in RULES.items() for found in rx.finditer(line)]
    return out


# Packages as users write theirs: that relative imports are followed is what they test.
_PACKAGES = Path(__file__).parents[1] / "packages"


def relative_imports(files: list[Path]) -> list[str]:
    """Every relative import with its place."""
    return [
        f"{file}:{node.lineno}"
        for file in files
        if file.suffix == ".py" and _PACKAGES not in file.parents
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def test_no_file_has_words_that_do_not_belong(project_files: list[Path]) -> None:
    assert len(project_files) > 20
    assert not words(project_files)


def test_imports_are_absolute(project_files: list[Path]) -> None:
    assert not relative_imports(project_files)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("# TO¦DO: later", "unfinished"),
        ("raise ValueError  # FIX¦ME", "unfinished"),
        ("written by a sub¦agent", "workplace word"),
        ("see Des¦ign.md", "workplace word"),
        ("as des¦ign §4.2 says", "workplace word"),
        ("open('/tm¦p/x')", "machine path"),
        ("cd /wo¦rk", "machine path"),
        ('ROOT = "/ho¦me/me/src"', "machine path"),
        ("pip install -i https://pypi.¦org/simple", "registry host"),
        ("<script src='https://unpkg.¦com/x'>", "network copy of a library"),
    ],
)
def test_a_planted_word_is_found(tmp_path: Path, line: str, rule: str) -> None:
    file = tmp_path / "planted.py"
    file.write_text(f"one = 1\n{whole(line)}\n", encoding="utf-8")
    (found,) = words([file])
    assert found.startswith(f"{file}:2: {rule}: ")


@pytest.mark.parametrize(
    "line",
    [
        "def test_saves(tmp_path: Path) -> None:",
        "bytes/work per cycle, reads/writes",
        "the network's homes; hacks and todos",
        "file = folder/home",
        "https://example.org/work/page",
        "a session runs its agents' kernels",
    ],
)
def test_ordinary_words_are_let_through(tmp_path: Path, line: str) -> None:
    file = tmp_path / "planted.md"
    file.write_text(line, encoding="utf-8")
    assert not words([file])


def test_a_planted_relative_import_is_found(tmp_path: Path) -> None:
    file = tmp_path / "planted.py"
    file.write_text("import os\nfrom . import spec\nfrom ..isa import arch\n", encoding="utf-8")
    assert relative_imports([file]) == [f"{file}:2", f"{file}:3"]
