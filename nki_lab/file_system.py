"""Files on Linux, macOS and Windows: locks, writes that last, and names that are taken over in one step."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

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
    """Let a file or folder take the name of another one, in one step.

    Windows refuses that while somebody has the other one open; readers close it soon. Raises OSError.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            os.replace(draft, target)  # noqa: PTH105 - either may be a text
        except PermissionError:
            if os.name != "nt" or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def relative(path: str | os.PathLike[str], folder: str | os.PathLike[str] = ".") -> str:
    """Return a path as it is from a folder; whole where none leads there, as to another drive of Windows."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        return os.path.abspath(path)  # noqa: PTH100 - links stay links
