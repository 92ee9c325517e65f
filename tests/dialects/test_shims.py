"""Shims of framework packages: found while the dialects are, refused where a real package or a library decides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nki_lab.dialects import shims
from nki_lab.frameworks.shims import SHIMS
from tests.every import for_each

ROOT = Path(__file__).parents[2]
STAND_IN = {"torch": "", "jax": ""}
"""Empty modules named as the libraries: what tests without the libraries need to import a shim."""


def ran(folder: Path, code: str, *, libraries: bool = True) -> str:
    """The output of a script in a fresh interpreter, in which `torch` and `jax` are empty modules."""
    for name, text in STAND_IN.items() if libraries else ():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_every_shim_is_importable_while_active_and_only_then(tmp_path: Path) -> None:
    code = f"""
import importlib, sys, nki_lab
def there(name):
    try:
        return importlib.import_module(name).__spec__.origin == "nki_lab"
    except ModuleNotFoundError:
        return False
names = {sorted(SHIMS)}
print([there(name) for name in names])
nki_lab.activate()
print([there(name) for name in names])
from torch_xla.core import xla_model as xm
from torch_neuronx.xla_impl.ops import nki_jit
nki_lab.deactivate()
print([there(name) for name in names], [name for name in sys.modules if name.partition(".")[0] in names])
nki_lab.activate()
print([there(name) for name in names])
"""
    no, yes = str([False] * len(SHIMS)), str([True] * len(SHIMS))
    assert ran(tmp_path, code).splitlines() == [no, yes, f"{no} []", yes]


def test_activation_imports_no_framework(tmp_path: Path) -> None:
    code = "import sys, nki_lab; nki_lab.activate(); print({'torch', 'jax'} & {*sys.modules})"
    assert ran(tmp_path, code) == "set()\n"


@pytest.mark.parametrize("root", sorted(SHIMS))
def test_a_real_package_stays(root: str, tmp_path: Path) -> None:
    (tmp_path / root).mkdir()
    (tmp_path / root / "__init__.py").write_text("origin = 'real'\n")
    code = f"""
import nki_lab; nki_lab.activate(); import {root}; print({root}.origin)
from nki_lab.dialects.shims import shims; print([name for name, place in shims().items() if place])
nki_lab.deactivate(); import {root}; print({root}.origin)
"""
    assert ran(tmp_path, code) == f"real\n['{root}']\nreal\n"


def test_a_folder_of_that_name_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "torch_xla").mkdir()
    code = "import nki_lab; nki_lab.activate(); import torch_xla; print(torch_xla.device_count())"
    assert ran(tmp_path, code) == "1\n"


def test_a_missing_library_is_one_line(tmp_path: Path) -> None:
    code = """
import nki_lab, sys; nki_lab.activate(); sys.modules["torch"] = None
try:
    import torch_xla
except ImportError as error:
    print(error)
"""
    said = ran(tmp_path, code, libraries=False)
    assert "NKI022 torch_xla needs the package torch, which is not installed" in said
    assert "pip install 'nki-lab[torch]'" in said


def test_a_name_that_a_shim_lacks_says_what_is_there(tmp_path: Path) -> None:
    code = """
import nki_lab; nki_lab.activate()
for text in ("import torch_xla.core.xla_modle", "from torch_xla.core import xla_modle", "import torch_xla.runtime",
             "import torch_xla; torch_xla.sinc", "from torch_neuronx import nki_jitt"):
    try:
        exec(text)
    except (ImportError, AttributeError) as error:
        print(type(error).__mro__[2].__name__, str(error).replace("\\n", " "))
"""
    said = ran(tmp_path, code).splitlines()
    assert len(said) == 5
    assert all("NKI006" in line and "simulated by nki_lab" in line for line in said)
    assert "xla_model" in said[0]
    assert "it has core " in said[2]
    assert "sync" in said[3]
    assert "nki_jit" in said[4]


MADE = {name: module for root in SHIMS for name, module in shims._modules(root).items()}


@for_each([(name, key) for name, module in MADE.items() for key in module.__all__])
def test_every_name_of_a_shim_is_documented(place: tuple[str, str]) -> None:
    module, name = place
    value = getattr(MADE[module], name)
    assert value.__doc__ or "frameworks" not in getattr(value, "__module__", "")  # dtypes and names of NKI: elsewhere
