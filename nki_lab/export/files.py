"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Container, Iterator
from pathlib import Path
from typing import BinaryIO

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.file_system import rename_over


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write into, which takes the name `path` when all is written; until then the former one stays.

    Raises NKI021 if the disk does not take it.
    """
    target = Path(path)
    with _draft(target) as draft:
        with draft.open("xb") as stream:
            yield stream
        rename_over(draft, target)


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike[str], names: Container[str]) -> Iterator[Path]:
    """Make a folder to write files of these `names` into, which takes the name `path` when all is written.

    It replaces an earlier one of its kind. A folder that holds any other file stays as it is: NKI021, as where the
    disk does not take it.
    """
    target = Path(path).absolute()
    with _draft(target) as draft:
        draft.mkdir(parents=True)
        yield draft
        if target.is_dir() and not target.is_symlink():
            _require_own(target, names)
            former = _beside(target)
            rename_over(target, former)
            rename_over(draft, target)
            shutil.rmtree(former, ignore_errors=True)
        else:
            rename_over(draft, target)


def require_replaceable(path: str | os.PathLike[str], names: Container[str]) -> None:
    """Raise NKI021 where `replacing_folder` would refuse the path: no folder, or one with other files than `names`."""
    target = Path(path).absolute()
    with _refusing(target), contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(target.lstat().st_mode):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        _require_own(target, names)


def _require_own(folder: Path, names: Container[str]) -> None:
    if any(file.name not in names for file in folder.iterdir()):
        raise OSError(errno.ENOTEMPTY, "other files are in it")


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Give a name beside `target`, and remove what stands there if the write fails."""
    draft = _beside(target)
    with _refusing(target):
        try:
            yield draft
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            with contextlib.suppress(OSError, ValueError):
                draft.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _refusing(target: Path) -> Iterator[None]:
    """Raise errors of the system as NKI021."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, NkiError):
            raise
        raise coded_error(
            "NKI021",
            f"{target}: not written: {getattr(error, 'strerror', None) or error}",
            help="make room, or choose a place that you may write to; what was there before is unchanged",
        ) from error


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
