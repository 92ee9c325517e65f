"""How the modules of the evaluator depend on one another."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from nki_lab.kernel_runtime.frontend import evaluator


def imported(tree: ast.AST) -> set[str]:
    """Every module that a file may import, in functions and for type checkers too."""
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out |= {item.name for item in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            out |= {node.module, *(f"{node.module}.{item.name}" for item in node.names)}
    return out


def test_no_modules_of_the_evaluator_import_each_other_in_a_circle() -> None:
    folder = Path(evaluator.__file__).parent
    paths = {path: path.relative_to(folder).with_suffix("").parts for path in folder.rglob("*.py")}
    modules = {".".join((evaluator.__name__, *parts)): path for path, parts in paths.items()}
    assert len(modules) > 30
    edges = {name: imported(ast.parse(path.read_text())) & modules.keys() for name, path in modules.items()}
    assert any(edges.values())
    TopologicalSorter(edges).prepare()  # raises CycleError, which shows the circle
