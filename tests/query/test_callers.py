"""Shapes come from calls anywhere in the project of a file; what is not sure is never an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nki_lab import query
from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import arch_of

KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x, rows=128):
    assert x.shape[0] <= 128
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, 64), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
CALL = (
    "import numpy as np\nfrom pkg.ops import kernel\n\ndef test_it():\n    kernel(np.zeros(({rows}, 64), np.float32))\n"
)


def project(folder: Path, **files: str) -> Path:
    (folder / "pyproject.toml").write_text("")
    for name, text in files.items():
        file = folder / (name.replace("__", "/") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "pkg" / "ops.py"


def found(file: Path) -> list[Diagnostic]:
    return [item for item in query.check(file, target="trn2") if item.severity in ("error", "information")]


def codes(file: Path) -> list[str]:
    return [item.code for item in found(file)]


@pytest.mark.parametrize(
    "place", ["test_it", "scripts__deep__er__run", "pkg__sub__test_ops", "tests__unit__other__check", "benchmarks__ops"]
)
def test_calls_are_found_anywhere_in_the_project(place: str, tmp_path: Path) -> None:
    assert codes(project(tmp_path, pkg__ops=KERNEL, **{place: CALL.format(rows=128)})) == []
    assert "NKI203" in codes(project(tmp_path, pkg__ops=KERNEL, **{place: CALL.format(rows=64)}))


@pytest.mark.parametrize("name", ["weiß", "größe_2", "核", "kernel2"])
@pytest.mark.parametrize(
    "imports",
    ["from pkg.ops import {0}\n", "import pkg.ops as ops\n{0} = ops.{0}\n", "from pkg import ops\n{0} = ops.{0}\n"],
)
def test_names_may_have_any_letters(name: str, imports: str, tmp_path: Path) -> None:
    kernel = KERNEL.replace("def kernel", f"def {name}")
    call = f"import numpy as np\n{imports.format(name)}\ndef test_it():\n    {name}(np.zeros((64, 64), np.float32))\n"
    assert "NKI203" in codes(project(tmp_path, pkg__ops=kernel, tests__run=call))


@pytest.mark.parametrize("place", [".venv__run", "env__lib__run", "node_modules__run", "build__run"])
def test_environments_and_products_are_not_looked_into(place: str, tmp_path: Path) -> None:
    file = project(tmp_path, pkg__ops=KERNEL, **{place: CALL.format(rows=64)})
    (tmp_path / "env").mkdir(exist_ok=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    assert codes(file) == ["NKI121"]


def test_files_outside_of_the_project_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_ops.py").write_text(CALL.format(rows=64))
    inner = tmp_path / "inner"
    inner.mkdir()
    assert codes(project(inner, pkg__ops=KERNEL)) == ["NKI121"]


def test_a_changed_caller_is_read_again(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__ops=KERNEL)
    assert codes(file) == ["NKI121"]
    caller = tmp_path / "test_ops.py"
    caller.write_text(CALL.format(rows=128))
    assert codes(file) == []
    caller.write_text(CALL.format(rows=64) + "\n")
    assert "NKI203" in codes(file)
    caller.unlink()
    assert codes(file) == ["NKI121"]


FRAMEWORK = """import numpy as np
from pkg.ops import kernel
from framework import validate

def test_it(session):
    validate(session, kernel_entry=kernel, inputs={{"x": np.zeros(({rows}, 64), np.float32)}})
"""


def test_a_kernel_in_the_hands_of_a_framework_is_checked(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__ops=KERNEL, tests__test_ops=FRAMEWORK.format(rows=64))
    item = next(item for item in found(file) if item.code == "NKI203")
    assert item.severity == "error"
    assert any(other.span is not None and other.span.file.endswith("test_ops.py") for other in item.related)


def test_what_the_kernel_refuses_is_no_call(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__ops=KERNEL, tests__test_ops=FRAMEWORK.format(rows=256))
    assert codes(file) == ["NKI121"]


def test_a_refused_call_that_is_sure_is_an_error(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__ops=KERNEL, tests__test_ops=CALL.format(rows=256))
    assert "NKI007" in codes(file)


def test_under_an_unknown_manager_a_call_may_be_meant_to_fail(tmp_path: Path) -> None:
    call = CALL.format(rows=256).replace("    kernel(", "    with refused():\n        kernel(")
    file = project(tmp_path, pkg__ops=KERNEL, tests__test_ops=f"from third_party import refused\n{call}")
    assert codes(file) == ["NKI121"]


CORES = KERNEL.replace("def kernel(x, rows=128):", "def kernel(x):\n    rows = {rows}")
GRID = (
    CALL.format(rows=128)
    .replace("kernel(np", "kernel[CORES](np")
    .replace("import numpy", "from third import CORES\nimport numpy")
)


def test_of_an_unknown_grid_only_what_all_grids_share_is_wrong(tmp_path: Path) -> None:
    one = CORES.format(rows="128 if nl.num_programs(0) == 1 else 64")
    assert "NKI203" not in codes(project(tmp_path, pkg__ops=one, tests__test_ops=GRID))
    every = CORES.format(rows="64")
    assert "NKI203" in codes(project(tmp_path, pkg__ops=every, tests__test_ops=GRID))


def test_a_grid_that_the_kernel_refuses_is_not_meant(tmp_path: Path) -> None:
    text = CORES.format(rows="64").replace("    rows =", "    assert nl.num_programs(0) == 2\n    rows =")
    assert "NKI203" in codes(project(tmp_path, pkg__ops=text, tests__test_ops=GRID))


HELPER = """import nki.isa as nisa
import nki.language as nl

def load(x, rows):
    tile = nl.ndarray((rows, 64), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile
"""
USER = """import nki
import nki.isa as nisa
import nki.language as nl
from pkg.{module} import load

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=load(x, {rows}))
    return out
"""
BETWEEN = "from pkg.helpers import load as inner\nimport nki.isa\n\ndef load(x, rows):\n    return inner(x, rows)\n"


@pytest.mark.parametrize("module", ["helpers", "between"])
@pytest.mark.parametrize("call", [CALL.format(rows=128), FRAMEWORK.format(rows=128)])
def test_a_helper_is_checked_through_the_kernels_of_other_files(module: str, call: str, tmp_path: Path) -> None:
    texts = {"pkg__helpers": HELPER, "pkg__between": BETWEEN, "tests__test_it": call}
    project(tmp_path, pkg__ops=USER.format(module=module, rows=64), **texts)
    (item,) = [item for item in found(tmp_path / "pkg" / "helpers.py") if item.severity == "error"]
    assert (item.code, item.line, Path(item.file).name) == ("NKI203", 6, "helpers.py")
    places = [other.span.file for other in item.related if other.message == "reached from this call" and other.span]
    assert [Path(place).name for place in places] == ["ops.py"]
    project(tmp_path, pkg__ops=USER.format(module=module, rows=128))
    assert not [item for item in found(tmp_path / "pkg" / "helpers.py") if item.severity == "error"]


def test_findings_of_other_files_kernels_move_with_the_text_that_is_typed(tmp_path: Path) -> None:
    project(tmp_path, pkg__ops=USER.format(module="helpers", rows=64), pkg__helpers=HELPER, run=CALL.format(rows=128))
    document = query.Document(str(tmp_path / "pkg" / "helpers.py"))
    request = query.EvaluationRequest(arch=arch_of("trn2"))
    for text, line in [
        (HELPER, 6),
        (f"import math\n{HELPER}", 7),
        (f"{HELPER}\nA = 1\n", 6),
        (f"import math\n{HELPER}\nA = 1\n", 0),
        (HELPER.replace("src=x", "src=x[0:64]"), 0),
    ]:
        document.update(text)
        lines = [item.line for item in document.examine(request).findings if item.code == "NKI203"]
        assert lines == ([line] if line else [])


@pytest.mark.parametrize("wrap", ["nki.jit(plain)", "nki.jit()(plain)", "nki.jit(mode='trace')(plain)"])
def test_a_function_that_another_module_decorates_is_checked_where_it_stands(wrap: str, tmp_path: Path) -> None:
    plain = KERNEL.replace("@nki.jit\ndef kernel", "def plain")
    caller = f"import nki\nimport numpy as np\nfrom pkg.ops import plain\n\n{wrap}(np.zeros((64, 64), np.float32))\n"
    file = project(tmp_path, pkg__ops=plain, run=caller)
    assert "NKI203" in codes(file)
    assert ("NKI203", "ops.py") in [(item.code, Path(item.file).name) for item in found(tmp_path / "run.py")]


@pytest.mark.parametrize(
    "decorator",
    [
        "@third_party.traced\n@nki.jit",
        "@nki.jit\n@traced",
        "@traced\n@nki.jit",
    ],
)
def test_decorators_of_the_project_hide_no_kernel(decorator: str, tmp_path: Path) -> None:
    own = (
        "import functools\nimport third_party\n\ndef traced(function):\n    @functools.wraps(function)\n"
        "    def wrapper(*args, **kwargs):\n        return function(*args, **kwargs)\n    return wrapper\n\n"
    )
    text = KERNEL.replace("@nki.jit", f"{own}{decorator}")
    assert "NKI203" in codes(project(tmp_path, pkg__ops=text, tests__test_ops=CALL.format(rows=64)))


def test_links_and_unreadable_files_are_passed_over(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__ops=KERNEL, tests__test_ops=CALL.format(rows=64))
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    (tmp_path / "around").symlink_to(tmp_path)
    (tmp_path / "broken.py").write_bytes(b"from pkg.ops import kernel\n\xff\xfe(((\n")
    os.mkfifo(tmp_path / "pipe.py")
    assert "NKI203" in codes(file)


def test_folders_inside_of_folders_end(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(600):
        deep = deep / "d"
    deep.mkdir(parents=True)
    file = project(tmp_path, pkg__ops=KERNEL, tests__test_ops=CALL.format(rows=64))
    assert "NKI203" in codes(file)
