"""Files on Linux, macOS and Windows: locks, writes that last, and names that are taken over in one step.

Whatever nki_lab writes goes through these functions; `tests/codebase/test_writers.py` refuses others. A file is there
whole or not at all, in the place where its links lead and with the rights that it had, and only a regular file is ever
replaced. Only what the caller names is removed.
"""

# ruff: noqa: PTH104, PTH105, PTH108, PTH116, PTH123
# Paths may be texts; files are opened as descriptors, whose status decides.

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_PATIENCE: Final = 1.0  # seconds that somebody may keep a file open on Windows
_PAUSE: Final = 0.02


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Keep other processes out of a folder that they lock too; False where the system has no such locks.

    A lock ends with its process. Windows has none for folders, and some network file systems have none at all.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    handle, has_locks = os.open(folder, os.O_RDONLY), False
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
            has_locks = True
        yield has_locks
    finally:
        os.close(handle)


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and those around it, to write into; what fails removes those of them again that are empty.

    Links are followed. Raises OSError.
    """
    folder = _target(folder)
    new = [item for item in (folder, *folder.parents) if not item.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):
            for item in new:
                item.rmdir()
        raise


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk. Windows writes a folder's names by itself."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rename_over(draft: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Let a regular file or a folder take the name of another one of its kind, or a new name, in one step.

    Windows refuses that while somebody has the other one open; readers close it soon. Raises OSError, also where the
    name is that of a device, a pipe or a link.
    """
    with suppress(FileNotFoundError):
        if stat.S_IFMT(os.lstat(draft).st_mode) != stat.S_IFMT(os.lstat(target).st_mode):
            raise OSError(errno.EEXIST, f"{_kind(os.lstat(target).st_mode)} has that name")
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            os.replace(draft, target)
        except PermissionError:
            if os.name != "nt" or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


_FULL: Final = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows has no quotas of this name
_TAKEN: Final = {errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP, errno.ENAMETOOLONG}


def refusal(path: str | os.PathLike[str], error: OSError | ValueError) -> tuple[str, str]:
    """Return why the system did not let a file or a folder be written, and what to do about it."""
    number = getattr(error, "errno", None)
    reason = str(getattr(error, "strerror", None) or error)
    if number in _FULL:
        return reason, "make room or choose another disk"
    if number not in _TAKEN:
        return reason, "choose a place that you may write to"
    if number in (errno.EEXIST, errno.ENOTDIR):
        with suppress(OSError, ValueError):
            reason = _in_the_way(Path(path)) or reason
    return reason, "choose another place"


def _in_the_way(path: Path) -> str:
    """Return what stands where a path leads through, or is to be, and is no folder; empty where nothing does."""
    for part in (*reversed(path.parents), path):
        with suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.stat(part).st_mode):
                return f"{part} is {_kind(os.stat(part).st_mode)}, not a folder"
    return ""


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "a device")


@contextmanager
def whole_file(path: str | os.PathLike[str], draft: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file to write into, which takes the name `path` when all is written and on the disk.

    Until then its name is `draft`, by default a hidden one beside it. Links are followed, and the rights of the file
    that was there are kept. What fails leaves it as it was. Into a terminal, a pipe with a reader, or /dev/null it
    writes as it goes; other devices are refused. Raises OSError.
    """
    target = _target(path)
    try:
        status = os.stat(target)
    except FileNotFoundError:
        status = None
    if status is not None and not stat.S_ISREG(status.st_mode):
        with _stream(target, status.st_mode) as stream:
            yield stream
        return
    draft = draft or beside(target)
    mode = 0o666 if status is None else stat.S_IMODE(status.st_mode)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with open(handle, "wb") as stream:
            yield stream
            stream.flush()
            if status is not None:
                _keep_rights(draft, status)
            os.fsync(stream.fileno())
        rename_over(draft, target)
        sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _target(path: str | os.PathLike[str]) -> Path:
    """Return where a path leads, over all links; OSError where they lead in a circle."""
    found = Path(os.path.realpath(path))
    if found.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return found


def _stream(target: Path, mode: int) -> BinaryIO:
    """Open a terminal, a pipe or a device without memory to write to it; OSError for what is none of these."""
    if not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
        raise OSError(errno.EEXIST, f"it is {_kind(mode)}, not a file")
    handle = os.open(target, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    os.set_blocking(handle, True)  # waiting for a reader is over: it was refused
    return open(handle, "wb")


def _keep_rights(draft: Path, status: os.stat_result) -> None:
    """Give a draft the owner, as far as the system allows it, and the rights of the file that it replaces."""
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(draft, status.st_uid, status.st_gid)
    draft.chmod(stat.S_IMODE(status.st_mode))


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the file system can tell."""
    with suppress(OSError):
        sync(folder)


def beside(target: Path) -> Path:
    """Return a name for a draft in the folder of a file or folder, that nothing has."""
    return target.with_name(f".{target.name[:100]}.{os.urandom(8).hex()}")


def write_whole(path: str | os.PathLike[str], content: bytes, draft: Path | None = None) -> None:
    """Write a file whole, as `whole_file` does."""
    with whole_file(path, draft) as stream:
        stream.write(content)


def write_new(path: Path, content: bytes) -> None:
    """Write a file of a new name at once; a killed process may leave it empty, hardly ever in part. Raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with open(handle, "wb", buffering=0) as stream:
        stream.write(content)
        os.fsync(stream.fileno())


def replace_content(path: str | os.PathLike[str], before: bytes, after: bytes) -> None:
    """Put `after` into the place of `before`; OSError where the file is no longer that, or cannot be written."""
    with whole_file(path) as stream:
        stream.write(after)
        if Path(path).read_bytes() != before:
            raise OSError(0, "it was changed meanwhile")


@contextmanager
def whole_folder(path: str | os.PathLike[str], ours: Container[str]) -> Iterator[Path]:
    """Make a folder to write files into, which takes the name `path` when all is written and on the disk.

    It replaces an earlier one whose files are all `ours`: paths from the folder, with slashes. A folder that holds
    anything else stays as it is. Links to a folder are followed, its rights are kept. Raises OSError.
    """
    target = _target(path)
    draft = beside(target)
    with made_folder(target.parent):
        draft.mkdir()
        try:
            yield draft
            for file in (*draft.rglob("*"), draft):
                sync(file)
            if target.is_dir():
                require_own(target, ours)
                draft.chmod(stat.S_IMODE(target.stat().st_mode))
                _exchange(draft, target, ours)
            else:
                rename_over(draft, target)
            sync_folder(target.parent)
        except BaseException:
            _remove(draft)
            raise


def _exchange(draft: Path, target: Path, ours: Container[str]) -> None:
    """Let a folder take the place of another one, and remove the files of that which are ours."""
    former = beside(target)
    rename_over(target, former)
    try:
        rename_over(draft, target)
    except BaseException:
        rename_over(former, target)
        raise
    for file in sorted(former.rglob("*"), reverse=True):
        if not file.is_dir() and file.relative_to(former).as_posix() not in ours:  # it came a moment ago
            continue
        with suppress(OSError):
            (file.rmdir if file.is_dir() and not file.is_symlink() else file.unlink)()
    with suppress(OSError):
        former.rmdir()


def _remove(draft: Path) -> None:
    """Remove a folder of ours that did not get its name."""
    with suppress(OSError):
        for file in sorted(draft.rglob("*"), reverse=True):
            (file.rmdir if file.is_dir() and not file.is_symlink() else file.unlink)()
        draft.rmdir()


def require_own(folder: Path, ours: Container[str]) -> None:
    """Raise OSError where a folder holds anything but regular files that are `ours`, and folders around them."""
    for file in folder.rglob("*"):
        mode = file.lstat().st_mode
        if stat.S_ISDIR(mode):
            continue
        if not stat.S_ISREG(mode) or file.relative_to(folder).as_posix() not in ours:
            raise OSError(errno.ENOTEMPTY, f"other files are in it, such as {file.name}")


def require_writable_folder(folder: Path) -> None:
    """Raise OSError where files cannot be written into a folder."""
    from tempfile import TemporaryFile

    with TemporaryFile(dir=folder):
        pass


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove those regular files of a folder that have these names, as far as the system allows it."""
    for name in names:
        with suppress(OSError):
            if stat.S_ISREG(os.lstat(folder / name).st_mode):
                os.unlink(folder / name)


def remove_file(path: Path) -> None:
    """Remove a regular file, or a link; OSError where there is none, or the system does not allow it."""
    os.unlink(path)


@contextmanager
def private_folder(prefix: str = "nki-lab-") -> Iterator[Path]:
    """Make a folder that only this user can look into, and remove it with all that is in it."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix=prefix) as name:
        yield Path(name)


def made_private_folder(prefix: str = "nki-lab-") -> Path:
    """Make a folder that only this user can look into, and that stays."""
    from tempfile import mkdtemp

    return Path(mkdtemp(prefix=prefix))


def take_name(draft: Path, path: Path) -> None:
    """Let a folder take a name that nothing has; OSError where a folder with files has it."""
    os.rename(draft, path)


def remove_folder(folder: Path) -> None:
    """Remove a folder that nki_lab has made under a name of its own, with all that is in it, as far as that goes."""
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)


def arrow_path(path: Path) -> str | bytes:
    """Return a path as Apache Arrow opens it: as it is on the disk, where names need not be UTF-8."""
    return str(path) if os.name == "nt" else os.fsencode(path)


def relative(path: str | os.PathLike[str], folder: str | os.PathLike[str] = ".") -> str:
    """Return a path as it is from a folder; whole where none leads there, as to another drive of Windows."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        return os.path.abspath(path)  # noqa: PTH100 - links stay links
