"""Files and folders of exports: they appear whole or not at all, and what the system refuses has a code."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Container, Iterator
from pathlib import Path
from typing import BinaryIO

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.file_system import refusal, require_own, whole_file, whole_folder


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write into, which takes the name `path` when all is written; until then the former one stays.

    Raises NKI021 if the disk does not take it, or the name is that of a folder or a device.
    """
    with refusing(path), whole_file(path) as stream:
        yield stream


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike[str], names: Container[str]) -> Iterator[Path]:
    """Make a folder to write files of these `names` into, which takes the name `path` when all is written.

    It replaces an earlier one of its kind. A folder that holds any other file stays as it is: NKI021, as where the
    disk does not take it.
    """
    with refusing(path), whole_folder(path, names) as draft:
        yield draft


def require_replaceable(path: str | os.PathLike[str], names: Container[str]) -> None:
    """Raise NKI021 where `replacing_folder` would refuse the path: no folder, or one with other files than `names`."""
    target = Path(path).absolute()
    with refusing(target), contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(target.stat().st_mode):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        require_own(target, names)


@contextlib.contextmanager
def refusing(target: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors of the system, and an empty path, as NKI021."""
    place = os.fspath(target)
    if not place:
        raise coded_error("NKI021", "not written: the path is empty", help="name a file or a folder")
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, NkiError):
            raise
        what, remedy = refusal(place, error)
        remedy += "; what was there before is unchanged"
        folder = Path(place).absolute().parent
        if isinstance(error, FileNotFoundError) and not folder.exists():
            what, remedy = f"there is no folder {folder}", "make the folder first, or choose another place"
        raise coded_error("NKI021", f"{place}: not written: {what}", help=remedy) from error
