"""Functions of other files: found as imports spell them, through packages that hand them on."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_lab.kernel_runtime.interpreter import ModuleFinder
from nki_lab.query import signature_help
from nki_lab.query.navigation.workspace import Workspace

HELPERS = "import nki.isa as nisa\n\ndef narrowed(dst, src):\n    nisa.tensor_copy(dst=dst, src=src)\n"
KERNEL = "import nki\n{}\n\n@nki.jit\ndef k(x):\n    {}("


@pytest.mark.parametrize(
    ("statement", "call", "found"),
    [
        ("from .helpers import narrowed", "narrowed", True),
        ("from .helpers import narrowed as cut", "cut", True),
        ("from . import helpers", "helpers.narrowed", True),
        ("from .inner import narrowed", "narrowed", True),
        ("from .inner.deep import narrowed", "narrowed", True),
        ("from pack.helpers import narrowed", "narrowed", True),
        ("import pack.helpers", "pack.helpers.narrowed", True),
        ("from .helpers import other", "other", False),
        ("from .missing import narrowed", "narrowed", False),
        ("from .circle import narrowed", "narrowed", False),
        ("import os", "os.getcwd", False),
        ("", "print", False),
    ],
)
def test_a_function_is_found_where_its_import_leads(tmp_path: Path, statement: str, call: str, found: bool) -> None:
    pack = tmp_path / "pack"
    (pack / "inner").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "helpers.py": HELPERS,
        "inner/__init__.py": "from .deep import narrowed\n",
        "inner/deep.py": HELPERS,
        "circle.py": "from .circle import narrowed\n",
    }.items():
        (pack / name).write_text(text, encoding="utf-8")
    text = KERNEL.format(statement, call)
    lines = text.split("\n")
    files = Workspace(ModuleFinder([tmp_path]), {})
    shown = signature_help(text, len(lines), len(lines[-1]) + 1, str(pack / "kernel.py"), files=lambda: files)
    assert (shown is not None) == found
    assert shown is None or shown.label == "narrowed(dst, src)"
