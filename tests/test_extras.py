"""Packages that are missing, or broken, stop what needs them, with the extra that installs them, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.extras import extra

ROOT = Path(__file__).parents[1]
# A finder in front of all others, as if the packages had never been installed.
WITHOUT = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Absent())
"""


def python_without(names: set[str], script: str, folder: Path) -> str:
    """The output of a script in a process that has none of these packages."""
    code = WITHOUT.format(names=names) + textwrap.dedent(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_without_pyarrow_every_door_but_saving_and_opening_works(tmp_path: Path) -> None:
    kernels = Path(tmp_path, "kernels.py")
    kernels.write_text(
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n@nki.jit\ndef copied(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n    nl.store(out, nl.load(a))\n    return out\n",
        encoding="utf-8",
    )
    said = python_without(
        {"pyarrow"},
        """
        from pathlib import Path

        import numpy as np

        import nki_lab
        from nki_lab.cli import main

        nki_lab.activate()
        from kernels import copied

        run = nki_lab.run(copied, np.ones((128, 8), np.float32), target="trn2")
        assert not [item for item in nki_lab.check(path="kernels.py") if item.severity == "error"]
        spec = nki_lab.spec((128, 8), "float32")
        profile = nki_lab.profile(copied, spec, target="trn2")
        nki_lab.compile(copied, spec, target="trn2")
        assert "makespan" in profile.report() or profile.summary.makespan_ns > 0
        run.to_html("run.html")
        run.to_csv("tables")
        run._repr_mimebundle_()
        for act in (lambda: run.save("run.nkirec"), lambda: run.to_explorer("explorer"), lambda: nki_lab.open("run.nkirec")):
            try:
                act()
            except nki_lab.NkiError as error:
                print(str(error).splitlines()[0])
        assert not Path("run.nkirec").exists() and not Path("explorer").exists()
        arguments = ["kernels.py::copied", "--arg", "a=float32[128,8]", "--target", "trn2"]
        assert main(["check", "kernels.py"]) == main(["doctor"]) == main(["explain", "NKI022"]) == 0
        assert main(["compile", *arguments]) == main(["profile", *arguments, "--html", "again.html"]) == 0
        assert main(["profile", *arguments, "--save", "again.nkirec"]) != 0
        assert main(["view", "run.nkirec"]) != 0
        """,
        tmp_path,
    )
    assert said.count("NKI022 saving a run needs the package pyarrow, which is not installed") == 1
    assert said.count("NKI022 a profile for Neuron Explorer needs the package pyarrow, which is not installed") == 1
    assert said.count("NKI022 opening a saved run needs the package pyarrow, which is not installed") == 1
    assert not (tmp_path / "again.nkirec").exists()


@pytest.mark.parametrize("package", ["pygls", "lsprotocol"])
def test_without_its_packages_the_language_server_says_so(package: str, tmp_path: Path) -> None:
    script = """
        import sys

        from nki_lab.cli import main

        sys.stderr = sys.stdout
        assert main(["lsp"]) != 0
        """
    said = python_without({package}, script, tmp_path)
    assert f"NKI022 the language server needs the package {package}, which is not installed" in said
    assert "pip install 'nki-lab[lsp]'" in said


def test_a_missing_package_names_its_extra() -> None:
    with (
        pytest.raises(
            NkiError, match="NKI022 this needs the package no_such_package, which is not installed"
        ) as caught,
        extra("some", "this needs", otherwise="do without"),
    ):
        import no_such_package.inner  # type: ignore[import-not-found]  # noqa: F401
    assert caught.value.diagnostics[0].help == "pip install 'nki-lab[some]', or do without"
    assert isinstance(caught.value, ImportError)


def test_a_broken_package_says_why() -> None:
    reason = "its compiled half is for another Python"
    with (
        pytest.raises(NkiError, match=f"the package parts, which cannot be imported: {reason}") as caught,
        extra("some", "x needs"),
    ):
        raise ImportError(reason, name="parts.half")
    assert caught.value.diagnostics[0].help == "pip install --upgrade 'nki-lab[some]'"


def test_what_is_missing_of_ours_is_no_question_of_extras() -> None:
    with pytest.raises(ModuleNotFoundError, match="nki_lab"), extra("some", "this needs"):
        import nki_lab.no_such_module  # type: ignore[import-not-found]  # noqa: F401
