"""Imports run downward: a package may use packages of lower layers, and of its own layer only those drawn before it.

The plan is that of docs/architecture.md. Every import counts: at the top, inside a function, under TYPE_CHECKING, and by a
literal name given to `import_module`. A module that belongs to no package of the plan fails: enter it here and in docs/architecture.md.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

KR = "kernel_runtime"
# Lowest layer first. A layer is a row of groups: packages of one group are independent, a later group may use an earlier.
LAYERS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (
        (
            "codes",
            "quantities",
            "source_files",
            "file_system",
            "contained",
            "printable",
            "late_annotations",
            "processors",
        ),
        ("diagnostic",),
        ("extras", "own_faults"),
        (f"{KR}.compiled_code",),
    ),
    (("isa",), ("source",)),
    (
        (
            f"{KR}.options",
            f"{KR}.protocols",
            f"{KR}.garbage",
            f"{KR}.number_sets",
            f"{KR}.progress",
            f"{KR}.vocabulary",
        ),
        (f"{KR}.tensor", f"{KR}.recording"),
    ),
    ((f"{KR}.ir",), (f"{KR}.footprint",)),
    (
        (f"{KR}.issue",),
        (f"{KR}.language", f"{KR}.path"),
        (f"{KR}.collectives",),
        (f"{KR}.beta1",),
        (f"{KR}.tracer", f"{KR}.interpreter"),
    ),
    ((f"{KR}.allocate", f"{KR}.coverage"),),
    ((f"{KR}.schedule",),),
    ((f"{KR}.numerics", f"{KR}.timing", f"{KR}.race"), (f"{KR}.backend",)),
    (("rules", "call_records", "comparison"), ("timeline",)),
    (("session", "query", "wire"), ("migrate",)),
    (("widgets", "export", "lsp"), ("jupyter", "plots")),
    (
        ("frameworks",),
        ("testing", "dialects"),
        ("result",),
        ("demo", "crosschecks", "stubs", "sweeps"),
        ("cli", "magic", "pytest_plugin", "import_hint"),
        ("__init__", "__main__"),
    ),
)
PLACE = {
    part: (layer, group) for layer, row in enumerate(LAYERS) for group, packages in enumerate(row) for part in packages
}
# Downward, and forbidden all the same. The right side may name a part of a package.
FORBIDDEN = (
    ("lsp", "session"),
    ("query", f"{KR}.numerics"),
    ("query", f"{KR}.tracer"),
    ("migrate", "session"),
    ("widgets", "session"),
    ("export", "session"),
    ("wire", "session"),
    ("widgets", f"{KR}.ir"),
)
# Namespace packages: their __init__ imports nothing, and nobody imports from them.
NAMESPACES = {KR}
# Third-party packages that the lowest packages may use.
OUTSIDE = {
    "codes": frozenset(),
    "source_files": frozenset(),
    "source": frozenset(),
    "diagnostic": frozenset(),
    "isa": frozenset({"numpy", "ml_dtypes"}),
}


class Import(NamedTuple):
    line: int
    module: str  # dotted, as imported
    name: str  # what is taken from it; empty for `import module`
    level: int  # dots of a relative import


def imports_of(tree: ast.AST) -> Iterator[Import]:
    """Every import statement of a module, and every import by literal name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(node.lineno, alias.name, "", 0)
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    yield Import(node.lineno, module or "", alias.name, level)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield Import(node.lineno, name, "", 0)


def package_of(dotted: str) -> str:
    """The package of a module below the package, given without the package's name: `isa.ops.move` is in `isa`."""
    parts = dotted.split(".")
    return ".".join(parts[: 2 if parts[0] in NAMESPACES else 1]) or "__init__"


def target_of(package: Path, found: Import) -> str:
    """The module that an import reaches, without the package's name.

    `from nki_lab.isa import arch` reaches isa.arch where there is such a module, else a name defined in isa.
    """
    below = found.module.removeprefix(package.name).removeprefix(".")
    longer = f"{below}.{found.name}".strip(".")
    file = package.joinpath(*longer.split("."))
    is_module = file.is_dir() or file.with_suffix(".py").is_file() or (package_of(longer) in PLACE and not below)
    return longer if found.name and is_module else below


def offence(here: str, target: str) -> str:
    """Why a module of package `here` may not import the module `target`; empty where it may."""
    there = package_of(target)
    if here == there:
        return ""
    if there not in PLACE:
        reason = "is a namespace package" if there in NAMESPACES else "is in no layer of the plan"
        return f"{here} imports {there}, which {reason}"
    for part, forbidden in FORBIDDEN:
        if here == part and f"{target}.".startswith(f"{forbidden}."):
            return f"{here} imports {target}, which is forbidden"
    if PLACE[there] < PLACE[here]:
        return ""
    direction = "of its own layer" if PLACE[there][0] == PLACE[here][0] else "a higher layer"
    return f"{here} imports {there}, {direction}"


def offences(package: Path) -> list[str]:
    """Every import under `package` that the plan forbids, with its place."""
    out = []
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        here = package_of(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        where = file.relative_to(package.parent)
        if here not in PLACE and here not in NAMESPACES:
            out.append(f"{where}: no package of the plan is called {here}")
            continue
        for found in imports_of(ast.parse(file.read_text(encoding="utf-8"))):
            reason = ""
            top = found.module.partition(".")[0]
            if found.level:
                reason = "relative import"
            elif top == package.name:
                target = target_of(package, found)
                reason = f"{here} imports {target}" if here in NAMESPACES else offence(here, target)
            elif here in OUTSIDE and top not in sys.stdlib_module_names | OUTSIDE[here]:
                reason = f"{here} imports {top} from outside"
            if reason:
                out.append(f"{where}:{found.line}: {reason}")
    return out


def test_imports_run_downward(root: Path) -> None:
    assert not offences(root / "nki_lab")


def test_every_package_is_in_the_picture(root: Path) -> None:
    drawing = (
        (root / "docs" / "architecture.md").read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    )
    layers = {int(row[:3]): row for row in drawing.splitlines() if row[:3].strip().isdigit()}
    assert sorted(layers) == list(range(len(LAYERS)))
    packages = {part: layer for part, (layer, _) in PLACE.items() if part != "__main__"}
    assert not [
        part for part, layer in packages.items() if not re.search(rf"\b{part.removeprefix(f'{KR}.')}\b", layers[layer])
    ]


def test_every_forbidden_import_leads_downward() -> None:
    # `wire` and `session` are of one layer, forbidden already; listed because the plan lists it.
    assert not [pair for pair in FORBIDDEN if PLACE[package_of(pair[1])][0] > PLACE[pair[0]][0]]


def plant(folder: Path, files: dict[str, str]) -> Path:
    """A package called nki_lab in `folder`, with `files` beside empty modules for some packages."""
    package = folder / "nki_lab"
    empty = ("__init__.py", "session.py", "kernel_runtime/__init__.py", "kernel_runtime/ir.py")
    for name, text in (dict.fromkeys(empty, "") | files).items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return package


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("isa/spec.py", "from nki_lab.kernel_runtime import ir", "isa imports kernel_runtime.ir, a higher layer"),
        ("isa/spec.py", "import nki_lab.kernel_runtime.ir as graph", "isa imports kernel_runtime.ir, a higher layer"),
        ("isa/spec.py", "from nki_lab import run", "isa imports __init__, a higher layer"),
        ("isa/spec.py", "import nki_lab", "isa imports __init__, a higher layer"),
        ("isa/spec.py", "from nki_lab import session", "isa imports session, a higher layer"),
        ("isa/spec.py", "def f():\n    from nki_lab.session import run", "isa imports session, a higher layer"),
        (
            "isa/spec.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nki_lab.session import Run",
            "isa imports session, a higher layer",
        ),
        (
            "isa/spec.py",
            "import importlib\nimportlib.import_module('nki_lab.session')",
            "isa imports session, a higher layer",
        ),
        ("isa/spec.py", "__import__('nki_lab.session')", "isa imports session, a higher layer"),
        ("isa/spec.py", "from . import dtype", "relative import"),
        ("isa/spec.py", "import pandas", "isa imports pandas from outside"),
        ("codes/__init__.py", "import numpy", "codes imports numpy from outside"),
        ("codes/__init__.py", "from nki_lab.diagnostic import Span", "codes imports diagnostic, of its own layer"),
        (
            "kernel_runtime/options.py",
            "from nki_lab.kernel_runtime.tensor import NkiTensor",
            "kernel_runtime.options imports kernel_runtime.tensor, of its own layer",
        ),
        (
            "kernel_runtime/tensor/view.py",
            "from nki_lab.kernel_runtime import recording",
            "kernel_runtime.tensor imports kernel_runtime.recording, of its own layer",
        ),
        (
            "kernel_runtime/timing/walk.py",
            "import nki_lab.kernel_runtime.numerics.plan",
            "kernel_runtime.timing imports kernel_runtime.numerics, of its own layer",
        ),
        ("query.py", "from nki_lab.session import run", "query imports session, of its own layer"),
        ("export/html.py", "from nki_lab.widgets import timeline", "export imports widgets, of its own layer"),
        ("dialects/nki/__init__.py", "import nki_lab.testing", "dialects imports testing, of its own layer"),
        ("result.py", "from nki_lab.cli import main", "result imports cli, of its own layer"),
        ("lsp/server.py", "from nki_lab.session import run", "lsp imports session, which is forbidden"),
        ("widgets/memory.py", "from nki_lab.kernel_runtime.ir import Program", "which is forbidden"),
        ("query.py", "from nki_lab.kernel_runtime.numerics import plan", "which is forbidden"),
        ("query.py", "from nki_lab.kernel_runtime.tracer import Tracer", "which is forbidden"),
        ("query.py", "from nki_lab.kernel_runtime import tracer", "which is forbidden"),
        ("session.py", "from nki_lab.kernel_runtime import Program", "is a namespace package"),
        ("kernel_runtime/__init__.py", "from nki_lab.kernel_runtime.ir import Program", "kernel_runtime imports"),
        ("session.py", "from nki_lab.attic import box", "attic, which is in no layer of the plan"),
        ("attic.py", "", "no package of the plan is called attic"),
        ("kernel_runtime/attic.py", "", "no package of the plan is called kernel_runtime.attic"),
    ],
)
def test_a_planted_offence_is_found(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    extra = {"kernel_runtime/tracer.py": "", "kernel_runtime/recording.py": ""}
    found = offences(plant(tmp_path, extra | {file: text}))
    assert len(found) == 1
    assert complaint in found[0]
    assert found[0].startswith(f"nki_lab/{file}:")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("diagnostic.py", "from nki_lab import codes"),
        ("kernel_runtime/tensor/view.py", "from nki_lab.kernel_runtime.options import Options"),
        ("kernel_runtime/tensor/view.py", "from nki_lab.kernel_runtime.tensor.pattern import Pattern"),
        ("isa/spec.py", "import numpy as np\nfrom ml_dtypes import bfloat16\nfrom nki_lab.isa.arch import ARCHES"),
        ("query.py", "from nki_lab.kernel_runtime import interpreter"),
        ("lsp/server.py", "from nki_lab import query\nfrom nki_lab.kernel_runtime.ir import Program"),
        ("result.py", "from nki_lab import testing\nimport nki_lab.widgets.timeline"),
        ("magic.py", "from nki_lab.result import Run"),
        ("__main__.py", "from nki_lab.cli import main"),
        ("__init__.py", "from nki_lab.dialects import activate\nfrom nki_lab.cli import main"),
    ],
)
def test_what_the_plan_allows_is_let_through(tmp_path: Path, file: str, text: str) -> None:
    extra = {"kernel_runtime/tracer.py": "", "kernel_runtime/interpreter.py": ""}
    assert not offences(plant(tmp_path, extra | {file: text}))
