"""Files of a user's are read by one reader: what is no file, or has no end, neither hangs nor fills the memory."""

from __future__ import annotations

import json
import linecache
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nki_lab
from nki_lab.kernel_runtime.interpreter import ModuleFinder
from nki_lab.query.source_tree import Sources
from nki_lab.source_files import MOST_BYTES, UnsuitableFileError, lines_of, read_source

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices have no paths here")

KERNEL = """
import nki
import nki.language as nl
from helper import scale

@nki.jit
def kernel(x: nl.ndarray):
    return nl.load(x)
"""


def odd(kind: str, path: Path) -> Path:
    """A path that leads to something else than a file, or to too much of one."""
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "large":
            with path.open("wb") as stream:
                stream.truncate(MOST_BYTES + 1)
        case "link":
            odd("pipe", path.with_suffix(".pipe"))
            path.symlink_to(path.with_suffix(".pipe"))
    return path


ODD = ("pipe", "device", "large", "link")


LIMITED = ("sh", "-c", 'ulimit -v 4194304 && exec "$@"', "-", sys.executable, "-m", "nki_lab")
"""Ends a process that takes much more memory than the limit of one file: 4 GiB."""


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_of_a_size_is_not_read(kind: str, tmp_path: Path) -> None:
    path = odd(kind, tmp_path / "kernels.py")
    with pytest.raises(UnsuitableFileError, match=r"it is a |it has more than"):
        read_source(path)
    assert lines_of(str(path)) == []
    assert str(path) not in linecache.cache


@pytest.mark.parametrize("kind", ODD)
def test_a_check_of_it_names_place_limit_and_remedy(kind: str, tmp_path: Path) -> None:
    (found,) = nki_lab.check(path=odd(kind, tmp_path / "kernels.py"))
    assert found.code == "NKI018"
    assert found.span is not None and found.span.file == str(tmp_path / "kernels.py")
    assert found.limit == "a regular file of at most 64 MiB, or a link to one inside of the project"
    assert found.help


def test_links_to_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("one\ntwo\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "there.py")
    assert read_source(tmp_path / "link.py") == b"one\ntwo\n"
    assert lines_of(str(tmp_path / "link.py")) == ["one\n", "two\n"]


@pytest.mark.parametrize("kind", ODD)
def test_a_folder_with_it_is_checked_to_the_end(kind: str, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNEL)
    for name in ("helper.py", "test_kernels.py", "notebook.ipynb", "conftest.py"):
        odd(kind, tmp_path / name)
    command = [*LIMITED, "check", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (1, 2), done.stderr
    assert done.stdout.count("error: NKI018") == 4
    assert "NKI901" not in done.stdout


def test_one_bad_file_costs_no_other_its_findings(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("import nki\n@nki.jit\ndef k(x):\n    y = lambda: 0\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "folder.py" / "inner.py").write_text("x = 1\n")
    (tmp_path / "circle.py").symlink_to(tmp_path / "round.py")
    (tmp_path / "round.py").symlink_to(tmp_path / "circle.py")
    (tmp_path / "nowhere.ipynb").symlink_to(tmp_path / "gone.ipynb")
    (tmp_path / "bytes.py").write_bytes(b"import nki\n# \xff\xfe\n\0")
    (tmp_path / "odd.py").write_bytes(b"# -*- coding: zlib -*-\nimport nki\n")
    with (tmp_path / "sparse.py").open("wb") as stream:
        stream.truncate(2 << 30)
    os.mkfifo(tmp_path / "pipe.py")
    locked = tmp_path / "locked.py"
    locked.write_text("x = 1\n")
    locked.chmod(0)  # root reads it all the same
    command = [*LIMITED, "check", "--format", "json", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = {(Path(item["file"]).name, item["code"]) for item in json.loads(done.stdout)}
    refused = {"circle.py", "round.py", "nowhere.ipynb", "sparse.py", "pipe.py"} | (
        {"locked.py"} if os.getuid() else set()
    )
    assert {(name, "NKI018") for name in refused} <= found
    assert {("bytes.py", "NKI101"), ("odd.py", "NKI101"), ("good.py", "NKI104")} <= found
    assert not {name for name, code in found if code == "NKI901"}


def test_a_link_out_of_the_project_is_not_followed_unless_it_is_named(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.py"
    (project / "inner").mkdir(parents=True)
    (project / ".git").mkdir()
    outside.write_text("SIZE = 256\nthe secret = of another file\n")
    (project / "real.py").write_text("x = lambda: 0\n")
    (project / "link.py").symlink_to(outside)
    (project / "inner" / "near.py").symlink_to("../real.py")
    found = Sources()
    found.add(project)
    assert [path.name for path, _ in found.files] == ["real.py"]  # the other link leads there
    (refused,) = found.found
    assert refused.message.endswith("link.py: it is a link to a file outside of the project")
    named = Sources()
    named.add(project / "link.py")
    assert [path.name for path, _ in named.files] == ["link.py"]


def test_a_module_that_is_a_link_out_of_the_project_is_unknown(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / ".git").mkdir()
    (tmp_path / "outside.py").write_text("WIDTH = 4096\n")
    (project / "inside.py").write_text("WIDTH = 4096\n")
    (project / "far.py").symlink_to(tmp_path / "outside.py")
    (project / "near.py").symlink_to("inside.py")
    finder = ModuleFinder()
    assert finder.load(str(project / "near.py"), {}) is not None
    assert finder.load(str(project / "far.py"), {}) is None
    assert finder.data(str(project / "far.py")) is None
    assert ModuleFinder([tmp_path]).load(str(project / "far.py"), {}) is not None  # the project names that folder
    assert (
        ModuleFinder(site=[project]).load(str(project / "far.py"), {}) is not None
    )  # packages are linked by installers


@pytest.mark.parametrize("kind", ODD)
def test_a_constant_that_is_no_file_of_a_size_is_refused(kind: str, tmp_path: Path) -> None:
    path = odd(kind, tmp_path / "constant.npy")
    text = f"import nki\nimport nki.language as nl\n@nki.jit\ndef k():\n    return nl.shared_constant({str(path)!r})\n"
    (found,) = nki_lab.check(source=text, function="k", args=[])
    assert found.code == "NKI018"


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_settings_that_are_no_file_are_passed_over(kind: str, tmp_path: Path) -> None:
    odd(kind, tmp_path / "pyproject.toml")
    (tmp_path / "script.py").write_text("import nki_lab; print(nki_lab.compile.__name__)")
    command = [*LIMITED, "run", "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
                          env=os.environ | {"PYTHONPATH": str(Path(nki_lab.__file__).parents[1])})  # fmt: skip
    assert done.stdout == "compile\n", done.stderr
