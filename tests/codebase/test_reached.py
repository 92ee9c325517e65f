"""Every module is reached from a way in: what no entry point imports, nobody can use."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

# Files that are run by their paths.
RUN_BY_PATH = {"nki_lab.demo.matmul", "nki_lab.demo.softmax"}  # by `nki-lab demo`
WRITTEN_INTO_VIEWS = {"nki_lab.export.code_looks"}  # by scripts/views_schema.py


def modules_of(package: Path) -> dict[str, Path]:
    """The modules of a package by dotted name."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = (package.name, *file.relative_to(package).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = file
    return found


def entry_points(root: Path) -> set[str]:
    """What users start: the package, console scripts, entry points, `python -m`, the extension of Jupyter Server."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tables = [project["scripts"], *project["entry-points"].values()]
    named = {value.partition(":")[0] for table in tables for value in table.values()}
    enabled = json.loads((root / "nki_lab" / "jupyter" / "nki_lab.json").read_text(encoding="utf-8"))
    named |= enabled["ServerApp"]["jpserver_extensions"].keys()
    return {"nki_lab", *named, *(name for name in modules_of(root / "nki_lab") if name.endswith(".__main__"))}


def imported(tree: ast.AST) -> Iterator[str]:
    """Names that may be modules: of imports, wherever they stand, and in texts, as `import_module` takes them."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack += node.orelse  # what is imported for its types is not loaded
            continue
        stack += ast.iter_child_nodes(node)
        match node:
            case ast.Import(names=names):
                yield from (item.name for item in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{item.name}" for item in names)
            case ast.Constant(value=str(text)):
                yield text


def unreached(package: Path, ways_in: Iterable[str]) -> set[str]:
    """The modules of a package that no way in leads to. Who imports a module imports the packages around it."""
    modules = modules_of(package)
    seen: set[str] = set()
    todo = list(ways_in)
    while todo:
        name = todo.pop()
        if name in modules and name not in seen:
            seen.add(name)
            text = modules[name].read_text(encoding="utf-8")
            todo += [name.rpartition(".")[0], *imported(ast.parse(text))]
            if "iter_modules(__path__)" in text:  # the package loads all that is in it
                todo += [inner for inner in modules if inner.rpartition(".")[0] == name]
    return modules.keys() - seen


def test_every_module_is_reached_from_an_entry_point(root: Path) -> None:
    assert unreached(root / "nki_lab", entry_points(root)) == RUN_BY_PATH | WRITTEN_INTO_VIEWS


def test_a_module_that_only_types_or_nothing_import_is_not_reached(tmp_path: Path) -> None:
    package = tmp_path / "tools"
    files = {
        "__init__.py": "def f():\n    from tools.lazy import g\n    import_module('tools.named')",
        "lazy.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tools.typed import T",
        "all/__init__.py": "for one in iter_modules(__path__): load(one)", "all/rule.py": "import tools.by_rule",
        "by_rule.py": "", "named.py": "import tools.all", "typed.py": "", "inner/__init__.py": "", "inner/alone.py": "import tools.lazy",
    }  # fmt: skip
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    assert unreached(package, ["tools"]) == {"tools.typed", "tools.inner", "tools.inner.alone"}
