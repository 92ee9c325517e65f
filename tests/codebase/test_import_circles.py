"""No module imports itself through others: lazy imports and those under TYPE_CHECKING count like any other.

An import of a name from a package counts for the module that it names, where there is one, else for the package.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.codebase.test_floor_plan import imports_of, target_of

REMAINING = ("kernel_runtime.frontend.evaluator",)
"""Packages that still have circles among their own modules."""


def graph_of(package: Path) -> dict[str, set[str]]:
    """Return the modules of a package, without its name, and the modules that each imports."""
    files = {
        ".".join(file.relative_to(package).with_suffix("").parts).removesuffix(".__init__"): file
        for file in package.rglob("*.py")
    }
    return {
        name: {
            target
            for found in imports_of(ast.parse(file.read_text(encoding="utf-8")))
            if found.module.partition(".")[0] == package.name
            and (target := target_of(package, found)) in files
            and target != name
        }
        for name, file in files.items()
    }


def circles_of(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that reach each other, by Tarjan's algorithm with a stack of its own."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    circles = []
    for start in graph:
        work = [] if start in number else [(start, iter(sorted(graph[start])))]
        for name, _ in work:
            number[name] = lowest[name] = len(number)
            path.append(name)
        while work:
            name, targets = work[-1]
            for target in targets:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    path.append(target)
                    work.append((target, iter(sorted(graph[target]))))
                    break
                if target in path:
                    lowest[name] = min(lowest[name], number[target])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[name])
                if lowest[name] == number[name]:
                    circle = path[path.index(name) :]
                    del path[path.index(name) :]
                    if len(circle) > 1:
                        circles.append(sorted(circle))
    return circles


def within(circle: list[str], package: str) -> bool:
    return all(f"{name}.".startswith(f"{package}.") for name in circle)


def test_no_module_imports_itself_through_others(root: Path) -> None:
    circles = circles_of(graph_of(root / "nki_lab"))
    assert not [circle for circle in circles if not any(within(circle, package) for package in REMAINING)]
    assert [package for package in REMAINING if any(within(circle, package) for circle in circles)] == list(REMAINING)


@pytest.mark.parametrize(
    "text",
    [
        "from nki_lab import second",
        "import nki_lab.second",
        "def f():\n    from nki_lab.second import g",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nki_lab.second import G",
        "import importlib\nimportlib.import_module('nki_lab.second')",
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, text: str) -> None:
    package = tmp_path / "nki_lab"
    package.mkdir()
    files = {
        "__init__": "",
        "first": text,
        "second": "from nki_lab.third import g",
        "third": "from nki_lab import first",
    }
    for name, source in files.items():
        (package / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    assert circles_of(graph_of(package)) == [["first", "second", "third"]]
    (package / "third.py").write_text("", encoding="utf-8")
    assert circles_of(graph_of(package)) == []
