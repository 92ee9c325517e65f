"""Environments that have the wheel of the checkout, with some extras, and nothing else of it.

pip fetches the packages: the newest that pyproject.toml allows, or with `lowest` the oldest direct ones; torch and jax are
those of requirements/frameworks.txt.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


class Install(Protocol):
    """Makes an environment with extras, or gives the one made before; returns its interpreter."""

    def __call__(self, *extras: str, end: str = "highest", more: tuple[str, ...] = (), without: str = "") -> Path: ...


def script() -> ModuleType:
    """Return the script that builds the wheel and makes environments."""
    name = "test_matrix_script"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "test_matrix.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def installer(folder: Path) -> Install:
    """Return what makes environments in a folder, with the wheel of the checkout as it is now."""
    matrix = script()
    wheel = matrix.build(folder)
    made: dict[tuple[str, ...], Path] = {}

    def environment(*extras: str, end: str = "highest", more: tuple[str, ...] = (), without: str = "") -> Path:
        key = (*extras, end, *more, *([f"without {without}"] if without else []))
        if key not in made:
            venv = folder / "-".join(key).replace(" ", "-")
            matrix.called([sys._base_executable, "-m", "venv", str(venv)])
            lowered = [] if end == "highest" else direct(extras)
            pins = [f"{item.name}=={matrix.oldest_wheel(venv, item)}" for item in lowered]
            wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
            constraints = ["--constraint", str(ROOT / "requirements" / "frameworks.txt")]
            matrix.pip(venv, "install", "--quiet", wanted, *pins, *more, *constraints)
            matrix.called([str(matrix.python_in(venv)), "-m", "pip", "check"])
            if without:
                matrix.pip(venv, "uninstall", "--quiet", "--yes", without)
            made[key] = matrix.python_in(venv)
        return made[key]

    return environment


def direct(extras: tuple[str, ...]) -> list[Requirement]:
    """Return what the package and its extras require themselves."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for name in extras for text in table[name])]
    inner = [name for text in texts for name in Requirement(text).extras]
    return [item for item in map(Requirement, texts) if not item.extras] + (direct(tuple(inner))[2:] if inner else [])


def called(python: Path, *arguments: str, folder: Path, given: str = "") -> str:
    """Return the output of Python in `folder`."""
    done = subprocess.run(
        [str(python), *arguments], cwd=folder, env=clean(python), input=given, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return str(done.stdout)


def clean(python: Path) -> dict[str, str]:
    """Return variables without the checkout, and with the environment's commands in front."""
    found: dict[str, str] = script().environment()
    return found | {"PATH": f"{python.parent}:{found.get('PATH', '')}"}
