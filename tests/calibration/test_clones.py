"""Kernels come out of clones at the pinned commit, with the pinned hash, in each form."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from benchmarks.calibration import clones
from benchmarks.calibration.published import Kernel, load

PAGE = """Title
=====

.. code-block:: python

   first = 1

   def f():
       return first

.. code-block:: bash

   ls

.. tab:: two

   .. code-block:: python

      second = 2

After.
"""


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, str]:
    """A folder of clones with one repository, whose work tree is not what was committed."""
    repository = tmp_path / "repository"
    (repository / "src" / "package").mkdir(parents=True)
    (repository / "src" / "package" / "__init__.py").write_text("")
    (repository / "src" / "package" / "kernels.py").write_text("def kernel():\n    return 'committed'\n")
    (repository / "page.rst").write_text(PAGE)
    (repository / "part.py").write_text("  @decorated\ndef kernel():\n    return 1\n")
    git(repository, "init", "-q")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "first")
    (repository / "src" / "package" / "kernels.py").write_text("changed")
    return tmp_path, git(repository, "rev-parse", "HEAD")


def kernel_of(made: tuple[Path, str], file: str, **more: object) -> Kernel:
    text = subprocess.run(
        ["git", "show", f"{made[1]}:{file}"], cwd=made[0] / "repository", capture_output=True, check=True
    ).stdout
    known = {"id": "k", "repository": "repository", "commit": made[1], "file": file, "function": "kernel",
             "sha256": hashlib.sha256(text).hexdigest(), "form": "module", "dialect": "current"}  # fmt: skip
    return Kernel(**{**known, **more})  # type: ignore[arg-type]


def test_a_module_is_the_committed_one(made: tuple[Path, str], tmp_path: Path) -> None:
    folder, name = clones.place(kernel_of(made, "src/package/kernels.py"), made[0], tmp_path / "build")
    assert "committed" in (folder / f"{name}.py").read_text()


def test_a_package_is_written_whole(made: tuple[Path, str], tmp_path: Path) -> None:
    kernel = kernel_of(made, "src/package/kernels.py", form="package", root="src")
    for _ in range(2):  # the second time it is there
        folder, name = clones.place(kernel, made[0], tmp_path / "build")
    assert name == "package.kernels"
    assert (folder / "package" / "__init__.py").exists()


def test_a_listing_is_a_block_of_a_page(made: tuple[Path, str], tmp_path: Path) -> None:
    folder, name = clones.place(kernel_of(made, "page.rst", form="listing", block=1), made[0], tmp_path / "build")
    assert (folder / f"{name}.py").read_text().strip() == "second = 2"
    assert clones.code_block(PAGE, 0).strip() == "first = 1\n\ndef f():\n    return first"
    with pytest.raises(clones.MissingKernelError, match="has 2 blocks"):
        clones.code_block(PAGE, 2)


def test_a_fragment_gets_its_imports(made: tuple[Path, str], tmp_path: Path) -> None:
    kernel = kernel_of(made, "part.py", form="fragment", preamble="decorated = staticmethod")
    folder, name = clones.place(kernel, made[0], tmp_path / "build")
    text = (folder / f"{name}.py").read_text()
    compile(text, name, "exec")
    assert text.startswith("decorated = staticmethod")


def test_another_hash_a_missing_commit_and_a_missing_clone_are_refused(made: tuple[Path, str], tmp_path: Path) -> None:
    for changed, words in (
        ({"sha256": "0" * 64}, "the data names 0000"),
        ({"commit": "1" * 40}, "git show"),
        ({"repository": "absent"}, "there is no clone"),
    ):
        kernel = kernel_of(made, "page.rst", **changed) if "commit" not in changed else None
        if kernel is None:
            known = kernel_of(made, "page.rst")
            kernel = Kernel(**{**{name: getattr(known, name) for name in known.__dataclass_fields__}, **changed})
        with pytest.raises(clones.MissingKernelError, match=words):
            clones.place(kernel, made[0], tmp_path / "build")


def test_the_instructions_name_every_repository_and_commit() -> None:
    published = load()
    text = clones.instructions(published)
    for kernel in published.kernels.values():
        assert kernel.commit in text
    for name, place in published.repositories.items():
        assert f"https://github.com/{place}.git {name}" in text
