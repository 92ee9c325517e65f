"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from nki_lab.diagnostic import NkiError, coded_error


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write into, which takes the name `path` when all is written; until then the former one stays.

    Raises NKI021 if the disk does not take it.
    """
    target = Path(path)
    with _draft(target) as draft:
        with draft.open("xb") as stream:
            yield stream
        draft.replace(target)


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike[str], names: Collection[str]) -> Iterator[Path]:
    """Make a folder to write files of these `names` into, which takes the name `path` when all is written.

    It replaces an earlier one of its kind. A folder that holds any other file stays as it is: NKI021, as where the
    disk does not take it.
    """
    target = Path(path).absolute()
    with _draft(target) as draft:
        draft.mkdir(parents=True)
        yield draft
        if target.is_dir() and not target.is_symlink():
            if any(file.name not in names for file in target.iterdir()):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
            former = _beside(target)
            target.replace(former)
            draft.replace(target)
            shutil.rmtree(former, ignore_errors=True)
        else:
            draft.replace(target)


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Give a name beside `target`, and remove what stands there if the write fails."""
    draft = _beside(target)
    try:
        try:
            yield draft
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        if isinstance(error, NkiError):
            raise
        raise coded_error(
            "NKI021",
            f"{target}: not written: {os.strerror(error.errno) if error.errno else error}",
            help="make room, or choose a place that you may write to; what was there before is unchanged",
        ) from error


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
