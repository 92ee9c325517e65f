#!/usr/bin/env python3
"""Runs the core of the suite on the installed wheel: on each Python of this machine, with the lowest and highest NumPy.

    scripts/test_matrix.py FOLDER             every supported Python that is found; what is not found is named
    scripts/test_matrix.py FOLDER --newest    the newest one only, with the highest NumPy
    scripts/test_matrix.py FOLDER --python 3.12 --numpy lowest -- -x     further arguments of pytest

FOLDER gets the wheel, a copy of the tests and an environment for each combination, kept for a week. The exact set of
requirements/dev.txt holds what `make test` itself uses; here pip chooses. `highest` are the newest packages, `lowest`
the oldest that pyproject.toml allows and that have a wheel for the Python. The core is what computes: runs, times,
profiles, the checker and the numbers, and what depends on a version of Python. Exit status 1 where a combination fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.version import Version

from nki_lab.file_system import locked

ROOT = Path(__file__).resolve().parents[1]
CORE = (
    "tests/test_session.py", "tests/test_device_loops.py", "tests/test_profile.py", "tests/test_query.py",
    "tests/test_agreement.py", "tests/test_own_faults.py", "tests/kernel_runtime/timing/test_engines.py",
    "tests/kernel_runtime/timing/test_meetings.py", "tests/kernel_runtime/numerics/test_indirect.py",
    "tests/kernel_runtime/numerics/test_loops.py", "tests/kernel_runtime/interpreter/test_evaluator.py",
    "tests/kernel_runtime/interpreter/test_evaluator_faults.py", "tests/kernel_runtime/issue/test_iterations.py",
    "tests/kernel_runtime/beta1/test_branching.py", "tests/kernel_runtime/beta1/test_temporary.py",
    "tests/rules/test_markdown.py", "tests/rules/test_deep_nesting.py", "tests/isa/test_constants.py",
    "tests/source/test_uses.py", "tests/test_late_annotations.py",
)  # fmt: skip
COPIED = ("tests", "examples", "docs", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md")
# Of the extra `test`.
TOOLS = ("hypothesis", "libcst", "nki-lab", "packaging", "perfetto", "pytest", "pytest-timeout", "pytest-xdist")
ENDS = ("lowest", "highest")
WEEK = 7 * 24 * 3600
# What a Python says of itself: one that can make environments, is released and has a lock.
ABOUT = """
import ensurepip, json, sys, sysconfig, venv
usable = sys.version_info.releaselevel == "final" and not sysconfig.get_config_var("Py_GIL_DISABLED")
print(json.dumps([*sys.version_info[:3], usable]))
"""


class Python(NamedTuple):
    """An interpreter of this machine."""

    version: tuple[int, int, int]
    path: str

    @property
    def minor(self) -> str:
        """Return the version without its last part: 3.12."""
        return f"{self.version[0]}.{self.version[1]}"


class Failed(Exception):  # noqa: N818 - the outcome of a combination
    """A combination that could not be made or did not pass; the text says why."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--newest", action="store_true", help="the newest Python only, with the highest NumPy")
    parser.add_argument("--python", action="append", help="a version, such as 3.12; all that are supported by default")
    parser.add_argument("--numpy", choices=ENDS, action="append", help="both by default")
    own, further = split(sys.argv[1:])
    chosen = parser.parse_args(own)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found, supported = pythons(), supported_versions(project)
    wanted = [name for name in supported if chosen.python is None or name in chosen.python]
    if chosen.newest:
        wanted = [name for name in supported if name in found][-1:]
    else:
        tell_of_others(found, supported, wanted)
    ends = ["highest"] if chosen.newest else chosen.numpy or list(ENDS)
    if not any(name in found for name in wanted):
        print(f"no Python of {', '.join(wanted or supported)} is on PATH or installed with pyenv: nothing is run")
        return 0
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):  # a second run waits
        wheel = build(folder)
        pairs = [(found[name], end) for name in wanted if name in found for end in ends]
        passed = [run(python, end, folder, wheel, project, further) for python, end in pairs]
    return int(not all(passed))


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split a command line at the first `--`, around which argparse mixes options and positional arguments up."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def supported_versions(project: dict[str, Any]) -> list[str]:
    """Return the versions of Python that the classifiers name, oldest first."""
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    return [match[1] for text in project["classifiers"] if (match := pattern.fullmatch(text))]


def pythons() -> dict[str, Python]:
    """Return the newest usable Python of each minor version, on PATH or installed with pyenv."""
    found: dict[str, Python] = {}
    for path in dict.fromkeys(candidates()):
        done = subprocess.run([path, "-c", ABOUT], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            *version, usable = json.loads(done.stdout)
            python = Python(tuple(version), path)
            if usable and python.version >= found.get(python.minor, python).version:
                found[python.minor] = python
    return dict(sorted(found.items(), key=lambda item: item[1].version))


def candidates() -> Iterator[str]:
    yield sys.executable
    for name in ("python", "python3", *(f"python3.{minor}" for minor in range(10, 31))):
        if path := shutil.which(name):
            yield path
    for root in {os.environ.get("PYENV_ROOT", ""), str(Path.home() / ".pyenv")} - {""}:
        yield from sorted(map(str, Path(root, "versions").glob("3.*/bin/python3")))


def tell_of_others(found: dict[str, Python], supported: list[str], wanted: list[str]) -> None:
    """Name the versions that are not run: found and not supported, or supported and not found."""
    for name, python in found.items():
        if name not in supported and python.version >= (3, 10):
            print(f"Python {'.'.join(map(str, python.version))}: not supported (pyproject.toml), not run")
    for name in wanted:
        if name not in found:
            print(f"Python {name}: supported, not found on this machine, not run")


def build(folder: Path) -> Path:
    """Build the wheel and copy the tests; the checkout itself is imported by nobody."""
    dist, tree = folder / "dist", folder / "tree"
    shutil.rmtree(dist, ignore_errors=True)
    command = [
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(dist),
        str(ROOT),
    ]
    subprocess.run([sys.executable, *command], check=True, env=environment())
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        else:
            shutil.copy2(source, tree / name)
    return next(dist.glob("*.whl"))


def run(python: Python, end: str, folder: Path, wheel: Path, project: dict[str, Any], further: list[str]) -> bool:
    """Run the core on one combination and print its line; on a failure what pytest said, too."""
    name, began, shown = f"Python {'.'.join(map(str, python.version))}", time.monotonic(), f"{end} NumPy"
    try:
        venv = environment_of(python, end, folder, wheel, project)
        shown = ", ".join(versions_in(venv, ("numpy", "ml_dtypes", "pyarrow")))
        outcome = tested(venv, folder / "tree", further)
    except Failed as failure:
        print(f"{name}, {shown}: FAILED\n{failure}", flush=True)
        return False
    print(f"{name}, {shown}: {outcome} in {time.monotonic() - began:.0f} s", flush=True)
    return True


def environment_of(python: Python, end: str, folder: Path, wheel: Path, project: dict[str, Any]) -> Path:
    """Return an environment with the tools, the packages at one end of their ranges, and the wheel."""
    venv = folder / f"{python.minor}-{end}"
    needs = requirements(project)
    key = hashlib.sha256(json.dumps([python, needs], default=str).encode()).hexdigest()
    mark = venv / ".ready"
    if not mark.exists() or mark.read_text() != key or time.time() - mark.stat().st_mtime > WEEK:
        shutil.rmtree(venv, ignore_errors=True)
        called([python.path, "-m", "venv", str(venv)])
        lowered = map(Requirement, computing(project) if end == "lowest" else ())
        pins = [f"{item.name}=={oldest_wheel(venv, item)}" for item in lowered]
        pip(venv, "install", "--quiet", "--only-binary", ":all:", *needs, *pins)
        mark.write_text(key)
    pip(venv, "install", "--quiet", "--force-reinstall", "--no-deps", str(wheel))
    called([str(python_in(venv)), "-m", "pip", "check"])
    return venv


def computing(project: dict[str, Any]) -> list[str]:
    """Return the requirements whose lowest versions are taken: of computing and saving, not of the tools of tests."""
    return [*project["dependencies"], *project["optional-dependencies"]["save"]]


def requirements(project: dict[str, Any]) -> list[str]:
    """Return what the core needs, with the ranges of pyproject.toml."""
    extras = project["optional-dependencies"]
    tools = [text for text in extras["test"] if Requirement(text).name in TOOLS]
    inner = [text for tool in tools for name in Requirement(tool).extras for text in extras[name]]
    return [*project["dependencies"], *inner, *(text for text in tools if not Requirement(text).extras)]


def oldest_wheel(venv: Path, wanted: Requirement) -> str:
    """Return the oldest version in a range that has a wheel for the Python of an environment."""
    listed = re.search(r"Available versions: (.*)", pip(venv, "index", "versions", wanted.name))
    versions = [Version(text) for text in (listed[1].split(", ") if listed else [])]
    for version in sorted(version for version in versions if version in wanted.specifier):
        try:  # the list names versions without a wheel for this Python, too
            pip(venv, "install", "--dry-run", "--no-deps", "--only-binary", ":all:", f"{wanted.name}=={version}")
        except Failed:
            continue
        return str(version)
    raise Failed(f"{wanted}: there is no wheel for this Python")


def versions_in(venv: Path, packages: tuple[str, ...] | list[str]) -> list[str]:
    """Return "name version" of packages in an environment."""
    code = "import sys; from importlib.metadata import version\nfor name in sys.argv[1:]: print(name, version(name))"
    return called([str(python_in(venv)), "-c", code, *packages]).splitlines()


def tested(venv: Path, tree: Path, further: list[str]) -> str:
    """Run the core in the copy of the tests and return what pytest counts."""
    python = str(python_in(venv))
    place = called([python, "-c", "import nki_lab; print(nki_lab.__file__)"], cwd=tree).strip()
    if not Path(place).resolve().is_relative_to(venv.resolve()):
        raise Failed(f"nki_lab is imported from {place}, not from the wheel")
    spread = os.environ.get("SPREAD", "-n 2 --dist loadfile --max-worker-restart=0").split()
    # The tests import each other as `tests`, and the scripts that they start find nki_lab in the environment.
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *spread, *further, *CORE]
    return called(command, cwd=tree, PYTHONPATH=str(tree)).strip().splitlines()[-1].partition(" in ")[0].strip("= ")


def python_in(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pip(venv: Path, *arguments: str) -> str:
    return called([str(python_in(venv)), "-m", "pip", *arguments])


def environment(**further: str) -> dict[str, str]:
    """Return the variables of a process that imports nothing of the checkout."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    return kept | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | further


def called(command: list[str], cwd: Path | None = None, **further: str) -> str:
    """Return the output of a command; Failed with the end of it where it fails."""
    done = subprocess.run(command, cwd=cwd, env=environment(**further), capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()
        raise Failed("\n".join([f"  {' '.join(command[:4])} …", *(f"  {line}" for line in lines[-40:])]))
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
