"""Files of a user's are read by one reader: what is no file, or has no end, neither hangs nor fills the memory."""

from __future__ import annotations

import linecache
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import nki_lab
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


def limited() -> None:
    """Ends a process that takes much more memory than the limit of one file."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


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
    assert found.limit == "a regular file of at most 64 MiB, or a link to one"
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
    command = [sys.executable, "-m", "nki_lab", "check", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, preexec_fn=limited)
    assert done.returncode in (1, 2), done.stderr
    assert done.stdout.count("error: NKI018") == 4
    assert "NKI901" not in done.stdout


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_settings_that_are_no_file_are_passed_over(kind: str, tmp_path: Path) -> None:
    odd(kind, tmp_path / "pyproject.toml")
    (tmp_path / "script.py").write_text("import nki_lab; print(nki_lab.compile.__name__)")
    command = [sys.executable, "-m", "nki_lab", "run", "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
                          preexec_fn=limited, env=os.environ | {"PYTHONPATH": str(Path(nki_lab.__file__).parents[1])})  # fmt: skip
    assert done.stdout == "compile\n", done.stderr
