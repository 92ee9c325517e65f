"""Modules of the user's: found, read and evaluated as a run would import them, and never imported."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from nki_lab import check, spec
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter import (
    REACHED,
    Budget,
    Evaluation,
    ModuleFinder,
    ModuleSource,
    Signature,
    evaluate,
    site_folders,
)
from nki_lab.lsp.convert import at_home
from nki_lab.query import Document, EvaluationRequest
from tests.verdicts import Verdict, missed, traced

PACKAGES = Path(__file__).parents[2] / "packages"


def evaluated(file: Path, *arguments: object, library: ModuleFinder | None = None) -> Evaluation:
    module = ModuleSource.parse(file.read_text(encoding="utf-8"), str(file))
    found = library or ModuleFinder(site=(file.parents[-2] / "no_such_folder",))
    return evaluate(module, "kernel", Signature(args=arguments), arch="trn2", library=found)


PRODUCTION = [
    ("scaled_activation", (256, 1024), ()),
    ("scaled_activation", (200, 768), ("none",)),
    ("row_softmax", (300, 512), ()),
    ("row_softmax", (128, 64), ("fast", 0.5)),
    ("row_softmax", (128, 64), ("slow",)),
]


@pytest.mark.parametrize(("name", "shape", "more"), PRODUCTION)
def test_a_kernel_over_many_modules_is_evaluated_as_it_is_traced(
    name: str, shape: tuple[int, ...], more: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PACKAGES))
    module = importlib.import_module(f"production.{name}")
    arguments = (spec(shape, "float32"), *more)
    made = evaluated(PACKAGES / "production" / f"{name}.py", *arguments)
    assert not missed(made)
    run = traced(module.kernel, arguments, "trn2")
    faults = [item for item in made.diagnostics if item.outcome == "fault"]
    assert (Verdict.of_fault(faults[0]) if faults else Verdict(program=made.program.text())) == run
    assert bool(faults) == ("slow" in more)
    assert len(made.operations) > 4 or faults
    assert faults or not made.unknown
    assert {"sizes.py"} <= {Path(item.file).name for item in made.modules}


# -- finding and reading -------------------------------------------------------------------------------------------


HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
BODY = """    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=float(VALUE))
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out
"""
X = spec((128, 64), "float32")


def project(folder: Path, **files: str) -> Path:
    """A folder with files, `__` in their names for a slash; gives `pkg/kernel.py`."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/').replace('INIT', '__init__')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder / "pkg" / "kernel.py"


def kernel(imports: str, value: str) -> str:
    return f"{HEAD}{imports}\n\n@nki.jit\ndef kernel(x):\n{BODY.replace('VALUE', value)}"


def factor(made: Evaluation) -> Any:
    """The number that the kernel multiplies with; None where it is unknown."""
    found = [item for item in made.program.text().splitlines() if "tensor_scalar" in item]
    return float(re.search(r"operand0=([-\d.]+)", found[0])[1]) if found else None  # type: ignore[index]


IMPORTS = [
    ("from .consts import K", "K"),
    ("from . import consts", "consts.K"),
    ("from .consts import *", "K"),
    ("import pkg.consts", "pkg.consts.K"),
    ("import pkg.consts as c", "c.K"),
    ("from pkg import consts as c", "c.K"),
    ("from pkg.consts import K as size", "size"),
    ("from .inner import deep", "deep()"),
    ("from .inner.deeper import deep", "deep()"),
    ("from pkg.inner import *", "deep()"),
    ("from side import S", "S"),
    ("from .ring import one", "one()"),
    ("try:\n    from missing_library import K\nexcept ImportError:\n    from .consts import K", "K"),
    ("try:\n    import missing_library\nexcept ModuleNotFoundError:\n    missing_library = None",
     "7 if missing_library is None else 8"),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nowhere import K\nfrom .consts import K", "K"),
]  # fmt: skip


@pytest.mark.parametrize(("imports", "value"), IMPORTS)
def test_an_import_gives_what_it_gives_in_a_run(imports: str, value: str, tmp_path: Path) -> None:
    file = project(
        tmp_path, setup="", side="S = 7\n", pkg__INIT="", pkg__consts="K = 7\n_HIDDEN = 8\n", pkg__kernel=kernel(imports, value),
        pkg__inner__INIT="from .deeper import deep\n__all__ = ['deep']\n",
        pkg__inner__deeper="from ..consts import K\n\ndef deep():\n    return K\n",
        pkg__ring="from . import other\n\ndef one():\n    return other.two()\n\ndef seven():\n    return 7\n",
        pkg__other="from . import ring\n\ndef two():\n    return ring.seven()\n",
    )  # fmt: skip
    made = evaluated(file, X, library=ModuleFinder(site=(tmp_path / "site",)))
    assert factor(made) == 7
    assert not missed(made)
    assert not made.unknown


def test_what_is_not_found_is_unknown_and_no_error(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__kernel=kernel("from nowhere.at_all import K, helper\nimport gone", "K"))
    made = evaluated(file, X)
    assert not [item for item in made.diagnostics if item.severity == "error"]
    assert {line for _, line, _ in made.unknown}


@pytest.mark.parametrize(
    "text", ["K = (", "K = 1\x00", "\xff", "K = " + "(" * 5000], ids=["half", "null", "text", "deep"]
)
def test_a_module_that_is_no_python_is_unknown(text: str, tmp_path: Path) -> None:
    file = project(tmp_path, pkg__kernel=kernel("from .consts import K", "K"), pkg__consts="")
    (tmp_path / "pkg" / "consts.py").write_bytes(text.encode("latin-1"))
    made = evaluated(file, X)
    assert factor(made) is None
    assert not [item for item in made.diagnostics if item.severity == "error"]


def test_folders_that_the_project_names_are_searched(tmp_path: Path) -> None:
    file = project(
        tmp_path, pkg__kernel=kernel("from shared.sizes import K", "K"), setup="", elsewhere__shared__sizes="K = 3\n"
    )
    assert factor(evaluated(file, X)) is None
    assert factor(evaluated(file, X, library=ModuleFinder([tmp_path / "elsewhere"]))) == 3


def test_installed_packages_are_read_where_they_are_of_kernels(tmp_path: Path) -> None:
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    project(site, lib_of_kernels__INIT="import nki\nK = 5\n", heavy__INIT="K = 6\n" + "# nothing of ours\n" * 400)
    text = kernel("from lib_of_kernels import K\nfrom heavy import K as other", "K if other is None else other")
    file = project(tmp_path, setup="", pkg__kernel=kernel("from lib_of_kernels import K", "K"), pkg__b=text)
    for interpreter in (tmp_path / "venv", tmp_path / "venv" / "bin" / "python"):
        assert factor(evaluated(file, X, library=ModuleFinder(site=site_folders(interpreter)))) == 5
    assert factor(evaluated(file.with_name("b.py"), X, library=ModuleFinder(site=(site,)))) is None


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__kernel=kernel("from .consts import K", "K"), pkg__consts="K = 7\n")
    document, library = Document(str(file)), ModuleFinder()
    request = EvaluationRequest(arch=arch_of("trn2"), explicit=Signature(args=(X,)), library=library)
    document.update(file.read_text(encoding="utf-8"))
    assert not document.examine(request).unknown
    (tmp_path / "pkg" / "consts.py").write_text("K = kernel_of_nothing()\n", encoding="utf-8")
    assert document.examine(request).unknown
    (tmp_path / "pkg" / "consts.py").unlink()
    assert document.examine(request).unknown
    (tmp_path / "pkg" / "consts.py").write_text("K = 9\n", encoding="utf-8")
    assert not document.examine(request).unknown


CANARY = """
import os
open({0!r}, "w").write("executed")
__import__("os").mkdir({0!r} + "2")
class Meta(type):
    def __new__(cls, *args):
        os.mkdir({0!r} + "3")
class Base(metaclass=Meta): pass
def decorate(f, made=os.mkdir({0!r} + "4")):
    os.mkdir({0!r} + "5")
    return f
@decorate
def helper(x=os.system("touch " + {0!r})):
    return 7
K = 7
"""


def test_modules_are_never_executed_or_imported(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    file = project(tmp_path, pkg__kernel=kernel("from .canary import K, helper\nimport pkg.canary", "K + helper()"),
                   pkg__INIT=CANARY.format(str(mark)), pkg__canary=CANARY.format(str(mark)))  # fmt: skip
    before = set(sys.modules)
    evaluated(file, X)
    check(file)
    assert not list(tmp_path.glob("mark*"))
    assert not {name for name in set(sys.modules) - before if "pkg" in name or "canary" in name}


def test_endless_and_countless_modules_end(tmp_path: Path) -> None:
    files = {f"pkg__m{i}": f"from .m{i + 1} import K\n" for i in range(400)}
    file = project(
        tmp_path,
        pkg__kernel=kernel("from .m0 import K\nfrom .loop import L", "K"),
        pkg__loop="while True: pass\n",
        **files,
    )
    made = evaluate(ModuleSource.parse(file.read_text(encoding="utf-8"), str(file)), "kernel", Signature(args=(X,)), arch="trn2",
                    library=ModuleFinder(), budget=Budget(steps=20_000))  # fmt: skip
    assert "NKI120" in {item.code for item in made.diagnostics}


# -- findings ------------------------------------------------------------------------------------------------------


FAULTY = f"""{HEAD}
def halve(t):
    nisa.tensor_copy(dst=t, src=t[:, 0:32])
"""
USING = f"""{HEAD}from .helpers import halve

@nki.jit
def kernel(x: nki.typing.tensor[128, 64]):
    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    halve(t)
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out
"""


def test_a_finding_in_a_helper_stands_there_and_names_the_call(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__kernel=USING, pkg__helpers=FAULTY)
    (found,) = [item for item in check(file) if item.severity == "error"]
    assert (found.code, Path(found.file).name, found.line) == ("NKI203", "helpers.py", 6)
    (call,) = [item.span for item in found.related if item.message == REACHED]
    assert call is not None
    assert (call.file, call.line) == (str(file), 10)


def test_a_comment_silences_in_the_helper_s_file(tmp_path: Path) -> None:
    quiet = FAULTY.replace("0:32])", "0:32])  # nki: noqa[NKI203]")
    assert not [
        item for item in check(project(tmp_path, pkg__kernel=USING, pkg__helpers=quiet)) if item.severity == "error"
    ]


def test_an_editor_shows_it_at_the_call(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__kernel=USING, pkg__helpers=FAULTY)
    (found,) = [item for item in check(file) if item.severity == "error"]
    shown = at_home(found, str(file))
    assert (shown.file, shown.line) == (str(file), 10)
    assert shown.message.endswith("(helpers.py, line 6)")
    assert at_home(shown, str(file)) is shown


def test_what_an_imported_module_does_at_its_top_is_not_judged(tmp_path: Path) -> None:
    odd = "import nki.language as nl\nfrom nki.isa import an_instruction_of_tomorrow\nA = nl.not_there\nB = 1 / 0\nK = 7\n"
    made = evaluated(project(tmp_path, pkg__kernel=kernel("from .consts import K", "K"), pkg__consts=odd), X)
    assert not made.diagnostics
    assert factor(made) == 7


def test_a_module_has_the_names_that_it_has(tmp_path: Path) -> None:
    text = kernel("from . import consts", "consts.KAY")
    file = project(tmp_path, pkg__INIT="", pkg__kernel=text, pkg__consts="K = 7\n")
    (found,) = evaluated(file, X).diagnostics
    assert found.code == "NKI007"
    assert "has no attribute 'KAY'" in found.message


# -- calls in other files ------------------------------------------------------------------------------------------


UNTYPED = USING.replace(": nki.typing.tensor[128, 64]", "")
TEST = """
import numpy as np
from pkg.kernel import kernel

def test_it():
    kernel(np.zeros((128, 64), np.float32))
"""


@pytest.mark.parametrize(
    "place",
    [
        "tests__test_kernel", "test__unit_test", "pkg__test_kernel", "pkg__run", "tests__pkg__test_kernel",
        "test__integration__pkg__test_kernel",
    ],
)  # fmt: skip
def test_shapes_come_from_the_files_beside(place: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    file = project(tmp_path, pkg__kernel=UNTYPED, pkg__helpers=FAULTY, **{place: TEST})
    codes = {item.code for item in check(file)}
    assert "NKI203" in codes
    assert "NKI121" not in codes


def test_files_beside_are_read_and_never_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / ".git").mkdir()
    file = project(
        tmp_path, pkg__kernel=UNTYPED, pkg__helpers=FAULTY, tests__test_kernel=TEST + CANARY.format(str(mark))
    )
    assert "NKI203" in {item.code for item in check(file)}
    assert not list(tmp_path.glob("mark*"))


def test_a_kernel_of_another_module_is_checked_where_it_is_called(tmp_path: Path) -> None:
    file = project(tmp_path, pkg__kernel=UNTYPED, pkg__helpers=FAULTY, tests__test_kernel=TEST, setup="")
    (found,) = [item for item in check(tmp_path / "tests" / "test_kernel.py") if item.severity == "error"]
    assert (found.code, Path(found.file).name) == ("NKI203", "helpers.py")
    assert {Path(item.span.file).name for item in found.related if item.span} == {file.name, "test_kernel.py"}


def test_what_is_wrong_for_all_shapes_is_found_without_any(tmp_path: Path) -> None:
    wrong = """
    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    u = nl.ndarray((128, x.shape[1]), nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=t, src=u)
    if n > 3:
        return t
    assert x.shape[0] == 128
    nisa.tensor_copy(dst=t, src=t[:, 0:32])
    return t
"""
    file = project(tmp_path, pkg__kernel=f"{HEAD}\n@nki.jit\ndef kernel(x, n=3):{wrong}")
    found = [item for item in check(file) if item.code in ("NKI121", "NKI203")]
    assert [(item.code, item.line) for item in found] == [("NKI121", 6), ("NKI203", 13)]
