"""What `import nki_lab` gives, and how little it takes to do so."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nki_lab

LIGHT = {"nki_lab", "numpy", "ml_dtypes"}


def test_every_public_name_is_there() -> None:
    assert nki_lab.__all__
    assert len(nki_lab.__all__) == len(set(nki_lab.__all__))
    assert not [name for name in nki_lab.__all__ if not hasattr(nki_lab, name)]


def test_the_contract_of_the_python_interface_is_public() -> None:
    promised = {"activate", "check", "compile", "profile", "run", "spec"}
    assert promised <= set(nki_lab.__all__)


def test_open_is_an_attribute_and_leaves_the_builtin_to_a_star_import() -> None:
    assert "open" not in nki_lab.__all__
    assert "open" in dir(nki_lab)
    assert callable(nki_lab.open)
    assert inspect.getdoc(nki_lab.open)


def test_every_public_name_says_what_it_is_for() -> None:
    assert nki_lab.__doc__
    silent = []
    for name in nki_lab.__all__:
        value = getattr(nki_lab, name)
        if not (callable(value) or inspect.ismodule(value)):
            continue
        if not inspect.getdoc(value):
            silent.append(name)
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isfunction)
            own = [key for key, method in methods if method.__module__.startswith("nki_lab") and key[0] != "_"]
            silent += [f"{name}.{key}" for key in own if not inspect.getdoc(getattr(value, key))]
    assert not silent


def test_every_module_says_what_it_is_for(root: Path) -> None:
    modules = [file for file in sorted((root / "nki_lab").rglob("*.py")) if file.stat().st_size]
    texts = {file.relative_to(root): file.read_text(encoding="utf-8") for file in modules}
    assert not [str(name) for name, text in texts.items() if not ast.get_docstring(ast.parse(text))]


def test_importing_takes_numpy_and_ml_dtypes_only(tmp_path: Path, root: Path) -> None:
    script = "import sys; before = set(sys.modules); import nki_lab; print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-W", "error", "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {script}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    tops = {name.partition(".")[0] for name in done.stdout.split()}
    assert "nki_lab" in tops
    # Names without a letter in front are what compiled modules register privately.
    heavy = {name for name in tops - sys.stdlib_module_names - LIGHT if name[0].isalpha()}
    assert not heavy
    assert not done.stderr


def test_the_version_is_written_once(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert "version" not in project["project"]
    place = project["tool"]["hatch"]["version"]["path"]
    assert place == "nki_lab/__init__.py"
    literal = re.findall(r'^__version__(?:: \w+)? = "(.+)"$', (root / place).read_text(encoding="utf-8"), re.MULTILINE)
    assert literal == [nki_lab.__version__]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", nki_lab.__version__)
