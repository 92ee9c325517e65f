"""What differs between systems is guarded: the doors work without the modules and flags that only Linux has.

A process without them stands for Windows here; the workflow runs the suite on Windows and macOS themselves.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from nki_lab.file_system import (
    locked,
    private_folder,
    relative,
    rename_over,
    sync,
    whole_file,
    whole_folder,
    write_whole,
)
from tests.test_extras import WITHOUT

ROOT = Path(__file__).parents[1]
KERNELS = """import nki
import nki.language as nl


@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out
"""
LEAN = """
import errno, os, signal, socket
for module, names in (
    (os, ("O_DIRECTORY", "O_NONBLOCK", "sched_getaffinity", "fork", "geteuid", "getuid", "getloadavg", "register_at_fork")),
    (errno, ("EDQUOT",)),
    (signal, ("SIGALRM", "SIGKILL", "setitimer", "alarm")),
    (socket, ("AF_UNIX",)),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""


def test_every_door_works_without_what_windows_lacks(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    (tmp_path / "other.py").write_text(KERNELS.replace("return out", "return 3 +"), encoding="utf-8")
    script = """
    import numpy as np

    import nki_lab
    from nki_lab.cli import checking, main

    if __name__ == "__main__":
        nki_lab.activate()
        from kernels import copied

        run = nki_lab.run(copied, np.ones((128, 8), np.float32), target="trn2")
        run.save("run.nkirec")
        run.save("run.nkirec")
        assert nki_lab.open("run.nkirec").summary == run.summary
        run.to_html("run.html")
        run.to_csv("tables")
        run.to_csv("tables")
        run.to_explorer("explorer")
        checking._start_method = lambda: "spawn"
        assert main(["check", "kernels.py", "other.py", "--jobs", "2"]) == 1
        assert main(["doctor"]) == 0
        assert main(["signatures"]) in (0, 1)
        import nki_lab.lsp.worker as worker

        worker._bound_memory()
        print("end")
    """
    path = tmp_path / "script.py"
    lacking = {"fcntl", "resource", "termios", "pwd", "grp", "pty", "tty"}
    path.write_text(LEAN + WITHOUT.format(names=lacking) + textwrap.dedent(script), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, path.name], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("end\n")
    assert "NKI101" in done.stdout


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_output_goes_through_every_code_page(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS.replace("load(a))", "load(a))  # µ × → 中"), encoding="utf-8")
    command = [sys.executable, "-m", "nki_lab", "profile", "kernels.py::copied", "--arg", "a=float32[128,512]"]
    done = subprocess.run(
        [*command, "--target", "trn2"], cwd=tmp_path, capture_output=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "nl.load(a))  # " in done.stdout.decode(encoding)
    for arguments in (["explain", "NKI213"], ["check", "kernels.py", "--target", "trn2"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "nki_lab", *arguments], cwd=tmp_path, capture_output=True, check=False, timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
        )  # fmt: skip
        assert b"Traceback" not in done.stderr
        assert done.returncode == 0, done.stderr


def test_names_are_taken_over_in_one_step(tmp_path: Path) -> None:
    draft, target = tmp_path / "draft", tmp_path / "target"
    target.write_text("old")
    draft.write_text("new")
    sync(draft)
    sync(tmp_path)
    with locked(tmp_path) as alone:
        assert alone
        rename_over(draft, target)
    assert target.read_text() == "new"
    with pytest.raises(FileNotFoundError):
        rename_over(draft, target)


def test_a_path_that_nothing_relative_leads_to_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert relative(tmp_path / "a" / "b.py", tmp_path) == str(Path("a", "b.py"))

    def on_another_drive(*_: object) -> str:
        raise ValueError("path is on mount 'C:', start on mount 'D:'")

    monkeypatch.setattr("nki_lab.file_system.os.path.relpath", on_another_drive)
    assert relative(tmp_path) == str(tmp_path)


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_file_keeps_its_rights_and_its_links(tmp_path: Path) -> None:
    target, link, dangling = tmp_path / "target", tmp_path / "link", tmp_path / "dangling"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "new")
    write_whole(link, b"new")
    write_whole(dangling, b"made")
    assert (target.read_bytes(), target.stat().st_mode & 0o777, link.is_symlink()) == (b"new", 0o640, True)
    assert (tmp_path / "new").read_bytes() == b"made"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "link", "new", "target"]


def test_a_new_file_has_the_rights_that_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_write_that_breaks_off_leaves_the_file_as_it_was(error: Any, tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"old")
    with pytest.raises((KeyboardInterrupt, OSError)), whole_file(tmp_path / "file") as stream:
        stream.write(b"half of")
        raise error
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"old")
    script = f"""
        import resource, sys
        from nki_lab.file_system import write_whole
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_whole({str(tmp_path / "file")!r}, bytes(5000))
        except OSError:
            sys.exit(7)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, cwd=ROOT).returncode == 7
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_a_killed_write_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    script = f"""
        from nki_lab.file_system import write_whole
        for number in range(10**9):
            write_whole({str(tmp_path / "file")!r}, bytes([number % 251]) * 3_000_000)
            print("written", flush=True)
    """
    for pause in (0.0, 0.003, 0.01, 0.02):
        command = [sys.executable, "-c", textwrap.dedent(script)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline()
            time.sleep(pause)
            process.kill()
        content = (tmp_path / "file").read_bytes()
        assert len(content) == 3_000_000 and len(set(content)) == 1


@pytest.mark.parametrize("make", ["null", "fifo", "folder", "socket", "circle"])
def test_only_regular_files_are_replaced(make: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    if make == "null":
        place.symlink_to(os.devnull)
    elif make == "fifo":
        os.mkfifo(place)
    elif make == "folder":
        place.mkdir()
    elif make == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(place))
    else:
        place.symlink_to(place)
    before = place.lstat()
    with contextlib.suppress(OSError):
        write_whole(place, b"x")
        assert make == "null", "what cannot take it says so"
    assert os.path.samestat(place.lstat(), before)
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make devices")
def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.open("wb").close()
    except OSError:
        pytest.skip("this container makes no devices")
    write_whole(device, b"x" * 100_000)
    assert stat.S_ISCHR(device.stat().st_mode)
    with pytest.raises(OSError, match="a device has that name"):
        draft = tmp_path / "draft"
        draft.write_bytes(b"x")
        rename_over(draft, device)
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_pipe_with_a_reader_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        content = b"x" * 60_000  # as much as fits into the pipe behind the reader
        deadline = time.monotonic() + 20
        while True:
            try:
                write_whole(pipe, content)
                break
            except OSError:  # it has not opened the pipe yet
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert reader.stdout is not None and reader.stdout.read() == content


def test_a_folder_replaces_only_files_of_its_kind(tmp_path: Path) -> None:
    target, ours = tmp_path / "tables", {"a.csv", "inner/b.csv"}
    for number in range(2):
        with whole_folder(target, ours) as draft:
            (draft / "inner").mkdir()
            write_whole(draft / "a.csv", bytes([number]))
            write_whole(draft / "inner" / "b.csv", b"b")
        target.chmod(0o750)
    assert (target / "a.csv").read_bytes() == b"\1"
    assert (target.stat().st_mode & 0o777, [path.name for path in tmp_path.iterdir()]) == (0o750, ["tables"])
    for foreign in ("notes.txt", "inner/mine", "a.csv.bak"):
        (target / foreign).write_text("mine")
        with pytest.raises(OSError, match="other files are in it"), whole_folder(target, ours) as draft:
            write_whole(draft / "a.csv", b"new")
        assert ((target / foreign).read_text(), (target / "a.csv").read_bytes()) == ("mine", b"\1")
        (target / foreign).unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def test_what_came_into_a_folder_while_it_is_replaced_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "tables"
    target.mkdir()
    monkeypatch.setattr("nki_lab.file_system.require_own", lambda folder, ours: (folder / "mine").write_text("mine"))
    with whole_folder(target, {"a.csv"}) as draft:
        write_whole(draft / "a.csv", b"new")
    assert [path.read_text() for path in tmp_path.rglob("mine")] == ["mine"]


def test_a_private_folder_is_for_its_owner_and_removed(tmp_path: Path) -> None:
    with private_folder() as folder:
        write_whole(folder / "page.html", b"x")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
